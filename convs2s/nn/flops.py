"""Floating-point operations of matrix multiplications, by torch's counter."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

aten = torch.ops.aten

# Recurrent layers on a GPU are single operations, for which torch's counter has no formula. On a
# CPU without oneDNN, they consist of matrix multiplications.
NOT_COUNTED = ("_cudnn_rnn", "miopen_rnn")


def _addmm_flops(added: Any, left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    return 2 * left[0] * left[1] * right[1]


def _mm_flops(left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    return 2 * left[0] * left[1] * right[1]


def _attention_flops(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward_flops(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any
) -> int:
    return sdpa_backward_flop_count(gradient, query, key, value)


def _conv_tbc_flops(
    inputs: Any, weight: Any, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    kernel_size, in_channels, out_channels = weight
    return 2 * out_shape[0] * out_shape[1] * kernel_size * in_channels * out_channels


def _linear_flops(inputs: Any, weight: Any, *args: Any, **kwargs: Any) -> int:
    return 2 * math.prod(inputs) * weight[0]


# Operations that torch's counter has no formula for.
FLOP_FORMULAS = {
    aten.addmm_: _addmm_flops,
    aten.conv_tbc: _conv_tbc_flops,
    aten._int_mm: _mm_flops,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}
if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    FLOP_FORMULAS[torch.ops.mkldnn._linear_pointwise] = _linear_flops


class MatmulFlops(NamedTuple):
    """Floating-point operations of all matrix multiplications in a function.

    Attributes:
        flops: the number of operations.
        not_counted: names of operations with matrix multiplications that are not in ``flops``.
    """

    flops: int
    not_counted: list[str]


class _OperationNames(TorchDispatchMode):
    """Records the names of all operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def count_matmul_flops(function: Callable[[], object]) -> MatmulFlops:
    """Call a function once and count its matrix multiplications, backward passes included."""
    counter = FlopCounterMode(display=False, custom_mapping=FLOP_FORMULAS)
    with torch.backends.mkldnn.flags(enabled=False), _OperationNames() as operations, counter:
        function()
    not_counted = (
        name for name in operations.names if name.removesuffix("_backward") in NOT_COUNTED
    )
    return MatmulFlops(counter.get_total_flops(), sorted(not_counted))
