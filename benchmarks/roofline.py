"""How far work is from the time that its matrix products alone would take on this machine."""

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

# Columns of the square matrices whose product says what a machine can do.
SIZES = {"cpu": 2048, "cuda": 8192}
# In float16, which many processors compute a hundred times slower than other types.
SIZE_OF_HALF_ON_CPU = 256
PRODUCT_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "half": torch.float16,
}
# Recurrent layers as one operation, whose products torch's counter cannot see.
UNSEEN = ("lstm", "gru", "rnn", "mkldnn_rnn_layer", "_cudnn_rnn")


def _addmm_flops(added, left, right, *args, **kwargs) -> int:
    return 2 * left[0] * left[1] * right[1]


def _attention_flops(query, key, value, *args, **kwargs) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward_flops(gradient, query, key, value, *args, **kwargs) -> int:
    return sdpa_backward_flop_count(gradient, query, key, value)


def _conv_tbc_flops(inputs, weight, *args, out_shape=None, **kwargs) -> int:
    width, channels, outputs = weight
    return 2 * out_shape[0] * out_shape[1] * width * channels * outputs


def _linear_flops(inputs, weight, *args, **kwargs) -> int:
    return 2 * math.prod(inputs) * weight[0]


# Products that torch's counter has no formula for.
MORE = {
    aten.addmm_: _addmm_flops,
    aten.conv_tbc: _conv_tbc_flops,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}
if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    MORE[torch.ops.mkldnn._linear_pointwise] = _linear_flops


class Products(NamedTuple):
    """Floating-point operations of all matrix products, and operations that were not counted."""

    flops: int
    not_counted: list[str]


class _Names(TorchDispatchMode):
    """Remembers what was called."""

    def __init__(self):
        super().__init__()
        self.called = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.called.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def count_products(work: Callable[[], object]) -> Products:
    """Do the work once and count its products, those of gradients included."""
    with _Names() as names, FlopCounterMode(display=False, custom_mapping=MORE) as counter:
        work()
    unseen = (name for name in names.called if name.removesuffix("_backward") in UNSEEN)
    return Products(counter.get_total_flops(), sorted(unseen))


class Product(NamedTuple):
    """One large matrix product, as work."""

    work: Callable[[], object]
    flops: int


def large_product(dtype: str, device: str) -> Product:
    """A product that runs about as fast as this machine can.

    Args:
        dtype: one of setting.DTYPES.
        device: one of setting.DEVICES.
    """
    kind = PRODUCT_DTYPES[dtype]
    size = SIZES[device]
    if kind == torch.float16 and device == "cpu":
        size = SIZE_OF_HALF_ON_CPU
    left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    return Product(lambda: matmul_transposed(left, right), 2 * size**3)
