"""From a checkpoint of fairseq's fconv to one of this package's ConvS2S."""

import argparse
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints import unreadable
from ..errors import UserError
from ..fairseq_compat import inert_pickle

# fairseq numbers positions from padding_idx + 1 on; this package numbers them from 1 on.
FCONV_UNUSED_POSITIONS = 1

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
_DROPPED = re.compile(r"(^decoder\.version|_linearized_weight|\._float_tensor)$")


def convert_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same network's weights under this package's names and layouts.

    Args:
        weights: the ``model`` of an fconv checkpoint of version 1 or 2; stray
            ``_linearized_weight`` entries are dropped.
    Raises:
        UserError: where a name is not one of fconv's.
    """
    converted = {}
    for key, tensor in weights.items():
        if _DROPPED.search(key):
            continue
        new_key = key
        for pattern, replacement in _RENAMED:
            new_key = re.sub(pattern, replacement, new_key)
        if new_key == key:
            raise UserError(f"'{key}' is not a weight of fairseq's fconv.")
        if ".embed_positions." in key:
            tensor = tensor[FCONV_UNUSED_POSITIONS:].clone()
            tensor[0] = 0
        if key.endswith(".weight_v"):
            gain_key = key[: -len("weight_v")] + "weight_g"
            new_gain_key = new_key[: -len("weight_v")] + "weight_g"
            converted[new_gain_key], tensor = _per_output(weights[gain_key], tensor)
        if not key.endswith(".weight_g"):
            converted[new_key] = tensor
    return converted


def _per_output(gain: Tensor, direction: Tensor):
    """Gain and direction with one norm an output channel, laid out as out x in.

    fconv's convolutions are k x in x out. Those of version 1 have one norm a kernel position
    instead of one an output channel: there the weight itself becomes the direction.
    """
    shared = [dim for dim in range(gain.dim()) if gain.size(dim) == 1]
    is_convolution = direction.dim() == 3
    outputs = direction.size(2 if is_convolution else 0)
    if gain.numel() != outputs:
        direction = direction * (gain / direction.norm(dim=shared, keepdim=True))
        gain = None
    if is_convolution:
        direction = direction.permute(2, 0, 1).reshape(outputs, -1)
    if gain is None:
        return direction.norm(dim=1, keepdim=True), direction
    return gain.reshape(outputs, 1), direction


def convert_options(args: argparse.Namespace, weights: dict[str, Tensor]) -> argparse.Namespace:
    """The options of the same network and task for this package.

    Args:
        args: the options of an fconv training.
        weights: the converted weights, which know how long sentences may be.
    """
    plain = {k: v for k, v in vars(args).items() if not isinstance(v, inert_pickle.Inert)}
    options = argparse.Namespace(**plain)
    # The vectors are in the weights; the files that they once came from are not needed.
    options.encoder_embed_path = options.decoder_embed_path = None
    options.arch = options._name = "convs2s"
    options.encoder_gradient_uses = 2
    options.share_all_embeddings = False
    options.no_source_positions = options.no_target_positions = False
    for side, name in (("encoder", "source"), ("decoder", "target")):
        longest = len(weights[f"{side}.embed.positions.weight"]) - 1
        setattr(options, f"max_{name}_positions", longest)
    defaults = {"task": "translation", "share_input_output_embed": False}
    for name, value in defaults.items():
        if not hasattr(options, name):
            setattr(options, name, value)
    return options


def read_checkpoint(path: str) -> dict[str, Any]:
    """A checkpoint of any age as plain data; nothing in the file is executed.

    Raises:
        UserError: where there is no such file, or it is no checkpoint.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no file {path}.")
    try:
        return torch.load(path, map_location="cpu", pickle_module=inert_pickle, weights_only=False)
    except Exception as error:
        raise unreadable(path, error) from error


def convert_checkpoint(checkpoint: dict[str, Any], path: str) -> dict[str, Any]:
    """A checkpoint of this package that translates as the given one of fconv does.

    The optimiser's state is left out: its tensors have the old layout.

    Args:
        checkpoint: what ``read_checkpoint`` gave.
        path: where it came from, for messages.
    Raises:
        UserError: where it is not a checkpoint of fconv.
    """
    args = _options_of(checkpoint)
    arch = str(getattr(args, "arch", None) or getattr(args, "_name", "unknown"))
    weights = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not isinstance(weights, dict) or not arch.startswith("fconv") or "lm" in arch:
        raise UserError(
            f"{path} holds a model of --arch {arch}; only fairseq's fconv translation models are "
            "converted."
        )
    weights = convert_weights(weights)
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    return {
        "args": convert_options(args, weights),
        "model": weights,
        "optimizer_history": [{**history, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }


def _options_of(checkpoint: dict[str, Any]) -> argparse.Namespace:
    """The options of the training, from an old or a new checkpoint."""
    if not isinstance(checkpoint, dict):
        return argparse.Namespace()
    args = checkpoint.get("args")
    if args is None and isinstance(checkpoint.get("cfg"), dict):
        args = checkpoint["cfg"].get("model")
    if isinstance(args, dict):
        args = argparse.Namespace(**args)
    return args if isinstance(args, argparse.Namespace) else argparse.Namespace()
