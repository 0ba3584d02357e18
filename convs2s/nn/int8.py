"""Linear maps in 8 bits, for generation on a CPU.

A weight has one scale for each output channel, and an input one for each token. Both are quantized
symmetrically: the largest absolute value becomes 127. ``torch._int_mm`` multiplies the integers and
adds them up exactly in 32 bits; the two scales and the bias follow in single precision.
"""

import functools
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LARGEST = 127
# Added to the scale of each token, so that a token of zeros has one too.
_SMALLEST = torch.tensor(1e-30)
# Largest number of outputs, and smallest number of tokens, of a product: its sums should fit into a
# cache of 2 MiB, but each product reads the whole weight.
MAX_OUTPUTS, MIN_TOKENS = 2**19, 128
INSTRUCTIONS = ("avx512_vnni", "amx_int8")
# The end of the names of integers in a state dictionary.
SUFFIX = ".int8"


@functools.cache
def is_supported() -> bool:
    """Whether this CPU has instructions for products in 8 bits (VNNI of AVX-512, or AMX).

    Without them, sums of two products may saturate at 16 bits.
    """
    return has_any(INSTRUCTIONS)


def has_any(instructions: Iterable[str]) -> bool:
    """Whether this CPU has one of some instructions, by torch's names; old versions cannot tell."""
    get_capabilities = getattr(torch.cpu, "get_capabilities", None)
    return get_capabilities is not None and any(map(get_capabilities().get, instructions))


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize each row by its largest absolute value.

    Args:
        x: N x C.
    Returns:
        Integers N x C from -127 to 127, and the scales N x 1: a row is about its integers times its
        scale.
    """
    # ``aminmax`` and ``vector_norm`` are ten times as slow.
    buffer = x.abs()
    scales = torch.add(_SMALLEST, buffer.amax(1, True), alpha=1 / LARGEST)
    integers = torch.div(x, scales, out=buffer).round_()
    return integers.to(torch.int8, memory_format=torch.contiguous_format), scales


def _multiply(
    x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None, out: Tensor | None = None
) -> Tensor:
    """Map N x C to N x C'.

    Args:
        x: N x C.
        weight, scale: integers C' x C, and their scales C'.
        bias: C', or None.
        out: where to write the result; None for a new tensor.
    """
    integers, scales = quantize_rows(x)
    sums = torch._int_mm(integers, weight.t())
    out = sums.to(x.dtype) if out is None else out.copy_(sums)
    out.mul_(scales)
    return out.mul_(scale) if bias is None else torch.addcmul(bias, out, scale, out=out)


class Int8Matrix(nn.Module):
    """A weight C' x C in 8 bits, in place of a parameter of a module.

    Args:
        weight: C' x C.
    Attributes:
        int8: the integers, C' x C.
        scale: C', the scales of the output channels.
    """

    int8: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor):
        super().__init__()
        integers, scale = quantize_rows(weight.detach())
        self.register_buffer("int8", integers)
        self.register_buffer("scale", scale.squeeze(1))

    def __len__(self) -> int:
        return len(self.int8)

    def linear(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map ... x C to ... x C', as ``F.linear`` does, without a gradient.

        Args:
            x: ... x C.
            bias: C', or None.
        """
        with torch.no_grad():
            if x.device.type != "cpu" or not is_supported():
                return F.linear(x, self.dense().to(x.dtype), bias)
            weight, scale = self.int8, self.scale
            rows = x.reshape(-1, x.size(-1))
            number, outputs = rows.size(0), weight.size(0)
            size = max(MIN_TOKENS, MAX_OUTPUTS // outputs)
            if 0 < number <= size:
                out = _multiply(rows, weight, scale, bias)
            else:
                out = rows.new_empty(number, outputs)
                for start in range(0, number, size):
                    part = slice(start, start + size)
                    _multiply(rows[part], weight, scale, bias, out[part])
            return out.view(*x.shape[:-1], outputs)

    def dense(self) -> Tensor:
        """The weight in single precision, C' x C."""
        return self.int8.to(self.scale.dtype).mul_(self.scale.unsqueeze(1))

    def look_up(self, index: Tensor) -> Tensor:
        """Rows in single precision, ... x C, for indices of any shape."""
        rows = F.embedding(index, self.int8).to(self.scale.dtype)
        return rows.mul_(self.scale[index].unsqueeze(-1))

    def select(self, index: Tensor) -> "Int8Matrix":
        """The matrix K x C of K rows."""
        selected = Int8Matrix.__new__(Int8Matrix)
        nn.Module.__init__(selected)
        selected.register_buffer("int8", self.int8.index_select(0, index))
        selected.register_buffer("scale", self.scale.index_select(0, index))
        return selected


Weight = Tensor | Int8Matrix


def dense(weight: Weight) -> Tensor:
    """A weight C' x C in floating-point numbers."""
    return weight.dense() if isinstance(weight, Int8Matrix) else weight


def select_rows(weight: Weight, index: Tensor) -> Weight:
    """K rows of a weight C' x C, K x C."""
    if isinstance(weight, Int8Matrix):
        return weight.select(index)
    return weight.index_select(0, index)


def quantize_parameter_(module: nn.Module, name: str = "weight") -> None:
    """Replace a parameter C' x C of a module with an ``Int8Matrix`` of the same name, once."""
    weight = getattr(module, name)
    if not isinstance(weight, Int8Matrix):
        delattr(module, name)
        setattr(module, name, Int8Matrix(weight))


def quantize_weights_(model: nn.Module) -> None:
    """Quantize the weights of all modules that have a method ``quantize_weights_``.

    Args:
        model: a model for inference, whose weight normalization is folded.
    """
    for module in list(model.modules()):
        quantize = getattr(module, "quantize_weights_", None)
        if callable(quantize):
            quantize()


def dequantize_weights_(model: nn.Module) -> None:
    """Replace each ``Int8Matrix`` with a parameter in single precision."""
    for module in list(model.modules()):
        for name, matrix in list(module.named_children()):
            if isinstance(matrix, Int8Matrix):
                delattr(module, name)
                setattr(module, name, nn.Parameter(matrix.dense(), requires_grad=False))


def has_int8(model: nn.Module) -> bool:
    """Whether a model computes in 8 bits anywhere."""
    return any(isinstance(module, Int8Matrix) for module in model.modules())


def is_quantized(names: Iterable[str]) -> bool:
    """Whether the names of a state dictionary are those of a quantized model."""
    return any(name.endswith(SUFFIX) for name in names)
