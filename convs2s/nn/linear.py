"""Linear maps, with or without weight normalization, by the fastest library for a tensor."""

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .int8 import Int8Matrix, Weight, quantize_parameter_, select_rows

# For single precision on a CPU, torch does not call oneDNN, but another library. On an AMD EPYC
# with AVX-512, oneDNN took up to a quarter less time for most sizes, and half the time for a few
# rows. It takes 20 microseconds to start, though, which is longer than a small product takes: one
# with fewer multiplications than this.
SMALL_PRODUCT = 600_000
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
    """``F.linear`` by the fastest library for x.

    Args:
        x: ... x C.
        weight: C' x C, in 8 bits or not.
        bias: C', or None.
    Returns:
        ... x C'.
    """
    if isinstance(weight, Int8Matrix):
        return weight.linear(x, bias)
    if weight.dtype == torch.bfloat16 and _is_generating_in_bfloat16(x):
        # torch would write the bias into the result first, and then add the product.
        return _onednn_linear(x.to(torch.bfloat16), weight, bias)
    # In this order: a graph that is made must not depend on the size of x.
    if (
        not _is_for_onednn(x)
        or weight.dtype != x.dtype
        or x.numel() * weight.size(0) < SMALL_PRODUCT
    ):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        # A view that an autograd function returns cannot be changed in place: reshape outside.
        rows = _OneDnnLinear.apply(x.reshape(-1, x.size(-1)), weight, bias)
        return rows.view(*x.shape[:-1], len(weight))
    return _onednn_linear(x, weight, bias)


def matmul_transposed(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b.t()`` by the fastest library, without a gradient.

    Args:
        a: M x K.
        b: N x K.
    Returns:
        M x N.
    """
    return _onednn_linear(a, b) if _is_for_onednn(a) else torch.mm(a, b.t())


class Linear(nn.Linear):
    """``nn.Linear`` by the fastest library; arguments are those of ``nn.Linear``."""

    def forward(self, x: Tensor) -> Tensor:
        """Map ... x ``in_features`` to ... x ``out_features``."""
        return linear(x, self.weight, self.bias)

    def quantize_weights_(self) -> None:
        """Replace the weight with one in 8 bits, for inference."""
        quantize_parameter_(self)


class RectifiedLinear(Linear):
    """A linear map and ReLU as one module; arguments are those of ``nn.Linear``.

    ReLU is computed in place, since allocating fresh memory takes longer than ReLU. As one module,
    it changes nothing that a module has returned, so hooks can be registered.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map ... x ``in_features`` to ... x ``out_features``."""
        return super().forward(x).relu_()


class WeightNormLinear(nn.Module):
    """``y = x W^T + b`` with ``W = g v / |v|``, with one norm per output channel.

    The initialization is ConvS2S's (section 3.5, appendix A.3): normal with variance
    ``gain * (1 - dropout) / in_features``, and zero biases.

    Args:
        in_features: input channels.
        out_features: output channels.
        dropout: probability of dropping an input channel before this layer (0).
        gain: variance of the output over that of the input (1; 4 before a GLU).
    """

    weight: nn.Parameter | Int8Matrix | None
    # W, and what shows whether v and g are still those that it was computed from.
    _kept: tuple[Tensor, list[Any], list[Tensor]] | None = None

    def __init__(
        self, in_features: int, out_features: int, dropout: float = 0.0, gain: float = 1.0
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        weight = torch.empty(out_features, in_features)
        nn.init.normal_(weight, std=math.sqrt(gain * (1.0 - dropout) / in_features))
        # Without memory there is no norm, and torch would import its compiler to say so.
        norm = weight[:, :1] if weight.is_meta else weight.norm(dim=1, keepdim=True)
        self.weight_v, self.weight_g = nn.Parameter(weight), nn.Parameter(norm)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.register_parameter("weight", None)

    def forward(self, x: Tensor) -> Tensor:
        """Map ... x in_features to ... x out_features."""
        return linear(x, self.effective_weight(), self.bias)

    def effective_weight(self) -> Weight:
        """W, out_features x in_features; in evaluation mode without gradients, W is kept."""
        if self.weight is not None:
            return self.weight
        v, g = self.weight_v, self.weight_g
        if self.training or torch.is_grad_enabled() or not _count_changes(v, g):
            self._kept = None
            return torch._weight_norm(v, g, 0)
        stamps = [(factor.data_ptr(), factor._version, factor.dtype) for factor in (v, g)]
        kept = self._kept
        if kept is None or kept[1] != stamps:
            # The aliases hold the memory of v and g, so that no other tensor can have its address.
            kept = torch._weight_norm(v, g, 0), stamps, [v.detach(), g.detach()]
            self._kept = kept
        return kept[0]

    def train(self, mode: bool = True) -> "WeightNormLinear":
        """Change the mode and drop W: optimizers may write to g and v unseen, by ``.data``."""
        self._kept = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def weight_and_bias(self, tokens: Tensor | None = None) -> tuple[Weight, Tensor]:
        """W and b of an output projection.

        Args:
            tokens: K token indices; None for the whole vocabulary.
        Returns:
            K x in_features and K, in the order of ``tokens``.
        """
        if tokens is None:
            return self.effective_weight(), self.bias
        bias = self.bias.index_select(0, tokens)
        if self.weight is not None:
            return select_rows(self.weight, tokens), bias
        v, g = self.weight_v.index_select(0, tokens), self.weight_g.index_select(0, tokens)
        return torch._weight_norm(v, g, 0), bias

    @torch.no_grad()
    def fold_(self) -> None:
        """Replace g and v with W, for inference."""
        if self.weight is None:
            # Not the W that is kept: in inference mode, it may have become a tensor for that only.
            weight = torch._weight_norm(self.weight_v, self.weight_g, 0)
            self.register_parameter("weight_v", None)
            self.register_parameter("weight_g", None)
            self.weight = nn.Parameter(weight, requires_grad=False)
            self._kept = None

    def quantize_weights_(self) -> None:
        """Replace the folded weight with one in 8 bits, for inference."""
        quantize_parameter_(self)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, folded={self.weight is not None}"


def _count_changes(*tensors: Tensor) -> bool:
    """Whether tensors count their changes: not in inference mode, nor where a graph is made."""
    making_graph = torch.jit.is_tracing() or torch.compiler.is_compiling()
    return not making_graph and not any(tensor.is_inference() for tensor in tensors)


def fold_weight_norm_(module: nn.Module) -> None:
    """Fold the weight normalization of all layers in ``module``, which can then not be trained."""
    for part in module.modules():
        if isinstance(part, WeightNormLinear):
            part.fold_()


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The dtype of matrix multiplications of x: that of the current autocast, or its own.

    Autocast does not cast numbers in double precision.
    """
    device_type = x.device.type
    if x.dtype == torch.float64 or not torch.is_autocast_enabled(device_type):
        return x.dtype
    return torch.get_autocast_dtype(device_type)


def to_autocast_dtype(x: Tensor) -> Tensor:
    """Cast x to the dtype of its matrix multiplications, ``autocast_dtype``.

    Autocast casts x before every matrix multiplication. If x is unfolded, or is an input of
    several of them, one cast in advance is cheaper. Without autocast, x is returned as it is.
    """
    dtype = autocast_dtype(x)
    return x if x.dtype == dtype else x.to(dtype)


def single_precision(x: Tensor) -> Tensor:
    """x in single precision, or unchanged if it is in double precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def is_eager_cpu(x: Tensor) -> bool:
    """Whether x is on a CPU, and operations on it are eager and without autocast."""
    return (
        x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()
        and not torch.compiler.is_compiling()
    )


def _is_for_onednn(x: Tensor) -> bool:
    return _ONEDNN and x.dtype == torch.float32 and is_eager_cpu(x)


def _is_generating_in_bfloat16(x: Tensor) -> bool:
    # What makes a graph must not meet the last question.
    return (
        not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch.is_grad_enabled()
        and x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and _has_bfloat16()
    )


@functools.cache
def _has_bfloat16() -> bool:
    """Whether oneDNN computes in bfloat16 on this CPU."""
    check = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return _ONEDNN and check is not None and check()


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        # For any other strides, oneDNN falls back to a routine a thousand times as slow.
        weight = weight.contiguous()
    if bias is not None:
        # oneDNN ignores its strides.
        bias = bias.contiguous()
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDnnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn_linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        x_grad = weight_grad = bias_grad = None
        if ctx.needs_input_grad[0]:
            # With create_graph=True, use an operation that can be differentiated.
            differentiable = torch.is_grad_enabled()
            x_grad = grad @ weight if differentiable else _onednn_linear(grad, weight.t())
        if ctx.needs_input_grad[1]:
            # Not by oneDNN, which would copy the transposed matrix.
            weight_grad = grad.t() @ x
        if ctx.needs_input_grad[2]:
            bias_grad = grad.sum(dim=0)
        return x_grad, weight_grad, bias_grad


def relu_backward_(grad: Tensor, rectified: Tensor) -> Tensor:
    """Backward pass of ReLU in place: zero ``grad`` where ``rectified`` is zero.

    For bfloat16 on a CPU, torch converts to single precision and back. It is faster to read the
    bits as integers and to multiply them by 1 or 0: a positive number is also a positive integer.

    Args:
        grad: gradient of the output.
        rectified: the output of ReLU, of the same shape and dtype; overwritten for bfloat16.
    Returns:
        ``grad``.
    """
    if grad.dtype == torch.bfloat16 and grad.device.type == "cpu":
        grad.view(torch.int16).mul_(rectified.view(torch.int16).clamp_(0, 1))
        return grad
    return torch.ops.aten.threshold_backward.grad_input(grad, rectified, 0, grad_input=grad)
