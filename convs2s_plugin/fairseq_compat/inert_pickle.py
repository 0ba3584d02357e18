"""A pickle module that reads checkpoints of any age without executing code from them.

Old checkpoints contain objects of classes that have moved or no longer exist (meters,
criterions), so that ``torch.load`` with ``weights_only=True`` rejects them. This module, given to
``torch.load`` as ``pickle_module``, replaces each object that is not plain data by an ``Inert``.
"""

import argparse
import collections
import pickle

import torch

_PLAIN = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("argparse", "Namespace"): argparse.Namespace,
    ("torch._utils", "_rebuild_tensor"): torch._utils._rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    ("torch._utils", "_rebuild_parameter"): torch._utils._rebuild_parameter,
    ("torch", "Size"): torch.Size,
    ("torch", "device"): torch.device,
}
_STORAGES = {"Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"}


class Inert:
    """A placeholder for an object that is not plain data; it ignores its arguments and state."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def append(self, item):
        """Ignore the item of a list."""

    def extend(self, items):
        """Ignore the items of a list."""


class Unpickler(pickle.Unpickler):
    """An unpickler that creates only tensors, plain containers, Namespaces and Inerts."""

    def find_class(self, module: str, name: str):
        """Return the class or function of a name in the file, or Inert if it is not plain data."""
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if module == "torch" and name.endswith("Storage") and name[: -len("Storage")] in _STORAGES:
            return getattr(torch, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        return Inert


def load(file, **options):
    """Do the same as ``pickle.load``, with the unpickler of this module."""
    return Unpickler(file, **options).load()
