"""Counts that declarations state, against those of the layers as they are built and compute."""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ....nn.flops import count_matmul_flops
from ..context import Context
from ..figures import figures
from .comparisons import Found
from .subject import Layer, Subject


def parameters(subject: Subject, bound: float) -> Found:
    found = Found(0.0)
    for layer in subject.layers:
        stated = figures([layer.spec], 1)
        built = sum(parameter.numel() for parameter in layer.module.parameters())
        if not stated.not_built and built != stated.parameters:
            where = f"{layer.text}: it states {stated.parameters:,} and has {built:,}"
            found = Found(max(found.deviation, abs(built - stated.parameters)), where)
    return found


class _Products(TorchDispatchMode):
    """Counts the products of operations that are not matrix products, such as weighted sums."""

    NAMES = ("mul", "mul_", "mv", "addcmul", "addcmul_", "addcdiv", "lerp", "lerp_")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ in self.NAMES:
            self.count += max(each.numel() for each in (result, *args) if isinstance(each, Tensor))
        return result


@torch.no_grad()
def multiply_adds(subject: Subject, bound: float) -> Found:
    """A cost states all matrix products, and as many others as the layer counts as such."""
    length, found = subject.length, Found(0.0)
    source = subject.source()
    for layer in subject.layers:
        stated = figures([layer.spec], length)
        if stated.no_cost:
            continue
        x = torch.randn(1, length, layer.spec.input_width, dtype=torch.float64)
        context = Context(torch.arange(length), length, source=source)

        def run(layer: Layer = layer, x: Tensor = x, context: Context = context) -> None:
            layer.module(x, context)

        with warnings.catch_warnings():
            # The first time that oneDNN is switched off, torch warns about Intel GPUs.
            warnings.simplefilter("ignore")
            least = count_matmul_flops(run).flops / 2 / length
        with _Products() as others:
            run()
        most = least + others.count / length
        beyond = max(least - stated.multiply_adds, stated.multiply_adds - most)
        if beyond > 0:
            where = (
                f"{layer.text}: it states {stated.multiply_adds:,} and computes "
                f"{least:,.0f}{f' to {most:,.0f}' if most > least else ''}"
            )
            found = Found(max(found.deviation, beyond), where)
    return found
