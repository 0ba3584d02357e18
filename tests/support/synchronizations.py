"""Counts how often a program waits for the device: the values of tensors that Python reads."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# Operators whose result, or the shape of whose result, must be known on the host. ``.item()``,
# ``bool(x)``, ``int(x)`` and ``float(x)`` are the first.
OPERATORS = {
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::nonzero",
    "aten::masked_select",
    "aten::repeat_interleave.Tensor",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
}
# Methods that copy a whole tensor to the host; ``.item()`` of each element is not dispatched then.
# ``.numpy()`` accepts only tensors that are on the host already.
METHODS = {torch.Tensor.tolist, torch.Tensor.cpu}


class _Operators(TorchDispatchMode):
    def __init__(self, counts: Counter[str]):
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        by_mask = name.startswith("aten::index") and any(
            getattr(index, "dtype", None) in (torch.bool, torch.uint8)
            for argument in args
            if isinstance(argument, (list, tuple))
            for index in argument
        )
        if name in OPERATORS or by_mask:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class _Methods(TorchFunctionMode):
    def __init__(self, counts: Counter[str]):
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in METHODS:
            self.counts[func.__name__] += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def counted_synchronizations() -> Iterator[Counter[str]]:
    """Count the reads of tensors inside the body, by operator or method."""
    counts: Counter[str] = Counter()
    with _Methods(counts), _Operators(counts):
        yield counts
