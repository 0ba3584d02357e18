"""Conversion of checkpoints of fairseq's fconv to checkpoints of ConvS2S."""

import argparse
import re
from typing import Any

from torch import Tensor

from ...common.errors import UserError
from ..files import new_training
from .reading import architecture, model_options

# fairseq numbers positions from padding_idx + 1 = 2; this package numbers them from 1.
UNUSED_POSITION_ROWS = 1
# fconv multiplies sums of a layer and its input by the square root of this number.
RESIDUAL_FACTOR = 0.5

# Pattern of a parameter name of fconv -> name in this package.
_RENAMED = (
    (r"^(encoder|decoder)\.embed_tokens\.", r"\1.embed.words."),
    (r"^(encoder|decoder)\.embed_positions\.", r"\1.embed.positions."),
    (r"^(encoder|decoder)\.fc1\.", r"\1.input."),
    (r"^(encoder|decoder)\.projections\.", r"\1.blocks.residuals."),
    (r"^(encoder|decoder)\.convolutions\.(\d+)\.", r"\1.blocks.convolutions.\2.linear."),
    (r"^encoder\.fc2\.", "encoder.output."),
    (r"^decoder\.fc2\.", "decoder.features."),
    (r"^decoder\.fc3\.weight$", "decoder.output.words.weight"),
    (r"^decoder\.fc3\.", "decoder.output."),
    (r"^decoder\.attention\.(\d+)\.in_projection\.", r"decoder.blocks.attention.\1.query."),
    (r"^decoder\.attention\.(\d+)\.out_projection\.", r"decoder.blocks.attention.\1.output."),
)
# Prefix of the names of similar models -> what they are.
OTHERS = {
    "fconv_dualenc": "a model of grammatical error correction with a second encoder (Chollampatt "
    "et al., 2019) that only its authors' fork of fairseq runs",
    "fconv_lm": "a language model (Dauphin et al., 2017) that fairseq itself runs with "
    "fairseq-eval-lm",
    "fconv_self_att": "a model of story generation with self-attention in its decoder (Fan et al., "
    "2018) that fairseq itself runs with fairseq-generate",
}
_DROPPED = re.compile(r"(^decoder\.version|_linearized_weight|\._float_tensor)$")


def convert_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert the weights of fconv to the names and layouts of ConvS2S.

    Args:
        weights: ``model`` of an fconv checkpoint of version 1 or 2. Entries that are not
            parameters (``_linearized_weight`` and others) are dropped.
    Raises:
        UserError: if a name is not one of fconv, or a weight is missing.
    """
    converted = {}
    kinds = ("embed_tokens.weight", "embed_positions.weight")
    needed = [f"{side}.{kind}" for side in ("encoder", "decoder") for kind in kinds]
    for key, tensor in weights.items():
        if _DROPPED.search(key):
            continue
        new_key = key
        for pattern, replacement in _RENAMED:
            new_key = re.sub(pattern, replacement, new_key)
        if new_key == key:
            raise UserError(f"'{key}' is not a weight of fairseq's fconv.")
        if ".embed_positions." in key:
            tensor = tensor[UNUSED_POSITION_ROWS:].clone()
            tensor[0] = 0
        if key.endswith(".weight_v"):
            gain_key = f"{key.removesuffix('v')}g"
            needed.append(gain_key)
            if gain_key in weights:
                norm, tensor = _norm_per_channel(weights[gain_key], tensor)
                converted[f"{new_key.removesuffix('v')}g"] = norm
        if not key.endswith(".weight_g"):
            converted[new_key] = tensor
    for name in needed:
        if name not in weights:
            raise UserError(f"The weight '{name}' of fairseq's fconv is missing.")
    return converted


def _norm_per_channel(gain: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Convert a weight-normalized weight to one norm per output channel.

    Args:
        gain: ``weight_g``. Convolutions of version 1 have one norm per kernel position, all other
            weights one per output channel.
        direction: ``weight_v``, out x in for linear maps and k x in x out for convolutions.
    Returns:
        Gain out x 1, and direction out x in or out x (k * in).
    """
    normalized_dims = [dim for dim in range(gain.dim()) if gain.size(dim) == 1]
    is_convolution = direction.dim() == 3
    out_channels = direction.size(2 if is_convolution else 0)
    per_channel = gain.numel() == out_channels
    if not per_channel:
        # The weight itself becomes the new direction.
        direction = direction * (gain / direction.norm(dim=normalized_dims, keepdim=True))
    if is_convolution:
        direction = direction.permute(2, 0, 1).reshape(out_channels, -1)
    if not per_channel:
        return direction.norm(dim=1, keepdim=True), direction
    return gain.reshape(out_channels, 1), direction


def convert_options(args: argparse.Namespace, weights: dict[str, Tensor]) -> argparse.Namespace:
    """Convert the options of an fconv training run to those of ConvS2S.

    Args:
        args: the options of the fconv checkpoint.
        weights: the converted weights; the numbers of positions are taken from them.
    """
    defaults = {"task": "translation", "share_input_output_embed": False}
    options = argparse.Namespace(**{**defaults, **vars(args)})
    # The weights include the embeddings, so their files are not needed.
    options.encoder_embed_path = options.decoder_embed_path = None
    options.arch = options._name = "convs2s"
    options.encoder_gradient_uses = 2
    options.share_all_embeddings = False
    options.no_source_positions = options.no_target_positions = False
    for side, language in (("encoder", "source"), ("decoder", "target")):
        max_length = len(weights[f"{side}.embed.positions.weight"]) - 1
        setattr(options, f"max_{language}_positions", max_length)
    return options


def is_translation_model(arch: str) -> bool:
    """Whether an architecture may be a translation model of fairseq's fconv."""
    return arch.startswith("fconv") and not arch.startswith(tuple(OTHERS))


def convert_checkpoint(checkpoint: dict[str, Any], path: str) -> dict[str, Any]:
    """Convert an fconv checkpoint to a ConvS2S checkpoint with the same translations.

    The optimizer state is dropped, because its tensors have the layouts of fconv.

    Args:
        checkpoint: its content, as plain data.
        path: its file, for error messages.
    Raises:
        UserError: if it is not a checkpoint of fconv.
    """
    arch = architecture(checkpoint)
    weights = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not is_translation_model(arch) or not isinstance(weights, dict):
        kind = "".join(f", {kind}" for prefix, kind in OTHERS.items() if arch.startswith(prefix))
        raise UserError(
            f"{path} has a model of --arch {arch}{kind}, but only translation models of "
            "fairseq's fconv can be converted."
        )
    options = model_options(checkpoint)
    # An option of fconv_gec, a copy of fconv by Chollampatt et al. (2019).
    factor = getattr(options, "normalization_constant", RESIDUAL_FACTOR)
    if factor != RESIDUAL_FACTOR:
        raise UserError(
            f"{path} was trained with --normalization-constant {factor}, but only models with "
            f"{RESIDUAL_FACTOR}, as fconv has it, can be converted."
        )
    try:
        weights = convert_weights(weights)
    except UserError as error:
        raise UserError(f"{path}, a model of --arch {arch}: {error}") from error
    return {"args": convert_options(options, weights), "model": weights, **new_training()}
