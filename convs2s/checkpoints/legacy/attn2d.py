"""Conversion of checkpoints of the 2018 code for pervasive attention (elbayadm/attn2d).

That code was written before its authors moved to fairseq. Its checkpoints are state dictionaries,
``params.json`` beside them has the options, and the vocabularies are files of the data.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...common.errors import UserError
from ...models.pervasive.batch_norm import EPS
from ..files import new_training
from .attn2d_files import Params
from .attn2d_weights import DenseWeights, Norm, Weights, take_layers

DENSE = "decoder.network.dense."
AGGREGATOR = "decoder.network.aggregator."
# The options of all converted checkpoints.
OPTIONS: dict[str, Any] = {
    "arch": "pervasive",
    "_name": "pervasive",
    "task": "translation",
    "encoder_embed_path": None,
    "decoder_embed_path": None,
    "no_transition": False,
    "no_source_eos": True,
    "target_bos": True,
    "max_source_positions": 1024,
    "max_target_positions": 1024,
}
WITHOUT_NORM = (
    "Trained further, the model normalizes the channels in front of the transition "
    "(network.use_st); its outputs are the same until then."
)
WEIGHT_NORM = "Trained further, the convolutions are no longer weight-normalized."


def convert(
    tensors: dict[str, Tensor],
    params: Params,
    rows: tuple[Sequence[int], Sequence[int]],
    data: str,
    path: str,
) -> tuple[dict[str, Any], list[str]]:
    """Convert a checkpoint of the 2018 code.

    Args:
        tensors: its state dictionary.
        params: its options.
        rows: for source and target, the index in the old vocabulary of each token of the new
            dictionary.
        data: the folder of the dictionaries.
        path: the file, for errors.
    Returns:
        The new content, and differences that matter only if it is trained further, one sentence
        each.
    Raises:
        UserError: if the network is not one of this package.
    """
    params.check()
    weights = Weights(tensors, path)
    source, target = (
        _embeddings(weights, side, index) for side, index in zip(("src", "trg"), rows, strict=True)
    )
    source_dim, target_dim = source.size(1), target.size(1)
    halving = "net.features.initial.weight" in weights
    layers, transition = take_layers(weights)
    channels, both = layers[0].conv1.size(1), source_dim + target_dim
    if channels != (both // 2 if halving else both):
        raise UserError(
            f"{path} has {channels} channels in front of its first layer and embeddings of "
            f"{source_dim} and {target_dim}: network.divide_channels or network.merge_mode make "
            "a network that this package does not have."
        )
    growth, kernel, bottleneck, gated = _sizes(layers, transition, params)
    # The first channels are those of the source and the target; here the target is first.
    order = torch.arange(transition.conv1.size(1))
    if not halving:
        order[:both] = order[:both].roll(-source_dim)
    aggregator, exponent = params.aggregator()
    tied = "aggregator.lin.weight" in weights
    model = {
        "encoder.embed.words.weight": source,
        "decoder.embed.words.weight": target,
        **(_convert_halving(weights, source_dim) if halving else {}),
        **_convert_layers(layers, transition, order, gated),
        **_convert_aggregator(weights, aggregator),
        **_convert_output(weights, target, list(rows[1]), tied),
    }
    weights.check_all_used()
    options = argparse.Namespace(
        **params.training_options(),
        **OPTIONS,
        data=data,
        encoder_embed_dim=source_dim,
        decoder_embed_dim=target_dim,
        # One matrix for both languages needs the same dictionaries.
        share_all_embeddings=tied
        and torch.equal(source, target)
        and list(rows[0]) == list(rows[1]),
        num_layers=len(layers),
        growth_rate=growth,
        kernel_size=kernel,
        bottleneck=bottleneck,
        gated=gated,
        aggregator=aggregator,
        attention_exponent=exponent,
        no_halving=not halving,
        separate_output=not tied,
    )
    model = {name: tensor.clone() for name, tensor in model.items()}
    checkpoint = {"args": options, "model": model, **new_training()}
    notes = [WITHOUT_NORM] if transition.norm1 is None else []
    if weights.have_weight_norm:
        notes.append(WEIGHT_NORM)
    return checkpoint, notes


def _embeddings(weights: Weights, side: str, rows: Sequence[int]) -> Tensor:
    """An embedding matrix, in the order of the new dictionary."""
    matrix = weights.take(f"{side}_embedding.label_embedding.weight", 2)
    if len(matrix) != len(rows):
        language = {"src": "source", "trg": "target"}[side]
        raise UserError(
            f"{weights.path} has {len(matrix):,} {language} embeddings, but the {language} "
            f"vocabulary has {len(rows):,} tokens: give the vocabulary of its training data with "
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


def _sizes(
    layers: list[DenseWeights], transition: DenseWeights, params: Params
) -> tuple[int, int, int, bool]:
    """Growth rate, kernel size, bottleneck, and whether the convolutions are gated."""
    channels = [layer.conv1.size(1) for layer in (*layers, transition)]
    growth = channels[1] - channels[0]
    shapes = {tuple(layer.conv2.shape) for layer in layers if layer.conv2 is not None}
    if len(shapes) > 1:
        raise UserError(
            f"network.kernels is {params.get('network.kernels')}, but in this package, all layers "
            "of a network have the same kernel."
        )
    ((out, hidden, height, kernel),) = shapes
    if height != kernel or kernel % 2 == 0:
        raise UserError(
            f"network.kernel is {height} x {kernel}, but this package has only odd, square kernels."
        )
    if hidden != layers[0].conv1.size(0):
        raise UserError(
            f"network.depthwise is {params.get('network.depthwise')}, but this package has no "
            "grouped convolutions."
        )
    if growth < 1 or out not in (growth, 2 * growth) or hidden % growth:
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

    ``order`` has the old index of each channel. If convolutions are gated, the first half of the
    outputs gates the second half there; here, the second half gates the first.
    """
    shared = transition.norm1 or _stats_of_last_layer(layers[-1], len(order))
    shift = torch.zeros(len(order))
    new = {}
    start = layers[0].conv1.size(1)
    for i, layer in enumerate((*layers, transition)):
        name = f"{DENSE}layers.{i}."
        count = layer.conv1.size(1)
        channels = order[:count]
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
    """The normalization, if any, that has the same outputs with other running averages."""
    std = (shared.var + EPS).sqrt()
    if norm is None:
        return Norm(std, shared.mean, shared.mean, shared.var)
    scale = norm.weight / (norm.var + EPS).sqrt()
    return Norm(scale * std, norm.bias + scale * (shared.mean - norm.mean), *shared[2:])


def _convert_aggregator(weights: Weights, aggregator: str) -> dict[str, Tensor]:
    """The scores of attention, if there are any."""
    if "attn" not in aggregator:
        return {}
    prefix = {"attn": AGGREGATOR, "max+attn": f"{AGGREGATOR}parts.1."}[aggregator]
    attend = "aggregator.project.attend"
    return {
        f"{prefix}scores.weight": weights.take(f"{attend}.weight", 2),
        f"{prefix}scores.bias": weights.take(f"{attend}.bias", 1),
    }


def _convert_output(
    weights: Weights, target: Tensor, rows: list[int], tied: bool
) -> dict[str, Tensor]:
    """The output layer, and the linear map in front of it; the latter if embeddings are tied."""
    prediction = weights.take("prediction.weight", 2)[rows]
    bias = {"decoder.output.bias": weights.take("prediction.bias", 1)[rows]}
    if not tied:
        return {"decoder.output.weight": prediction, **bias}
    if not torch.equal(prediction, target):
        raise UserError(
            f"{weights.path} has an output layer whose weight is not that of the target "
            "embeddings, but also a linear map to their width: this package does not have this "
            "network."
        )
    return {
        "decoder.network.output.weight": weights.take("aggregator.lin.weight", 2),
        "decoder.network.output.bias": weights.take("aggregator.lin.bias", 1),
        "decoder.output.words.weight": target,
        **bias,
    }
