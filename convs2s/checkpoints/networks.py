"""The network in a checkpoint of fairseq-train."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..common.errors import UserError
from ..common.names import check_name
from ..models import FAMILIES, family_of
from ..models.adl.options import DEFINITIONS
from ..models.interface import Network, Vocabularies
from ..models.options import NetworkOptions, checked_values
from ..nn.int8 import SUFFIX
from ..nn.uninitialized import WithoutInitialization, without_memory
from .dictionaries import SIDES, TASK_STATE, saved_digests
from .files import load_checkpoint
from .sizes import check_network

# The tasks whose models translate from one language to another.
TASKS = ("translation", "convs2s_translation")
OF_THE_TASK = ("max_source_positions", "max_target_positions")
# The options of fairseq's translation task that a model depends on.
OF_THE_MODEL = ("source_lang", "target_lang", "left_pad_source", "left_pad_target", *OF_THE_TASK)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose weights are not in a network yet.

    Attributes:
        path: the file.
        state: the content of the file.
        model: the options of the model.
        task: the options of its task.
    """

    path: str
    state: dict[str, Any]
    model: Mapping[str, Any]
    task: Mapping[str, Any]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights by name."""
        found: dict[str, torch.Tensor] = self.state["model"]
        return found

    @property
    def architecture(self) -> str:
        """The name given to ``--arch`` in training."""
        return str(self.model.get("_name") or self.model.get("arch") or "unknown")

    @property
    def family(self) -> str | None:
        """The family of the network; None if it is not one of this library."""
        return family_of(self.architecture)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The source and the target language; None if training found them in its data."""
        given = self.task.get("source_lang"), self.task.get("target_lang")
        for language in given:
            if language is not None:
                check_name(str(language), f"{self.path}: the language in its options")
        return given


def read_checkpoint(path: str) -> Checkpoint:
    """Read a checkpoint; its tensors stay in the file until they are used.

    Raises:
        UserError: if the file is not a checkpoint of a translation model.
    """
    if not Path(path).exists():
        raise UserError(f"There is no checkpoint {path}.")
    state = load_checkpoint(path, memory_mapped=True)
    model, task = _options(state, path)
    name = task.get("_name") or "translation"
    if name not in TASKS:
        raise UserError(
            f"{path} was trained with --task {name}, but only models of the tasks "
            f"{' and '.join(TASKS)} can be translated with here: use fairseq-interactive."
        )
    return Checkpoint(path, state, model, task)


def _options(state: dict[str, Any], path: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The options of model and task; those of older checkpoints are in one namespace."""
    args, cfg = state.get("args"), state.get("cfg")
    if isinstance(args, Namespace):
        options = vars(args)
        return {**options, "_name": options.get("arch")}, {**options, "_name": options.get("task")}
    if cfg is None:
        raise UserError(f"{path} is not a checkpoint of fairseq-train: it has no options.")
    return _part(cfg, "model", path), _part(cfg, "task", path)


def _part(cfg: Any, name: str, path: str) -> Mapping[str, Any]:
    """The options of the model or the task."""
    part = cfg.get(name) if isinstance(cfg, Mapping) else None
    part = vars(part) if isinstance(part, Namespace) else part
    if isinstance(part, Mapping) and isinstance(part.get("_name"), str | None):
        return part
    raise UserError(
        f"{path} is not a checkpoint of fairseq-train: it has no options of its {name}."
    )


def network_options(checkpoint: Checkpoint) -> NetworkOptions:
    """The options of the network in a checkpoint, whose ``family`` must not be None.

    Raises:
        UserError: if a value has another type than its option, or names a file.
    """
    assert checkpoint.family is not None
    family = FAMILIES[checkpoint.family]
    known = family.architectures().get(checkpoint.architecture)
    # A checkpoint may be older than an option.
    given = {
        **{name: checkpoint.task.get(name) for name in OF_THE_TASK},
        **(known.options if known else {}),
    }
    for name, value in checkpoint.model.items():
        # An interpolation refers to the task.
        if value is not None and not (isinstance(value, str) and value.startswith("${")):
            given[name] = value
    check_no_files(given, checkpoint.path)
    options = family.network().options_class
    return options(**checked_values(options, given.get))


def check_no_files(options: Mapping[str, Any], path: str) -> None:
    """Check that a model needs nothing but its checkpoint.

    Training writes the layers of a definition ``@FILE`` into the checkpoint.

    Args:
        options: those of the model.
        path: the checkpoint, for the error.
    Raises:
        UserError: if an option names a file with layers.
    """
    for name, option in DEFINITIONS.items():
        if name in options and "@" in str(options[name]):
            raise UserError(
                f"{path} does not have the layers of its model: {option} is {options[name]}, which "
                "names a file. A trained model is read from its checkpoint alone."
            )


def check_left_to_right(checkpoint: Checkpoint, others: str) -> None:
    """Check that a model predicts the first token first, as programs of others expect.

    Args:
        checkpoint: its ``family`` must not be None.
        others: what would run the model, for the error.
    Raises:
        UserError: if it predicts the last token first.
    """
    if network_options(checkpoint).right_to_left:
        raise UserError(
            f"{checkpoint.path} predicts the last token first (--right-to-left), but {others} "
            "would write its translations backwards: use `convs2s translate`."
        )


def build_network(checkpoint: Checkpoint, vocabularies: Vocabularies | None = None) -> Network:
    """The network of a checkpoint with its weights, in evaluation mode.

    Args:
        checkpoint: its ``family`` must not be None.
        vocabularies: of the data; None for those that the weights have.
    Raises:
        UserError: if the options or the weights are damaged, or do not fit the vocabularies.
    """
    assert checkpoint.family is not None
    if vocabularies is None:
        vocabularies = _vocabularies(checkpoint)
    network: Any = FAMILIES[checkpoint.family].network()
    options = network_options(checkpoint)
    with without_memory():
        check_network(network(options, vocabularies), checkpoint.weights, checkpoint.path)
    with WithoutInitialization():
        built: Network = network(options, vocabularies)
    built.load_state_dict(checkpoint.weights)
    return built.eval()


def new_network(checkpoint: Checkpoint) -> Network:
    """A network with random weights.

    Args:
        checkpoint: its options and the digests of its dictionaries; it needs no weights.
    Raises:
        UserError: if the architecture is unknown, an option is wrong, or there are no digests.
    """
    saved = saved_digests(checkpoint.state.get(TASK_STATE))
    if checkpoint.family is None or not all(side in saved for side in SIDES):
        raise UserError(f"{checkpoint.path} has no network of this library, or no dictionaries.")
    sizes = [int(saved[side]["tokens"]) for side in SIDES]
    network: Any = FAMILIES[checkpoint.family].network()
    built: Network = network(network_options(checkpoint), Vocabularies(*sizes))
    return built


def _vocabularies(checkpoint: Checkpoint) -> Vocabularies:
    """The vocabularies of the weights."""
    sizes = []
    for side in ("encoder", "decoder"):
        name = f"{side}.embed.words.weight"
        matrix = checkpoint.weights.get(name, checkpoint.weights.get(name + SUFFIX))
        if matrix is None or not matrix.dim():
            raise UserError(f"{checkpoint.path} has no {name}: it is damaged.")
        sizes.append(len(matrix))
    return Vocabularies(*sizes)
