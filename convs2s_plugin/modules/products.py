"""Matrix products and rectifiers as fast as this machine's libraries have them."""

import torch
from torch import Tensor

# oneDNN's product in single precision; torch.mm takes another library, which is slower on some
# processors (a tenth on AMD's with AVX-512) and not faster on others.
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b.t() without a gradient.

    Args:
        a: M x K.
        b: N x K.
    Returns:
        M x N.
    """
    if _ONEDNN and a.dtype == torch.float32 and a.device.type == "cpu":
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return torch.mm(a, b.t())


def rectify_(x: Tensor) -> Tensor:
    """ReLU in place.

    Torch widens bfloat16 to single precision and back on a CPU. The sign of a number is that of
    its bits read as an integer, and of integers the maximum is five times as fast.
    """
    if x.dtype == torch.bfloat16 and x.device.type == "cpu":
        x.view(torch.int16).clamp_(min=0)
        return x
    return x.relu_()


def mask_(grad: Tensor, rectified: Tensor) -> Tensor:
    """The gradient, set to zero in place where ``rectified`` is; uses ``rectified`` up.

    Args:
        grad, rectified: of one shape and type, the latter not negative.
    """
    if grad.dtype == torch.bfloat16 and grad.device.type == "cpu":
        grad.view(torch.int16).mul_(rectified.view(torch.int16).clamp_(max=1))
        return grad
    return torch.ops.aten.threshold_backward.grad_input(grad, rectified, 0, grad_input=grad)
