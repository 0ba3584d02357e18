"""A pickle module that reads checkpoints of any age without executing code from them.

Old checkpoints contain objects of classes that have moved or no longer exist (meters,
criterions), so ``torch.load`` with ``weights_only=True`` rejects them. This module, given to
``torch.load`` as ``pickle_module``, replaces each object that is not plain data by an ``Inert``,
which ``plain_data`` converts or omits.
"""

import argparse
import collections
import functools
import pickle
from typing import Any, ClassVar

import torch


class Inert:
    """A placeholder for an object that is not plain data.

    It does nothing but record how the object was to be made. There is one subclass for each name in
    the file.

    Attributes:
        name: name of the class or function, such as ``fairseq.meters.AverageMeter``.
        args: the arguments of its call.
        state: the state that the object was to be given; None without one.
        items: what was to be appended, or pairs of keys and values that were to be set.
    """

    name: ClassVar[str] = ""
    args: tuple[Any, ...]
    state: Any
    items: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> "Inert":
        """Record the arguments; pickle does not call ``__init__`` for every object."""
        self = super().__new__(cls)
        self.args, self.state, self.items = args, None, []
        return self

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, item: Any) -> None:
        """Record the item of a list."""
        self.items.append(item)

    def extend(self, items: Any) -> None:
        """Record the items of a list."""
        self.items.extend(items)


def encode_latin1(text: str, encoding: str) -> bytes:
    """The bytes that pickle writes as text, in protocols below 3."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding}")
    return text.encode("latin1")


_PLAIN = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("argparse", "Namespace"): argparse.Namespace,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("_codecs", "encode"): encode_latin1,
    ("torch._utils", "_rebuild_tensor"): torch._utils._rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    ("torch._utils", "_rebuild_parameter"): torch._utils._rebuild_parameter,
    ("torch", "Size"): torch.Size,
    ("torch", "device"): torch.device,
}
_STORAGES = {"Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"}
# Names of Python 2, which pickle writes in protocols below 3.
_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


@functools.cache
def _inert(name: str) -> type[Inert]:
    return type("Inert", (Inert,), {"name": name})


class Unpickler(pickle._Unpickler):
    """An unpickler that creates only tensors, plain containers, Namespaces and Inerts.

    It is written in Python: the one in C allocates as much memory as a number in the file says.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of a name in the file, or Inert if it is not plain data."""
        module = _MODULES.get(module, module)
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if module == "torch" and name.endswith("Storage") and name[: -len("Storage")] in _STORAGES:
            return getattr(torch, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        return _inert(f"{module}.{name}")


def load(file: Any, **options: Any) -> Any:
    """Do the same as ``pickle.load``, with the unpickler of this module."""
    return Unpickler(file, **options).load()
