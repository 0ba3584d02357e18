"""Conversion of what ``inert_pickle`` has read to plain data.

omegaconf's containers become dictionaries and lists, numbers and arrays of NumPy become numbers and
lists, paths become text. All other objects are omitted.
"""

import argparse
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from .inert_pickle import Inert

_SCALARS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.Tensor,
    torch.Size,
    torch.dtype,
    torch.device,
)
# Numbers and text in NumPy's notation of types: no Python objects.
_NUMPY_TYPE = re.compile(r"\?|[bifuUS]\d+")
_OMEGACONF = re.compile(r"omegaconf\.(dictconfig\.DictConfig|listconfig\.ListConfig|nodes\.\w+)")
# Python allows 1,000 recursive calls, and each level of a container takes several.
MAX_NESTING = 100


class LeftOut(NamedTuple):
    """An object that is not plain data.

    Attributes:
        place: where it was, as in ``extra_state.train_meters``.
        name: its class, or the function whose result it is.
    """

    place: str
    name: str


class NotPlain(Exception):
    """An object cannot be converted; the message is its name."""


def plain(content: Any) -> tuple[Any, list[LeftOut]]:
    """Plain data, and the objects that were omitted.

    Args:
        content: what was read with ``inert_pickle``.
    Raises:
        RuntimeError: if containers are nested too deeply, or contain themselves.
    """
    walk = _Walk()
    try:
        return walk.value(content, ()), walk.left_out
    except NotPlain as error:
        return None, [LeftOut("", str(error))]


class _Walk:
    """One conversion. A container that occurs several times is converted once."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        # Identity -> container and its conversion; the container is kept, so that its identity
        # stays unique.
        self._done: dict[int, tuple[Any, Any]] = {}

    def value(self, value: Any, place: tuple[str, ...]) -> Any:
        if isinstance(value, _SCALARS):
            return value
        if id(value) in self._done:
            return self._done[id(value)][1]
        if len(place) > MAX_NESTING:
            raise RuntimeError(f"its containers are nested more than {MAX_NESTING} times.")
        converted = self._convert(value, place)
        self._done[id(value)] = value, converted
        return converted

    def _convert(self, value: Any, place: tuple[str, ...]) -> Any:
        if isinstance(value, Inert):
            return self.value(_equivalent(value), (*place, "()"))
        if isinstance(value, dict):
            made = type(value)(self._entries(dict.items(value), place))
            # torch keeps the versions of the modules in an attribute of a state dictionary.
            kept = {k: v for k, v in getattr(value, "__dict__", {}).items() if k == "_metadata"}
            if kept:
                made.__dict__.update(self._entries(kept.items(), place))
            return made
        if isinstance(value, argparse.Namespace):
            return argparse.Namespace(**dict(self._entries(vars(value).items(), place)))
        if isinstance(value, list | tuple | set | frozenset):
            items = self._entries(enumerate(value), place)
            return type(value)(item for _, item in items)
        # A class that pickle was to call, or an object that it could make.
        raise NotPlain(getattr(value, "name", type(value).__name__))

    def _entries(self, entries: Any, place: tuple[str, ...]) -> list[tuple[Any, Any]]:
        """The entries of a container that are plain data."""
        kept = []
        for key, value in entries:
            here = (*place, str(key))
            try:
                kept.append((self.value(key, place), self.value(value, here)))
            except NotPlain as error:
                shown = ".".join(part for part in here if part != "()")
                self.left_out.append(LeftOut(shown, str(error)))
        return kept


def _equivalent(value: Inert) -> Any:
    """Plain data that represents an object; its parts may be Inert."""
    convert = _CONVERSIONS.get(value.name)
    if convert is None and _OMEGACONF.fullmatch(value.name):
        convert = _omegaconf
    if convert is None:
        raise NotPlain(value.name)
    try:
        return convert(value)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise NotPlain(value.name) from error


def _omegaconf(node: Inert) -> Any:
    """The content of a container or the value of a node."""
    key = "_content" if "_content" in node.state else "_val"
    content = node.state[key]
    if isinstance(content, Inert) and node.name.endswith(".EnumNode"):
        # The class of an Enum is called with the value, which is the name in fairseq.
        return content.args[0]
    return content


def _numpy_type(dtype: Inert) -> np.dtype:
    """A type of numbers or text: ``numpy.dtype("f8", ...)``, then a state with the byte order."""
    code = dtype.args[0]
    if dtype.name != "numpy.dtype" or not _NUMPY_TYPE.fullmatch(code):
        raise NotPlain(dtype.name)
    order = dtype.state[1] if dtype.state else "="
    return np.dtype(code).newbyteorder(order)


def _numpy_number(call: Inert) -> Any:
    dtype, data = call.args
    return np.frombuffer(data, _numpy_type(dtype))[0].item()


def _numpy_array(call: Inert) -> Any:
    _, shape, dtype, is_fortran, data = call.state
    array = np.frombuffer(data, _numpy_type(dtype))
    return array.reshape(shape, order="F" if is_fortran else "C").tolist()


_CONVERSIONS: dict[str, Callable[[Inert], Any]] = {
    "collections.defaultdict": lambda call: dict(call.items),
    "collections.Counter": lambda call: dict(*call.args),
    "collections.deque": lambda call: call.items or list(call.args[0]),
    "omegaconf.base.UnionNode": _omegaconf,
    **{
        f"numpy.{core}.multiarray.{name}": convert
        for core in ("core", "_core")
        for name, convert in (("scalar", _numpy_number), ("_reconstruct", _numpy_array))
    },
    **{
        f"pathlib{module}.{pure}{system}Path": lambda call: os.path.join(*call.args)
        for module in ("", "._local")
        for pure in ("", "Pure")
        for system in ("", "Posix", "Windows")
    },
}
