"""Half precision under ``torch.autocast``: what is cast, and what stays in single precision."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .weight_norm import WeightNormLinear

MATMUL_MODULES = (nn.Linear, nn.modules.conv._ConvNd, WeightNormLinear)


def to_autocast_dtype(x: Tensor) -> Tensor:
    """x in the type that a matrix product under the current autocast reads; x itself outside.

    Before x is copied side by side, or read by several products, it is cast here and only once.
    """
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


@torch.no_grad()
def cast_weights_(model: nn.Module, dtype: torch.dtype, also: Iterable[Tensor] = ()) -> None:
    """Cast the weights of all matrix products in place, so that autocast need not do it each time.

    Norms, embeddings and positions keep their precision, and biases outside of recurrent networks.

    Args:
        model: a model in inference; training needs its weights in single precision.
        dtype: the type of autocast.
        also: further weights that products read, e.g. the table of a tied output layer.
    """
    weights = [part.weight for part in model.modules() if isinstance(part, MATMUL_MODULES)]
    # A recurrent network wants all its parameters in one type.
    for part in model.modules():
        if isinstance(part, nn.RNNBase):
            weights += part.parameters()
    for weight in [*weights, *also]:
        weight.data = weight.data.to(dtype)
