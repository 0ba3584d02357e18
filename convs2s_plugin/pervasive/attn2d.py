"""Conversion of checkpoints of the 2018 code for pervasive attention (elbayadm/attn2d).

That code was written before its authors moved to fairseq. Its checkpoints are state dictionaries,
``params.json`` beside them has the options, and the vocabularies are files of the data.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import UserError
from .attn2d_params import Params
from .batch_norm import EPS

DENSE = "decoder.network.dense."
AGGREGATOR = "decoder.network.aggregator."
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
    """

    def __init__(self, tensors: dict[str, Tensor], path: str):
        self.path = path
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


class Converted(NamedTuple):
    """A converted checkpoint.

    Attributes:
        checkpoint: its content.
        notes: differences that matter only if it is trained further, one sentence each.
    """

    checkpoint: dict[str, Any]
    notes: list[str]


def convert(
    tensors: dict[str, Tensor],
    params: Params,
    rows: tuple[Sequence[int], Sequence[int]],
    data: str,
    path: str,
) -> Converted:
    """Convert a checkpoint of the 2018 code.

    Args:
        tensors: its state dictionary.
        params: its options.
        rows: for source and target, the index in the old vocabulary of each token of the new
            dictionary.
        data: the folder of the dictionaries.
        path: the file, for errors.
    Raises:
        UserError: if the network is not one of this package.
    """
    params.check()
    weights = Weights(tensors, path)
    weight_norm = any(key.endswith("weight_g") for key in tensors)
    embeddings = [
        _embeddings(weights, side, index, path)
        for side, index in zip(("src", "trg"), rows, strict=True)
    ]
    source_dim, target_dim = (matrix.size(1) for matrix in embeddings)
    both = source_dim + target_dim
    new = {f"{side}.embed.words.weight": x for side, x in zip(("encoder", "decoder"), embeddings)}
    halving = "net.features.initial.weight" in weights
    if halving:
        new |= _convert_halving(weights, source_dim)
    layers, transition = _take_layers(weights)
    first = layers[0].conv1.size(1)
    if first != (both // 2 if halving else both):
        raise UserError(
            f"{path} has {first} channels in front of its first layer and embeddings of "
            f"{source_dim} and {target_dim}: network.divide_channels or network.merge_mode make "
            "a network that this package does not have."
        )
    growth, kernel, bottleneck, gated = _sizes(layers, transition, params)
    # The first channels are those of the source and the target; here the target is first.
    order = torch.arange(transition.conv1.size(1))
    if not halving:
        order[:both] = order[:both].roll(-source_dim)
    new |= _convert_layers(layers, transition, order, gated)
    aggregator, exponent = params.aggregator()
    new |= _convert_aggregator(weights, aggregator)
    tied = "aggregator.lin.weight" in weights
    prediction = weights.take("prediction.weight", 2)[list(rows[1])]
    new["decoder.output.bias"] = weights.take("prediction.bias", 1)[list(rows[1])]
    if tied:
        for name in ("weight", "bias"):
            new[f"decoder.network.output.{name}"] = weights.take(
                f"aggregator.lin.{name}", 2 if name == "weight" else 1
            )
        new["decoder.output.words.weight"] = embeddings[1]
        if not torch.equal(prediction, embeddings[1]):
            raise UserError(
                f"{path} has an output layer whose weight is not that of the target embeddings, "
                "but also a linear map to their width: this package does not have this network."
            )
    else:
        new["decoder.output.weight"] = prediction
    weights.check_all_used()
    # One matrix for both languages needs the same dictionaries.
    shared = tied and torch.equal(embeddings[0], embeddings[1]) and list(rows[0]) == list(rows[1])
    options = argparse.Namespace(
        **params.training_options(),
        arch="pervasive",
        _name="pervasive",
        task="translation",
        data=data,
        encoder_embed_dim=source_dim,
        decoder_embed_dim=target_dim,
        encoder_embed_path=None,
        decoder_embed_path=None,
        share_all_embeddings=shared,
        num_layers=len(layers),
        growth_rate=growth,
        kernel_size=kernel,
        bottleneck=bottleneck,
        gated=gated,
        aggregator=aggregator,
        attention_exponent=exponent,
        no_halving=not halving,
        no_transition=False,
        separate_output=not tied,
        no_source_eos=True,
        target_bos=True,
        max_source_positions=1024,
        max_target_positions=1024,
    )
    optimizer = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    checkpoint = {
        "args": options,
        "model": {name: tensor.clone() for name, tensor in new.items()},
        "optimizer_history": [{**optimizer, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }
    notes = []
    if transition.norm1 is None:
        notes.append(
            "Trained further, the model normalizes the channels in front of the transition "
            "(network.use_st); its outputs are the same until then."
        )
    if weight_norm:
        notes.append("Trained further, the convolutions are not weight-normalized any more.")
    return Converted(checkpoint, notes)


def _embeddings(weights: Weights, side: str, rows: Sequence[int], path: str) -> Tensor:
    """An embedding matrix, in the order of the new dictionary."""
    matrix = weights.take(f"{side}_embedding.label_embedding.weight", 2)
    if len(matrix) != len(rows):
        language = {"src": "source", "trg": "target"}[side]
        raise UserError(
            f"{path} has {len(matrix):,} {language} embeddings, but the {language} vocabulary has "
            f"{len(rows):,} tokens: give the vocabulary of its training data with "
            f"--{language}-vocab."
        )
    return matrix[list(rows)]


def _convert_halving(weights: Weights, source_dim: int) -> dict[str, Tensor]:
    """The 1 x 1 convolution that halves the channels of source and target, in this order."""
    halving, bias = weights.take_convolution("net.features.initial")
    return {
        "encoder.share.projection.weight": halving[:, :source_dim, 0, 0],
        "decoder.network.target.projection.weight": halving[:, source_dim:, 0, 0],
        "decoder.network.target.projection.bias": bias,
    }


def _take_layers(weights: Weights) -> tuple[list[DenseWeights], DenseWeights]:
    """The layers of the only dense block, and the transition behind it."""
    layers = []
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
    transition = "net.features.transition1"
    norm = (
        weights.take_norm(f"{transition}.norm") if f"{transition}.norm.weight" in weights else None
    )
    conv, bias = weights.take_convolution(f"{transition}.conv")
    last = weights.take_norm("net.features.norm_last")
    return layers, DenseWeights(norm, conv[:, :, 0, 0], bias, last)


def _sizes(
    layers: list[DenseWeights], transition: DenseWeights, params: Params
) -> tuple[int, int, int, bool]:
    """Growth rate, kernel size, bottleneck, and whether the convolutions are gated.

    Raises:
        UserError: if the layers differ, or have sizes that this package does not have.
    """
    channels = [layer.conv1.size(1) for layer in (*layers, transition)]
    growth = channels[1] - channels[0]
    shapes = {tuple(layer.conv2.shape) for layer in layers if layer.conv2 is not None}
    if len(shapes) > 1:
        raise UserError(
            f"network.kernels is {params.get('network.kernels')}, but this package has networks "
            "whose layers all have the same kernel only."
        )
    ((out, hidden, height, kernel),) = shapes
    if height != kernel or kernel % 2 == 0:
        raise UserError(
            f"network.kernel is {height} x {kernel}, but this package has odd, square kernels only."
        )
    if hidden != layers[0].conv1.size(0):
        raise UserError(
            f"network.depthwise is {params.get('network.depthwise')}, but this package has no "
            "grouped convolutions."
        )
    if out not in (growth, 2 * growth) or hidden % growth:
        raise UserError(
            f"network.growth_rate is {growth} with layers of {hidden} and {out} channels."
        )
    gated = out == 2 * growth
    if gated and any(layer.conv2_bias is not None and layer.conv2_bias.any() for layer in layers):
        raise UserError(
            "network.bias is 1 with network.gated, but this package has no gated convolutions "
            "with a bias."
        )
    return growth, kernel, hidden // growth, gated


def _convert_layers(
    layers: list[DenseWeights], transition: DenseWeights, order: Tensor, gated: bool
) -> dict[str, Tensor]:
    """The dense block and the transition.

    The 2018 code keeps the running averages of a channel in every layer that reads it, this package
    once. A bias in front of a normalization is the same as another mean.

    Args:
        layers, transition: the weights.
        order: the old index of each channel.
        gated: whether the first half of a convolution's outputs gates the second half. Here, the
            second half gates the first.
    """
    shared = transition.norm1 or _stats_of_last_layer(layers[-1], len(order))
    shift = torch.zeros(len(order))
    new = {}
    first = layers[0].conv1.size(1)
    start = first
    for i, layer in enumerate((*layers, transition)):
        name = f"{DENSE}layers.{i}."
        channels = order[: layer.conv1.size(1)]
        count = len(channels)
        norm1 = _with_statistics(layer.norm1, Norm(*(x[:count] for x in shared)))
        new[f"{name}norm1.weight"] = norm1.weight[channels]
        new[f"{name}norm1.bias"] = norm1.bias[channels]
        new[f"{name}conv1"] = layer.conv1[:, channels]
        new[f"{name}norm2.weight"] = layer.norm2.weight
        new[f"{name}norm2.bias"] = layer.norm2.bias
        new[f"{name}norm2.running_mean"] = layer.norm2.mean - layer.conv1_bias
        new[f"{name}norm2.running_var"] = layer.norm2.var
        if layer.conv2 is not None and layer.conv2_bias is not None:
            kernel = layer.conv2[:, :, : layer.conv2.size(2) // 2 + 1]
            if gated:
                kernel = kernel.roll(len(kernel) // 2, dims=0)
            else:
                shift[start : start + len(kernel)] = layer.conv2_bias
                start += len(kernel)
            new[f"{name}conv2"] = kernel
    new[f"{DENSE}features.running_mean"] = (shared.mean - shift)[order]
    new[f"{DENSE}features.running_var"] = shared.var[order]
    return new


def _stats_of_last_layer(layer: DenseWeights, channels: int) -> Norm:
    """The running averages of the last layer's input; its own outputs are normalized nowhere."""
    assert layer.norm1 is not None
    added = channels - layer.conv1.size(1)
    zeros, ones = torch.zeros(added), torch.ones(added)
    return Norm(*(torch.cat(pair) for pair in zip(layer.norm1, (ones, zeros, zeros, ones))))


def _with_statistics(norm: Norm | None, shared: Norm) -> Norm:
    """The normalization that has the same outputs with other running averages.

    Args:
        norm: the normalization; None for none at all.
        shared: the running averages.
    """
    std = (shared.var + EPS).sqrt()
    if norm is None:
        return Norm(std, shared.mean, shared.mean, shared.var)
    scale = norm.weight / (norm.var + EPS).sqrt()
    return Norm(scale * std, norm.bias + scale * (shared.mean - norm.mean), *shared[2:])


def _convert_aggregator(weights: Weights, aggregator: str) -> dict[str, Tensor]:
    """The scores of attention, if there are any."""
    parts = aggregator.split("+")
    if "attn" not in parts:
        return {}
    prefix = f"{AGGREGATOR}parts.{parts.index('attn')}." if len(parts) > 1 else AGGREGATOR
    attend = "aggregator.project.attend"
    return {
        f"{prefix}scores.weight": weights.take(f"{attend}.weight", 2),
        f"{prefix}scores.bias": weights.take(f"{attend}.bias", 1),
    }
