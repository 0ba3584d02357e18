"""Matrix multiplication, and the gradient of ReLU, by the fastest library for a tensor."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .int8 import Int8Matrix, Weight, quantize_parameter_

# For single precision on a CPU, torch calls another library than oneDNN. On an AMD EPYC with
# AVX-512, oneDNN took up to a quarter less time for most sizes, and half the time for a few rows.
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
    if not _is_for_onednn(x) or weight.dtype != x.dtype or x.numel() == 0:
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
        """Replace the weight by one in 8 bits, for inference."""
        quantize_parameter_(self)


class RectifiedLinear(Linear):
    """A linear map and ReLU as one module; arguments are those of ``nn.Linear``.

    ReLU is computed in place, since allocating fresh memory takes longer than ReLU. As one module,
    it changes nothing that a module has returned, so that hooks can be registered.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map ... x ``in_features`` to ... x ``out_features``."""
        return super().forward(x).relu_()


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


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        # For any other strides, oneDNN falls back to a routine a thousand times as slow.
        weight = weight.contiguous()
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
            # With create_graph=True, by an operation that can be differentiated.
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
    bits as integers and to multiply them by 1 or 0: a positive number is a positive integer, too.

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
