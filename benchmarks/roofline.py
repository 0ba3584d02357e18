"""Floating-point operations of matrix multiplications, and the speed of a large one.

Together they give the share of a workload's time that its matrix multiplications would take at the
machine's speed.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from convs2s_plugin.nn.linear import matmul_transposed

aten = torch.ops.aten

# Rows and columns of the large matrices.
SIZES = {"cpu": 2048, "cuda": 8192}
# Many CPUs multiply float16 about a hundred times slower than other types.
FLOAT16_SIZE_ON_CPU = 256
MATMUL_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "half": torch.float16,
}
# Recurrent layers are single operations, for which torch's counter has no formula.
NOT_COUNTED = ("lstm", "gru", "rnn", "mkldnn_rnn_layer", "_cudnn_rnn")


def _addmm_flops(added, left, right, *args, **kwargs) -> int:
    return 2 * left[0] * left[1] * right[1]


def _attention_flops(query, key, value, *args, **kwargs) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward_flops(gradient, query, key, value, *args, **kwargs) -> int:
    return sdpa_backward_flop_count(gradient, query, key, value)


def _conv_tbc_flops(inputs, weight, *args, out_shape=None, **kwargs) -> int:
    kernel_size, in_channels, out_channels = weight
    return 2 * out_shape[0] * out_shape[1] * kernel_size * in_channels * out_channels


def _linear_flops(inputs, weight, *args, **kwargs) -> int:
    return 2 * math.prod(inputs) * weight[0]


# Operations that torch's counter has no formula for.
FLOP_FORMULAS = {
    aten.addmm_: _addmm_flops,
    aten.conv_tbc: _conv_tbc_flops,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}
if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    FLOP_FORMULAS[torch.ops.mkldnn._linear_pointwise] = _linear_flops


class MatmulFlops(NamedTuple):
    """Floating-point operations of all matrix multiplications in a function.

    Attributes:
        flops: their number.
        not_counted: names of operations with matrix multiplications that are not in ``flops``.
    """

    flops: int
    not_counted: list[str]


class _OperationNames(TorchDispatchMode):
    """Records the names of all operations that run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def count_matmul_flops(function: Callable[[], object]) -> MatmulFlops:
    """Call a function once and count its matrix multiplications, backward passes included."""
    counter = FlopCounterMode(display=False, custom_mapping=FLOP_FORMULAS)
    with _OperationNames() as operations, counter:
        function()
    not_counted = (
        name for name in operations.names if name.removesuffix("_backward") in NOT_COUNTED
    )
    return MatmulFlops(counter.get_total_flops(), sorted(not_counted))


class Matmul(NamedTuple):
    """One matrix multiplication as a function, and its floating-point operations."""

    run: Callable[[], torch.Tensor]
    flops: int


def large_matmul(dtype: str, device: str) -> Matmul:
    """A matrix multiplication that is large enough to run at about the machine's full speed.

    Args:
        dtype: one of setting.DTYPES.
        device: one of setting.DEVICES.
    """
    torch_dtype = MATMUL_DTYPES[dtype]
    size = SIZES[device]
    if torch_dtype == torch.float16 and device == "cpu":
        size = FLOAT16_SIZE_ON_CPU
    left, right = (torch.randn(size, size, device=device).to(torch_dtype) for _ in range(2))
    return Matmul(lambda: matmul_transposed(left, right), 2 * size**3)
