"""Checkpoints keep digests of their dictionaries, and are refused with other dictionaries."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask

from convs2s.checkpoints.dictionaries import (
    DICTIONARIES,
    TASK_STATE,
    check_dictionaries,
    digests,
)

from .patches import Tier, patched

# The task of a training run that reads a checkpoint.
_training: ContextVar[TranslationTask | None] = ContextVar("training", default=None)


def words_of(task: TranslationTask) -> list[list[str]]:
    """The words of both dictionaries, without those that --replace-unk appended."""
    dictionaries = task.source_dictionary, task.target_dictionary
    sizes = (getattr(task, f"{side}_vocab_size", None) for side in ("source", "target"))
    return [each.symbols[:size] for each, size in zip(dictionaries, sizes)]


@patched(FairseqTask, "state_dict", Tier.EXTRA)
def state_dict(original: Any, self: FairseqTask) -> dict[str, Any]:
    """Add the digests to what a checkpoint keeps of a task of translation."""
    state: dict[str, Any] = original(self)
    if not isinstance(self, TranslationTask):
        return state
    return {**state, DICTIONARIES: digests(words_of(self))}


@patched(FairseqTask, "load_state_dict", Tier.EXTRA)
def load_state_dict(original: Any, self: FairseqTask, state_dict: dict[str, Any]) -> None:
    """Refuse a model that was trained with other words, in generation and validation."""
    if isinstance(self, TranslationTask):
        check_dictionaries(state_dict, words_of(self), "The checkpoint")
    original(self, state_dict)


@contextmanager
def training_of(task: Any) -> Iterator[None]:
    """Let ``check_training`` check what a training run with a task reads."""
    token = _training.set(task if isinstance(task, TranslationTask) else None)
    try:
        yield
    finally:
        _training.reset(token)


def check_training(state: dict[str, Any], path: str) -> None:
    """Check the dictionaries if a training run reads a checkpoint.

    Raises:
        UserError: if the model was trained with other words.
    """
    task = _training.get()
    if task is not None:
        check_dictionaries(state.get(TASK_STATE), words_of(task), path)
