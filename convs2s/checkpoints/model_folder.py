"""A model as plain files that other programs read: ``model.safetensors`` and ``config.json``.

``read_state`` turns them into what a checkpoint of fairseq-train holds, so everything that reads
checkpoints reads them.
"""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from .. import __version__
from ..common.data_files import read_json
from ..common.errors import UserError
from ..common.output_files import atomic_path, atomic_write
from .dictionaries import DICTIONARIES, TASK_STATE, digests, saved_digests
from .files import new_training
from .folders import SAFETENSORS
from .networks import OF_THE_MODEL, Checkpoint, network_options, read_checkpoint

WEIGHTS, CONFIG = f"model{SAFETENSORS}", "config.json"
# The search, for programs that use transformers.
GENERATION = "generation_config.json"
FORMAT = 1
# What a training run was given besides the options of its model: names in each part of a
# checkpoint's options; None for all of them.
OF_TRAINING: dict[str, tuple[str, ...] | None] = {
    "common": ("seed", "fp16", "bf16"),
    "distributed_training": ("distributed_world_size",),
    "dataset": ("max_tokens", "batch_size"),
    "optimization": ("max_epoch", "max_update", "clip_norm", "update_freq", "lr"),
    "task": ("autocast_dtype", "max_length_ratio", "equal_length_batches", "max_cells"),
    "criterion": None,
    "optimizer": None,
    "lr_scheduler": None,
}
# The tensor of shortlists, and its entry in the state.
SHORTLIST = "shortlist.by_source"


class Config(BaseModel):
    """The content of ``config.json``.

    Attributes:
        format: FORMAT.
        model_type: "convs2s".
        version: version of the package that wrote it.
        updates: number of updates of the training run.
        model: all options of the network, and its architecture as ``_name``.
        task: its name as ``_name``, and what it says about the model; see ``OF_THE_MODEL``.
        training: options of fairseq-train, without those of the model; see OF_TRAINING.
        dictionaries: digests of the dictionaries; see ``dictionaries.digests``.
        tied: name of a weight -> name of the same one in the file.
        frequent: size of the frequent part of the shortlists, if the model has any.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int
    model_type: str = "convs2s"
    version: str = __version__
    updates: int = Field(default=0, ge=0)
    model: dict[str, Any]
    task: dict[str, Any]
    training: dict[str, Any] = {}
    dictionaries: dict[str, dict[str, int | str]] = {}
    tied: dict[str, str] = {}
    frequent: int | None = None


def read_state(path: str) -> dict[str, Any]:
    """Read a model as a checkpoint.

    Args:
        path: the file of the weights; ``config.json`` is beside it.
    Raises:
        UserError: if a file is missing or damaged, or was written by a newer version.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no file {path}.")
    config = read_config(Path(path).with_name(CONFIG))
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} is not a complete file of weights ({error}). If copying or downloading it was "
            "interrupted, copy or download it again."
        ) from error
    for name, other in config.tied.items():
        if other not in weights or name in weights:
            raise UserError(f"{path} does not belong to {CONFIG} beside it: it has no {other}.")
    weights |= {name: weights[other] for name, other in config.tied.items()}
    return checkpoint_of(config, weights).state


def checkpoint_of(config: Config, weights: dict[str, Tensor]) -> Checkpoint:
    """A checkpoint as fairseq-train writes it.

    Args:
        config: what ``config.json`` says.
        weights: name -> weight; tied ones under each of their names.
    """
    state: dict[str, Any] = new_training(config.updates)
    table = weights.pop(SHORTLIST, None)
    if table is not None:
        state["shortlist"] = {"by_source": table, "frequent": config.frequent}
    task = {"data": None, **config.task}
    state |= {
        "args": None,
        "cfg": {"model": config.model, "task": task},
        "model": weights,
        TASK_STATE: {DICTIONARIES: config.dictionaries},
    }
    return Checkpoint(WEIGHTS, state, config.model, task)


def read_config(path: Path) -> Config:
    """Read and check ``config.json``.

    Raises:
        UserError: if there is none, or it is not as ``convs2s export`` writes it.
    """
    if not path.is_file():
        raise UserError(
            f"There is no {path}, without which the weights are not a model: give the folder that "
            "`convs2s export` wrote."
        )
    content = read_json(path)
    advice = "give the folder that `convs2s export` wrote"
    if not isinstance(content, dict) or content.get("model_type") != "convs2s":
        raise UserError(f"{path} does not describe a model of this package: {advice}.")
    if content.get("format") != FORMAT:
        raise UserError(
            f"{path} has format {content.get('format')}, but this version reads {FORMAT}: it was "
            f"written by version {content.get('version')} of convs2s-plugin. Install that version."
        )
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{path} is damaged: {place}: {first['msg']}; {advice}.") from error
    for name in ("model", "task"):
        if not isinstance(getattr(config, name).get("_name"), str):
            raise UserError(f"{path} is damaged: {name}._name is not text; {advice}.")
    return config


class Written(NamedTuple):
    """What was written: ``config.json``, and the number of parameters."""

    config: Config
    parameters: int


def write_model(
    folder: Path, path: str, languages: tuple[str, str], words: Sequence[Sequence[str]]
) -> Written:
    """Write the weights and the options of a checkpoint.

    Args:
        folder: the folder to write to.
        path: the checkpoint of a model of this package.
        languages: source and target, which a training run may have found in its data.
        words: those of both dictionaries, special symbols included.
    Raises:
        UserError: if the checkpoint cannot be read, or has another model.
    """
    checkpoint = read_checkpoint(path)
    if checkpoint.family is None:
        raise UserError(
            f"{path} has a model of --arch {checkpoint.architecture}, which is not one of this "
            "package's and cannot be exported."
        )
    history = checkpoint.state.get("optimizer_history") or [{}]
    names = ("_name", *OF_THE_MODEL)
    saved = saved_digests(checkpoint.state.get(TASK_STATE)) or digests(words)
    shortlist = checkpoint.state.get("shortlist")
    config = Config(
        format=FORMAT,
        updates=int(history[-1].get("num_updates") or 0),
        model={"_name": checkpoint.architecture, **asdict(network_options(checkpoint))},
        task={
            **{name: checkpoint.task[name] for name in names if name in checkpoint.task},
            **dict(zip(("source_lang", "target_lang"), languages)),
        },
        training=_training(checkpoint.state),
        dictionaries=dict(saved),
        frequent=shortlist["frequent"] if shortlist else None,
    )
    table = shortlist["by_source"] if shortlist else None
    return write_folder(folder, checkpoint.weights, config, table)


def write_folder(
    folder: Path, weights: Mapping[str, Tensor], config: Config, shortlist: Tensor | None = None
) -> Written:
    """Write weights, and ``config.json`` with the names of those that are the same.

    Args:
        folder: the folder to write to.
        weights: name -> weight.
        config: what ``config.json`` says otherwise.
        shortlist: the table of the shortlists; None if the model has none.
    """
    kept, tied = _without_copies(weights)
    config = config.model_copy(update={"tied": tied})
    parameters = sum(tensor.numel() for tensor in kept.values())
    if shortlist is not None:
        kept[SHORTLIST] = shortlist.contiguous()
    with atomic_path(str(folder / WEIGHTS)) as partial:
        save_file(kept, partial, {"format": "pt"})
    with atomic_write(str(folder / CONFIG)) as file:
        file.write(json.dumps(config.model_dump(), indent=2, ensure_ascii=False) + "\n")
    return Written(config, parameters)


def _training(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the training run, as far as a checkpoint has them."""
    cfg, args = state.get("cfg"), state.get("args")
    found: dict[str, Any] = {}
    for part, names in OF_TRAINING.items():
        # Older checkpoints have the options of all parts in one namespace.
        options = args if cfg is None else cfg.get(part)
        options = options if isinstance(options, Mapping) else vars(options or Namespace())
        if names is None:
            names = (part,) if cfg is None else tuple(options)
        for name in names:
            value = options.get(name)
            if value is not None and value is not False:
                found[part if name == "_name" else name] = value
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def _without_copies(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Matrices once each, and name of a matrix that is omitted -> name of the same one.

    Vectors are the same only if they share their memory, as the scales of a matrix in 8 bits do.
    """
    kept: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in weights.items():
        same = (
            other
            for other, each in kept.items()
            if (tensor.dim() > 1 or each.data_ptr() == tensor.data_ptr())
            and (each.dtype, each.shape) == (tensor.dtype, tensor.shape)
            and torch.equal(each, tensor)
        )
        if (other := next(same, None)) is not None:
            tied[name] = other
        else:
            kept[name] = tensor.contiguous()
    return kept, tied
