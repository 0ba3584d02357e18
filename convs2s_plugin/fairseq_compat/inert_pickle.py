"""Read a checkpoint of any age without running anything that it names.

Old checkpoints hold objects of classes that have moved or gone (meters, criterions), so that
``weights_only=True`` refuses them. Here every class that is not plain data is replaced by one
that keeps nothing and does nothing. Passed to ``torch.load`` as its ``pickle_module``.
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
    """Stands for an object whose class is not plain data."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def append(self, item):
        """Ignore an item of what was a list."""

    def extend(self, items):
        """Ignore items of what was a list."""


class Unpickler(pickle.Unpickler):
    """A pickle reader that knows tensors, plain containers and ``argparse.Namespace`` only."""

    def find_class(self, module: str, name: str):
        """The class or function for a name in the file, or Inert."""
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if module == "torch" and name.endswith("Storage") and name[: -len("Storage")] in _STORAGES:
            return getattr(torch, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        return Inert


def load(file, **options):
    """As ``pickle.load``, with the reader above."""
    return Unpickler(file, **options).load()
