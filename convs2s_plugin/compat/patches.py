"""Changes of fairseq: each is declared with ``patched``, and installed with all of its tier."""

import enum
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from convs2s.common.errors import UserError

PACKAGES = ("convs2s", "convs2s_plugin")
VARIABLE = "CONVS2S_COMPAT"
MODES = ("0", "1", "all")
# The attribute that marks a replacement.
MARK = "_convs2s_tier"


class Tier(enum.Enum):
    """When a change is made.

    NEEDED: when the plugin is imported, because its models need it.
    EXTRA: when a task, model, criterion or scheduler of the plugin is used, or a command of
        ``convs2s``; other models see fairseq unchanged.
    TASK: when the task ``convs2s_translation`` is set up.
    """

    NEEDED = "needed"
    EXTRA = "extra"
    TASK = "task"


class Patch(NamedTuple):
    """A replacement of a function of fairseq.

    Attributes:
        owner: the module or class of the function; text names a module that is changed only if it
            is already imported, such as ``fairseq_cli.generate``.
        name: the name of the function in it.
        tier: when it is replaced.
        replacement: the new function; its first argument is the original one.
    """

    owner: Any
    name: str
    tier: Tier
    replacement: Callable[..., Any]

    def owners(self) -> Iterator[Any]:
        """Yield the modules or classes that have the function."""
        if isinstance(self.owner, str):
            yield from modules(self.owner)
        else:
            yield self.owner


def modules(name: str) -> Iterator[Any]:
    """Yield the module of this name if it is imported, and the program of `python -m NAME`."""
    main = sys.modules.get("__main__")
    if name in sys.modules:
        yield sys.modules[name]
    if getattr(getattr(main, "__spec__", None), "name", None) == name:
        yield main


_patches: list[Patch] = []
_steps: list[tuple[Tier, Callable[[], None]]] = []
_tiers: set[Tier] = set()


def mode() -> str:
    """The value of CONVS2S_COMPAT; "1" if it is not set.

    Raises:
        UserError: if it is not one of ``MODES``.
    """
    value = os.environ.get(VARIABLE, "1")
    if value not in MODES:
        raise UserError(
            f"The environment variable {VARIABLE} is '{value}', but must be 0, which leaves "
            "fairseq unchanged, or 1, or all, which also changes it for the models of other "
            "packages."
        )
    return value


def patched(
    owner: Any, name: str, tier: Tier, when: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as the replacement of another one.

    Args:
        owner, name, tier: see ``Patch``.
        when: whether this version of fairseq needs it.
    """

    def declare(replacement: Callable[..., Any]) -> Callable[..., Any]:
        if when:
            _patches.append(Patch(owner, name, tier, replacement))
        return replacement

    return declare


def step(tier: Tier) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Declare a function that makes a change other than a replacement, however often it runs."""

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        _steps.append((tier, function))
        return function

    return declare


def install(tier: Tier) -> None:
    """Make the changes of a tier, unless CONVS2S_COMPAT is 0; none is made twice."""
    if mode() == "0":
        return
    _tiers.add(tier)
    for patch in _patches:
        if patch.tier is tier:
            for owner in patch.owners():
                _replace(owner, patch)
    for of_tier, function in _steps:
        if of_tier is tier:
            function()


def install_for(parts: Iterable[Any]) -> None:
    """Make the changes of ``Tier.EXTRA`` if a model, task or other class is of this package.

    Args:
        parts: classes; others, such as None, are ignored.
    """
    if any(
        base.__module__.split(".")[0] in PACKAGES
        for part in parts
        for base in getattr(part, "__mro__", ())
    ):
        install(Tier.EXTRA)


def is_installed(tier: Tier) -> bool:
    """Whether the changes of a tier were made."""
    return tier in _tiers


def _replace(owner: Any, patch: Patch) -> None:
    original = getattr(owner, patch.name)
    if hasattr(original, MARK):
        return

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return patch.replacement(original, *args, **kwargs)

    setattr(replacement, MARK, patch.tier)
    is_static = isinstance(inspect.getattr_static(owner, patch.name), staticmethod)
    setattr(owner, patch.name, staticmethod(replacement) if is_static else replacement)
