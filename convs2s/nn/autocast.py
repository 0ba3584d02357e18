"""Casts to half precision under ``torch.autocast``."""

import functools
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .weight_norm import WeightNormLinear

MATMUL_MODULES = (nn.Linear, nn.modules.conv._ConvNd, WeightNormLinear)
# oneDNN's names of the dtypes of autocast.
ONEDNN_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


@functools.cache
def is_supported(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a device has instructions for a dtype of autocast.

    On a CPU, this is what oneDNN says: only with it does torch use such instructions. Old versions
    of torch cannot tell, and count as supporting them.
    """
    if device.type != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():
        return False
    check = f"_is_mkldnn_{ONEDNN_NAMES[dtype]}_supported"
    return not hasattr(torch.ops.mkldnn, check) or getattr(torch.ops.mkldnn, check)()


def to_autocast_dtype(x: Tensor) -> Tensor:
    """Cast x to the dtype that the current autocast uses for matrix multiplications.

    Autocast casts x before every matrix multiplication. If x is unfolded, or is an input of
    several of them, one cast in advance is cheaper. Without autocast, x is returned as it is.
    """
    device_type = x.device.type
    if not torch.is_autocast_enabled(device_type):
        return x
    return x.to(torch.get_autocast_dtype(device_type))


@torch.no_grad()
def cast_weights_(model: nn.Module, dtype: torch.dtype, extra: Iterable[Tensor] = ()) -> None:
    """Cast the weights of matrix multiplications in place, so that autocast need not cast them.

    Normalization layers, embeddings, position vectors and, except in recurrent networks, biases
    keep their precision.

    Args:
        model: a model for inference; training needs its weights in single precision.
        dtype: the dtype of autocast.
        extra: further weights of matrix multiplications, for example the embedding matrix of a
            tied output projection.
    """
    weights = [module.weight for module in model.modules() if isinstance(module, MATMUL_MODULES)]
    # Torch requires one dtype for all parameters of a recurrent network.
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            weights += module.parameters()
    for weight in [*weights, *extra]:
        if weight is not None:  # the weight of an unfolded weight normalization
            weight.data = weight.data.to(dtype)
