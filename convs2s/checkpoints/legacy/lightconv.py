"""Conversion of checkpoints of fairseq's LightConv and DynamicConv to models in ADL.

Wu et al., "Pay Less Attention with Lightweight and Dynamic Convolutions", ICLR 2019.
"""

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...common.errors import UserError
from ...common.limits import MAX_WIDTH, check_range
from ..files import new_training
from ..weights import UNUSED
from .reading import architecture, model_options

# fairseq numbers positions from padding_idx + 1.
FIRST_POSITION = 2
# The most numbers in the vectors of positions that the conversion computes.
MAX_TABLE = 10**8
# The epsilon of fairseq's layer normalization.
NORM = "norm(eps=0.00001)"
SIDES = ("encoder", "decoder")
# What --arch lightconv has where a checkpoint does not say it.
DEFAULTS: dict[str, Any] = {
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_attention_heads": 8,
    "encoder_conv_type": "dynamic",
    "encoder_glu": True,
    "encoder_normalize_before": False,
    "encoder_learned_pos": False,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "input_dropout": 0.1,
    "weight_softmax": True,
    "max_source_positions": 1024,
    "max_target_positions": 1024,
    "share_all_embeddings": False,
    "share_decoder_input_output_embed": False,
}
CONVOLUTIONS = {"lightweight": "light_conv", "dynamic": "dynamic_conv"}
# Networks that have no definition in ADL: option -> the only value that is converted, and why.
REFUSED: dict[str, tuple[Any, str]] = {
    "weight_softmax": (True, "its weights are not normalized with a softmax"),
    "adaptive_softmax_cutoff": (None, "its output layer is an adaptive softmax"),
    "no_token_positional_embeddings": (False, "it has no positions"),
}
# Entries that compute nothing.
_DROPPED = re.compile(rf"(\.version|\._float_tensor|embed_positions\.weights)$|{UNUSED.pattern}")


class _Weights:
    """The weights of a checkpoint; each must be taken once."""

    def __init__(self, weights: dict[str, Tensor]):
        self.left = {key: value for key, value in weights.items() if not _DROPPED.search(key)}

    def has(self, name: str) -> bool:
        """Whether there is a weight of this name that was not taken."""
        return name in self.left

    def take(self, name: str) -> Tensor:
        """A weight.

        Raises:
            UserError: if it is missing.
        """
        if name not in self.left:
            raise UserError(f"The weight '{name}' of fairseq's lightconv is missing.")
        return self.left.pop(name)

    def check_all_used(self) -> None:
        """Raise UserError if weights are left."""
        for name in self.left:
            raise UserError(f"'{name}' is not a weight of fairseq's lightconv.")


class _Chain:
    """A chain of layers in ADL, and the weights of their modules.

    Args:
        prefix: prefix of the names of the weights.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.layers: list[str] = []
        self.model: dict[str, Tensor] = {}

    def add(self, layer: str, **weights: Tensor) -> None:
        """Append a layer and its weights, named with __ for the dots."""
        place = f"{self.prefix}.{len(self.layers)}."
        self.model.update(
            {place + name.replace("__", "."): tensor for name, tensor in weights.items()}
        )
        self.layers.append(layer)

    def linear(self, layer: str, weights: _Weights, name: str) -> None:
        """Append a layer with one linear map."""
        self.add(
            layer,
            linear__weight=weights.take(f"{name}.weight"),
            linear__bias=weights.take(f"{name}.bias"),
        )

    def norm(self, weights: _Weights, name: str) -> None:
        """Append a layer normalization."""
        self.add(
            NORM,
            norm__weight=weights.take(f"{name}.weight"),
            norm__bias=weights.take(f"{name}.bias"),
        )

    def residual(self) -> "_Chain":
        """The chain inside the residual layer that ``close`` appends."""
        return _Chain(f"{self.prefix}.{len(self.layers)}.chain")

    def close(self, inner: "_Chain") -> None:
        """Append the residual layer with a chain, and dropout after it."""
        self.layers.append(f"res({inner.text} -> dropout)")
        self.model.update(inner.model)

    @property
    def text(self) -> str:
        """The definition."""
        return " -> ".join(self.layers)


def _convert_side(side: str, weights: _Weights, options: argparse.Namespace) -> _Chain:
    """The layers of the encoder or of the decoder."""
    chain = _Chain(f"{side}.layers")
    language = "source" if side == "encoder" else "target"
    length = getattr(options, f"max_{language}_positions")
    table = _positions(side, weights, options, length)
    setattr(options, f"max_{language}_positions", len(table))
    chain.add("learn_pos(scale=true)", weight=table)
    before = getattr(options, f"{side}_normalize_before")
    numbers = {
        int(found[1])
        for key in weights.left
        if (found := re.match(rf"{side}\.layers\.(\d+)\.", key))
    }
    for number in range(len(numbers)):
        name = f"{side}.layers.{number}"
        norms = (f"{name}.layer_norm1", f"{name}.layer_norm2")
        # The released models have them in a list.
        if weights.has(f"{name}.layer_norms.0.weight"):
            norms = (f"{name}.layer_norms.0", f"{name}.layer_norms.1")
        if side == "decoder":
            norms = (f"{name}.conv_layer_norm", f"{name}.final_layer_norm")
        parts = [(norms[0], _add_convolution), (norms[1], _add_feed_forward)]
        if side == "decoder":
            parts.insert(1, (f"{name}.encoder_attn_layer_norm", _add_attention))
        for norm, add_part in parts:
            inner = chain.residual()
            if before:
                inner.norm(weights, norm)
            add_part(inner, weights, name, side, options)
            chain.close(inner)
            if not before:
                chain.norm(weights, norm)
    if before:
        chain.norm(weights, f"{side}.layer_norm")
    return chain


def _add_convolution(
    chain: _Chain, weights: _Weights, name: str, side: str, options: argparse.Namespace
) -> None:
    """A linear map, possibly gated, the convolution, and another linear map."""
    if options.input_dropout:
        chain.add(f"dropout({options.input_dropout})")
    gated = getattr(options, f"{side}_glu")
    channels = len(weights.left.get(f"{name}.linear1.weight", ())) // (2 if gated else 1)
    first = f"ff({channels}, v=glu, dropout=0)" if gated else f"linear({channels})"
    chain.linear(first, weights, f"{name}.linear1")
    heads = getattr(options, f"{side}_attention_heads")
    kind = CONVOLUTIONS[getattr(options, f"{side}_conv_type")]
    if kind == "light_conv":
        scores = weights.take(f"{name}.conv.weight").reshape(heads, -1)
        size, parameters = scores.size(1), {"scores": scores}
    else:
        linear = weights.take(f"{name}.conv.weight_linear.weight")
        size, parameters = len(linear) // heads, {"scores__weight": linear}
    dropout = options.weight_dropout
    chain.add(f"{kind}(k={size}, h={heads}, dropout={dropout})", **parameters)
    chain.linear("linear", weights, f"{name}.linear2")


def _add_feed_forward(
    chain: _Chain, weights: _Weights, name: str, side: str, options: argparse.Namespace
) -> None:
    """Two linear maps with a rectifier between them."""
    channels = len(weights.left.get(f"{name}.fc1.weight", ()))
    chain.linear(f"ff({channels}, dropout={options.relu_dropout})", weights, f"{name}.fc1")
    chain.linear("linear", weights, f"{name}.fc2")


def _add_attention(
    chain: _Chain, weights: _Weights, name: str, side: str, options: argparse.Namespace
) -> None:
    """Multi-head attention to the source."""
    parameters = {}
    for kind in ("weight", "bias"):
        queries, keys, values = (
            # Before 2020, one matrix had all three.
            weights.take(f"{name}.encoder_attn.in_proj_{kind}").chunk(3)
            if weights.has(f"{name}.encoder_attn.in_proj_{kind}")
            else [weights.take(f"{name}.encoder_attn.{part}_proj.{kind}") for part in "qkv"]
        )
        parameters[f"queries__{kind}"] = queries
        parameters[f"keys_values__{kind}"] = torch.cat([keys, values])
        parameters[f"output__{kind}"] = weights.take(f"{name}.encoder_attn.out_proj.{kind}")
    heads = options.decoder_attention_heads
    chain.add(f"mh_dot_src_att(h={heads}, bias=true)", **parameters)


def _positions(side: str, weights: _Weights, options: argparse.Namespace, length: int) -> Tensor:
    """The vectors of the positions, length x C."""
    if getattr(options, f"{side}_learned_pos"):
        return weights.take(f"{side}.embed_positions.weight")[FIRST_POSITION:]
    half = options.encoder_embed_dim // 2
    frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(FIRST_POSITION, FIRST_POSITION + length)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _convert_words(weights: _Weights, options: argparse.Namespace) -> dict[str, Tensor]:
    """The embeddings and the output layer."""
    source, target = (weights.take(f"{side}.embed_tokens.weight") for side in SIDES)
    tied = options.share_decoder_input_output_embed or options.share_all_embeddings
    # Before 2020, an output layer that is not tied had another name, and a tied one none.
    names: Sequence[str] = ("decoder.output_projection.weight", "decoder.embed_out")
    found = [weights.take(name) for name in names if weights.has(name)]
    output = found[0] if found else target
    if not tied and not found:
        weights.take(names[0])
    name = "decoder.output.words.weight" if tied else "decoder.output.weight"
    return {
        "encoder.embed.words.weight": source,
        "decoder.embed.words.weight": target,
        name: output,
        "decoder.output.bias": torch.zeros(len(output)),
    }


def convert_checkpoint(checkpoint: dict[str, Any], path: str) -> dict[str, Any]:
    """Convert a checkpoint of lightconv to one of a model in ADL with the same translations.

    The optimizer state is dropped. Positions become learned vectors, which start at fairseq's sines
    and cosines.

    Args:
        checkpoint: its content, as plain data.
        path: its file, for error messages.
    Raises:
        UserError: if it is not a checkpoint of lightconv, or has a network without a definition in
            ADL.
    """
    arch = architecture(checkpoint)
    weights = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not _is_translation_model(arch) or not isinstance(weights, dict):
        raise UserError(
            f"{path} has a model of --arch {arch}, but only translation models of fairseq's "
            "lightconv can be converted."
        )
    options = _read_options(checkpoint, path)
    left = _Weights(weights)
    try:
        words = _convert_words(left, options)
        encoder, decoder = (_convert_side(side, left, options) for side in SIDES)
        left.check_all_used()
    except UserError as error:
        raise UserError(f"{path}, a model of --arch {arch}: {error}") from error
    new = {
        "arch": "adl",
        "_name": "adl",
        "encoder_adl": encoder.text,
        "decoder_adl": decoder.text,
        "model_dim": options.encoder_embed_dim,
        "share_input_output_embed": options.share_decoder_input_output_embed,
        # The weights include the embeddings, so their files are not needed.
        "encoder_embed_path": None,
        "decoder_embed_path": None,
    }
    args = argparse.Namespace(**{"task": "translation", **vars(options), **new})
    model = {**words, **encoder.model, **decoder.model}
    return {
        "args": args,
        "model": {name: tensor.clone() for name, tensor in model.items()},
        **new_training(),
    }


def _is_translation_model(arch: str) -> bool:
    return arch.startswith("lightconv") and not arch.startswith("lightconv_lm")


def _read_options(checkpoint: dict[str, Any], path: str) -> argparse.Namespace:
    """The options of a training run, with fairseq's defaults where it does not say them."""
    given = vars(model_options(checkpoint))
    options = argparse.Namespace(**{**DEFAULTS, **given})
    for name in DEFAULTS:
        if name.startswith("encoder_"):
            other = name.replace("encoder_", "decoder_", 1)
            setattr(options, other, given.get(other, getattr(options, name)))
    options.weight_dropout = given.get("weight_dropout", options.attention_dropout)
    width = options.encoder_embed_dim
    for name, low, high in (
        ("encoder_embed_dim", 4, MAX_WIDTH),
        ("max_source_positions", 1, MAX_TABLE // width),
        ("max_target_positions", 1, MAX_TABLE // width),
    ):
        shown = f"{path} cannot be converted: --{name.replace('_', '-')}"
        check_range(shown, getattr(options, name), low, high)
    for name, (only, reason) in REFUSED.items():
        if getattr(options, name, only) != only:
            raise UserError(f"{path} cannot be converted: {reason} (--{name.replace('_', '-')}).")
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if getattr(options, name, width) != width:
            raise UserError(
                f"{path} cannot be converted: --{name.replace('_', '-')} is "
                f"{getattr(options, name)}, but only models whose embeddings and layers all have "
                f"the {width} channels of its encoder can be."
            )
    for side in SIDES:
        kind = getattr(options, f"{side}_conv_type")
        if kind not in CONVOLUTIONS:
            raise UserError(f"{path} has convolutions of an unknown type, {kind}.")
    return options
