"""The weights of the 2018 code for pervasive attention (elbayadm/attn2d), under one set of names.

Versions of the code have different names for the same weights.
"""

import re
from typing import NamedTuple

from torch import Tensor

from ...common.errors import UserError

# Pattern of a name -> name in all versions of the code.
_RENAMED = (
    (r"^module\.", ""),
    (r"\.initial_(transiton|transition)\.", ".initial."),
    (r"\.norm_(last|final)\.", ".norm_last."),
    (r"\.seq\.0\.", ".norm1."),
    (r"\.seq\.2\.", ".conv1."),
    (r"\.seq\.3\.", ".norm2."),
    (r"\.seq\.5\.", ".conv2."),
)
_DROPPED = re.compile(r"increment|\.num_batches_tracked$|\.conv2\.mask$")
_LAYER = "net.features.denseblock1.denselayer"


class Norm(NamedTuple):
    """A batch normalization: scale, shift and running averages, C each."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    var: Tensor


class DenseWeights(NamedTuple):
    """BN, ReLU, 1 x 1, BN, ReLU and a masked convolution.

    Attributes:
        norm1: C channels; None if the code has no normalization there.
        conv1: H x C.
        conv1_bias: H.
        norm2: H channels.
        conv2: O x H x k x k, the masked half included; None for a transition.
        conv2_bias: O, or None for a transition.
    """

    norm1: Norm | None
    conv1: Tensor
    conv1_bias: Tensor
    norm2: Norm
    conv2: Tensor | None = None
    conv2_bias: Tensor | None = None


class Weights:
    """The weights of a checkpoint, each of which must be used.

    Args:
        tensors: name -> tensor, as the checkpoint has them.
        path: its file, for errors.
    Attributes:
        have_weight_norm: whether convolutions are weight-normalized.
    """

    def __init__(self, tensors: dict[str, Tensor], path: str):
        self.path = path
        self.have_weight_norm = any(key.endswith("weight_g") for key in tensors)
        self._tensors: dict[str, Tensor] = {}
        for key, tensor in tensors.items():
            for pattern, replacement in _RENAMED:
                key = re.sub(pattern, replacement, key)
            if not _DROPPED.search(key):
                self._tensors[key] = tensor.float()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, dims: int) -> Tensor:
        """A weight of this name, with this number of dimensions.

        Raises:
            UserError: if there is none.
        """
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise UserError(f"{self.path} has no weight {name}: {NOT_OURS}")
        if tensor.dim() != dims:
            raise self.unknown(name, tensor)
        return tensor

    def take_convolution(self, name: str) -> tuple[Tensor, Tensor]:
        """Weight and bias of a 2-D convolution; weight normalization becomes part of the weight."""
        if f"{name}.weight_v" in self:
            direction = self.take(f"{name}.weight_v", 4)
            norm = direction.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            weight = direction * (self.take(f"{name}.weight_g", 4) / norm)
        else:
            weight = self.take(f"{name}.weight", 4)
        bias = f"{name}.bias"
        return weight, self.take(bias, 1) if bias in self else weight.new_zeros(len(weight))

    def take_norm(self, name: str) -> Norm:
        """A batch normalization."""
        fields = ("weight", "bias", "running_mean", "running_var")
        return Norm(*(self.take(f"{name}.{field}", 1) for field in fields))

    def check_all_used(self) -> None:
        """Refuse weights of a network that is not known.

        Raises:
            UserError: if a weight was not used.
        """
        for name, tensor in self._tensors.items():
            raise self.unknown(name, tensor)

    def unknown(self, name: str, tensor: Tensor) -> UserError:
        """The error about a weight of a network that is not known."""
        shape = " x ".join(map(str, tensor.shape))
        return UserError(f"{self.path} has a weight {name} ({shape}): {NOT_OURS}")


NOT_OURS = (
    "it is not one of the 2018 code's networks that `convs2s convert-attn2d` knows, a single dense "
    "block with batch normalization."
)


def take_layers(weights: Weights) -> tuple[list[DenseWeights], DenseWeights]:
    """The layers of the only dense block, and the transition behind it."""
    layers: list[DenseWeights] = []
    while f"{_LAYER}{len(layers) + 1}.norm1.weight" in weights:
        name = f"{_LAYER}{len(layers) + 1}"
        conv1, conv1_bias = weights.take_convolution(f"{name}.conv1")
        norms = [weights.take_norm(f"{name}.{norm}") for norm in ("norm1", "norm2")]
        convolution = weights.take_convolution(f"{name}.conv2")
        layers.append(DenseWeights(norms[0], conv1[:, :, 0, 0], conv1_bias, norms[1], *convolution))
    if not layers:
        raise UserError(f"{weights.path} has no weights {_LAYER}1.norm1: {NOT_OURS}")
    if "net.features.denseblock2.denselayer1.norm1.weight" in weights:
        raise UserError(
            f"{weights.path} has several dense blocks (network.num_layers): this package has "
            "networks of one block only."
        )
    name = "net.features.transition1"
    norm = weights.take_norm(f"{name}.norm") if f"{name}.norm.weight" in weights else None
    conv, bias = weights.take_convolution(f"{name}.conv")
    last = weights.take_norm("net.features.norm_last")
    return layers, DenseWeights(norm, conv[:, :, 0, 0], bias, last)
