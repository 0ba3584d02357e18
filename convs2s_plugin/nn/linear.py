"""Matrix products, and the gradient of ReLU, as fast as this machine can."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# oneDNN's product in single precision, where torch takes another library. On an AMD EPYC with
# AVX-512 it was faster by up to a quarter for most sizes, and with a few rows twice as fast.
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``F.linear`` by the fastest library for x.

    Args:
        x: ... x C.
        weight: C' x C.
        bias: C', or None.
    Returns:
        ... x C'.
    """
    if not _onednn_takes(x) or weight.dtype != x.dtype or x.numel() == 0:
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        # Rows, because what a function of ours returns as a view could not be changed in place.
        rows = _Linear.apply(x.reshape(-1, x.size(-1)), weight, bias)
        return rows.view(*x.shape[:-1], len(weight))
    return _onednn(x, weight, bias)


def matmul_transposed(a: Tensor, b: Tensor) -> Tensor:
    """a @ b.t() without a gradient, by the fastest library.

    Args:
        a: M x K.
        b: N x K.
    Returns:
        M x N.
    """
    return _onednn(a, b) if _onednn_takes(a) else torch.mm(a, b.t())


class Linear(nn.Linear):
    """``nn.Linear`` by the fastest library; arguments are those of torch's."""

    def forward(self, x: Tensor) -> Tensor:
        """... x ``out_features`` of ... x ``in_features``."""
        return linear(x, self.weight, self.bias)


def is_eager_cpu(x: Tensor) -> bool:
    """Whether a CPU computes with x in its own type, without tracing or compiling that."""
    return (
        x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()
        and not torch.compiler.is_compiling()
    )


def _onednn_takes(x: Tensor) -> bool:
    return _ONEDNN and x.dtype == torch.float32 and is_eager_cpu(x)


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        # What lies in memory in no such order is multiplied a thousand times as slowly.
        weight = weight.contiguous()
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = _onednn(grad, weight.t())
        if ctx.needs_input_grad[1]:
            # oneDNN would copy what is transposed.
            of_weight = grad.t() @ x
        if ctx.needs_input_grad[2]:
            of_bias = grad.sum(dim=0)
        return of_x, of_weight, of_bias


def relu_backward_(grad: Tensor, rectified: Tensor) -> Tensor:
    """The gradient, set to zero in place where ``rectified`` is; uses ``rectified`` up.

    Torch widens bfloat16 to single precision and back on a CPU. What is positive is so as an
    integer of the same bits too, and the product of integers with 1 or 0 is faster.

    Args:
        grad, rectified: of one shape and type, the latter not negative.
    """
    if grad.dtype == torch.bfloat16 and grad.device.type == "cpu":
        grad.view(torch.int16).mul_(rectified.view(torch.int16).clamp_(0, 1))
        return grad
    return torch.ops.aten.threshold_backward.grad_input(grad, rectified, 0, grad_input=grad)
