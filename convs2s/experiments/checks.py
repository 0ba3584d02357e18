"""Checks of the values in an experiment file; every error names the place of its value."""

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from ..common.errors import UserError
from .file import Options

# The options that the runs set themselves.
RESERVED = {
    "fairseq-train": (
        *("user-dir", "save-dir", "seed", "max-update", "log-format", "log-interval", "log-file"),
        *("cpu", "distributed-world-size", "source-lang", "target-lang", "restore-file", "no-save"),
        *(
            "keep-last-epochs",
            "keep-interval-updates",
            "no-epoch-checkpoints",
            "no-last-checkpoints",
            "no-progress-bar",
        ),
    ),
    "fairseq-generate": (
        *("user-dir", "path", "gen-subset", "results-path", "source-lang", "target-lang", "cpu"),
        *("distributed-world-size", "quiet"),
    ),
}


class Checks:
    """Checks values. ``place`` is where a value stands, such as ``systems.NAME.seeds``.

    Args:
        path: the file, for errors and for relative paths.
    """

    def __init__(self, path: Path):
        self.path = path

    def variants(self, content: object, place: str, program: str) -> tuple[Options, ...]:
        """A list of options of a program, or a grid of values."""
        if content is None:
            return ()
        if isinstance(content, dict):
            for name, values in content.items():
                if not isinstance(values, list) or not values:
                    self.wrong(f"{place}.{name}", values, "a list of values, one for each variant")
            content = [
                dict(zip(content, values)) for values in itertools.product(*content.values())
            ]
        if not isinstance(content, list):
            self.wrong(place, content, "a list of options, or lists of values for options")
        return tuple(
            self.options(options, f"{place}[{number}]", program)
            for number, options in enumerate(content, start=1)
        )

    def options(self, content: object, place: str, program: str) -> Options:
        """Options of a program; {} if there are none."""
        if content is None:
            return {}
        if not isinstance(content, dict):
            self.wrong(place, content, "options: names without '--', and values")
        for name, value in content.items():
            if not isinstance(name, str) or not re.fullmatch(r"\w[\w-]*", name):
                self.fail(f"{place} has the option '{name}': write its name without '--'")
            if name.replace("_", "-") in RESERVED[program]:
                self.fail(
                    f"{place} has the option {name}, which `convs2s experiment` sets itself: "
                    "remove it"
                )
            if value is not None and not isinstance(value, str | int | float):
                self.wrong(f"{place}.{name}", value, "text, a number, true, false or null")
        return dict(content)

    def section(self, content: object, place: str, allowed: Iterable[str]) -> dict[str, Any]:
        """A mapping that has only allowed keys."""
        allowed = tuple(allowed)
        if not isinstance(content, dict):
            self.wrong(place or "its content", content, f"a section with {', '.join(allowed)}")
        for key in content:
            if key not in allowed:
                has = f"{place} has" if place else "there is"
                self.fail(f"{has} an unknown key '{key}'; allowed: {', '.join(allowed)}")
        return content

    def text(self, value: object, place: str) -> str | None:
        if value is not None and not isinstance(value, str):
            self.wrong(place, value, "text (put it in quotes)")
        return value

    def texts(self, value: object, place: str) -> tuple[str, ...]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not values:
            self.wrong(place, value, "a list of names")
        for item in values:
            if not isinstance(item, str):
                self.wrong(place, value, "a list of names")
        return tuple(values)

    def integer(self, value: Any, place: str, minimum: int, optional: bool = False) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            self.wrong(place, value, f"an integer of at least {minimum}")
        return value

    def seeds(self, value: object, place: str) -> tuple[int, ...]:
        values = value if isinstance(value, list) else [value]
        for item in values:
            self.integer(item, place, 0)
        if len(set(values)) < len(values):
            self.wrong(place, value, "a list of different integers")
        return tuple(values)

    def wrong(self, place: str, value: object, expected: str) -> NoReturn:
        self.fail(f"{place} is {'empty' if value is None else repr(value)}: it must be {expected}")

    def fail(self, message: str) -> NoReturn:
        raise UserError(f"{self.path}: {message}.")

    def share(self, value: object, place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            self.wrong(place, value, "a share of the updates, above 0 and at most 1")
        return value
