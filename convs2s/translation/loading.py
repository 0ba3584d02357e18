"""Loading of checkpoints with the task of this package."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import FairseqEncoderDecoderModel

from convs2s_plugin.compat.checkpoints import memory_mapped, without_hydra_warnings
from convs2s_plugin.compat.messages import is_unknown_model
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask

from ..checkpoints.files import check_weights
from ..common.errors import UserError
from .options import EnsembleOptions

# The options of fairseq's translation task that a model depends on.
OF_THE_MODEL = (
    *("source_lang", "target_lang", "left_pad_source", "left_pad_target"),
    *("max_source_positions", "max_target_positions"),
)
# What fairseq's fconv finds in checkpoints that it wrote in 2017.
OLD_FCONV = re.compile(r"decoder\.convolutions\.\d+\.(weight_g|_linearized_weight)\b")
Languages = tuple[str | None, str | None]
TASKS = ("translation", "convs2s_translation")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose weights are not in a model yet.

    Attributes:
        path: the file.
        state: the content of the file.
        task: the options of its task.
    """

    path: str
    state: dict[str, Any]
    task: Mapping[str, Any]

    @property
    def languages(self) -> Languages:
        """The source and the target language; None if training found them in its data."""
        return self.task.get("source_lang"), self.task.get("target_lang")


def read_checkpoint(path: str) -> Checkpoint:
    """Read a checkpoint; its tensors stay in the file until they are used.

    Raises:
        UserError: if the file is no checkpoint of a translation model.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    with memory_mapped(), without_hydra_warnings():
        state = _read(path)
        if state.get("args") is not None:
            cfg = convert_namespace_to_omegaconf(state["args"])
        else:
            cfg = state["cfg"]
    task = cfg.get("task") or {}
    name = task.get("_name", "translation")
    if name not in TASKS:
        raise UserError(
            f"{path} was trained with --task {name}, but only models of the tasks "
            f"{' and '.join(TASKS)} can be translated with here: use fairseq-interactive."
        )
    return Checkpoint(path, state, task)


def _read(path: str) -> dict[str, Any]:
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a checkpoint of fairseq-train.") from error
    if state.get("args") is None and state.get("cfg") is None:
        raise UserError(f"{path} is not a checkpoint of fairseq-train: it has no options.")
    check_weights(state["model"], path)
    return state


class Places(NamedTuple):
    """Where the dictionaries of a model may be.

    Attributes:
        folders: folders to try, in this order.
        languages: the source and the target language; None for those of the checkpoint, or those in
            the names of binarized data, or those of the preparation.
        prepared: the languages of the preparation.
        with_training_data: whether to try the folder that the model was trained on, too.
    """

    folders: list[Path]
    languages: Languages = (None, None)
    prepared: Languages = (None, None)
    with_training_data: bool = True


class Dictionaries(NamedTuple):
    """The dictionaries of a model: a folder and two languages."""

    folder: Path
    source: str
    target: str


def find_dictionaries(checkpoint: Checkpoint, places: Places) -> Dictionaries:
    """Find the first folder with the dictionaries of a checkpoint.

    Raises:
        UserError: if no folder has both dictionaries.
    """
    trained_on = str(checkpoint.task.get("data") or "").split(":")[0]
    named = [*places.folders, *([Path(trained_on)] if trained_on else [])]
    tried = named if places.with_training_data else places.folders
    for folder in tried:
        of_data = map(_languages_of_data, (folder, *named))
        known = [places.languages, checkpoint.languages, *of_data, places.prepared]
        source, target = (next(filter(None, found), None) for found in zip(*known))
        if source and target and all(_dictionary(folder, x).is_file() for x in (source, target)):
            return Dictionaries(folder, source, target)
    looked_in = ", ".join(dict.fromkeys(str(folder) for folder in tried))
    if source is None or target is None:
        raise UserError(
            f"The languages of {checkpoint.path} are unknown: neither the checkpoint nor file "
            f"names in {looked_in} have them. Give --source-lang and --target-lang, and the folder "
            "of the dictionaries with --data."
        )
    raise UserError(
        f"There are no dictionaries for {checkpoint.path}: dict.{source}.txt and dict.{target}.txt "
        f"are not both in {looked_in}. Give the folder that fairseq-preprocess wrote with --data."
    )


def _languages_of_data(folder: Path) -> Languages:
    """The languages in the names of binarized data, or None for each if there is none."""
    if not folder.is_dir():
        return None, None
    source, target = data_utils.infer_language_pair(str(folder))
    return source, target


def _dictionary(folder: Path, language: str) -> Path:
    return folder / f"dict.{language}.txt"


def setup_task(
    checkpoint: Checkpoint, dictionaries: Dictionaries, options: EnsembleOptions
) -> ConvS2STranslationTask:
    """The task ``convs2s_translation`` with the dictionaries of a model.

    Raises:
        UserError: if an option has a value that is not allowed.
    """
    given = {key: checkpoint.task[key] for key in OF_THE_MODEL if key in checkpoint.task}
    cfg = ConvS2STranslationConfig(
        **{
            **given,
            "data": str(dictionaries.folder),
            "source_lang": dictionaries.source,
            "target_lang": dictionaries.target,
            "autocast_dtype": options.autocast_dtype,
            "int8": options.int8,
            "lexicon": options.lexicon,
            "candidates_per_word": options.candidates_per_word,
            "frequent_candidates": options.frequent_candidates,
        }
    )
    return ConvS2STranslationTask.setup_task(cfg)


def load_model(
    checkpoint: Checkpoint, task: ConvS2STranslationTask, device: torch.device, beam: int
) -> FairseqEncoderDecoderModel:
    """Make the model of a checkpoint, ready for generation.

    Raises:
        UserError: if the weights do not fit the dictionaries, or the architecture is unknown.
    """
    try:
        with without_hydra_warnings():
            (model,), _ = checkpoint_utils.load_model_ensemble(
                [checkpoint.path], task=task, state=checkpoint.state
            )
    except (AssertionError, LookupError) as error:
        if not is_unknown_model(error):
            raise
        raise UserError(
            f"{checkpoint.path} has a model that is unknown here: give the package that defines "
            "it with --user-dir."
        ) from error
    except RuntimeError as error:
        if "size mismatch" not in str(error) and "Error(s) in loading" not in str(error):
            raise
        if OLD_FCONV.search(str(error)):
            raise UserError(
                f"{checkpoint.path} is a checkpoint of an old version of fairseq's fconv, which "
                "fairseq no longer loads: convert it with `convs2s convert-fconv`."
            ) from error
        raise UserError(
            f"{checkpoint.path} was trained with other dictionaries than those in "
            f"{task.cfg.data}: give its own with --data."
        ) from error
    if not hasattr(model, "encoder") or not hasattr(model, "decoder"):
        raise UserError(f"{checkpoint.path} is not a model of translation: it has no decoder.")
    model.to(device)
    generation = GenerationConfig(beam=beam)
    model.prepare_for_inference_(FairseqConfig(generation=generation))
    return model
