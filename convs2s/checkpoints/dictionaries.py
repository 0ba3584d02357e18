"""Digests of the dictionaries of a model, which its checkpoint keeps.

A dictionary of the same size with other words fits the weights, but would give wrong translations.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..common.errors import UserError

SIDES = ("source", "target")
# The entry of a checkpoint in which fairseq keeps what a task has, and the entry of the digests.
TASK_STATE, DICTIONARIES = "task_state", "dictionaries"


def digests(words: Sequence[Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The number of words and the SHA-256 of each dictionary, as a checkpoint has them.

    Args:
        words: those of the source and the target language in their order, with special symbols.
    """
    return {
        side: {
            "tokens": len(of_side),
            "sha256": hashlib.sha256("\n".join(of_side).encode("utf-8", "replace")).hexdigest(),
        }
        for side, of_side in zip(SIDES, words)
    }


def saved_digests(task_state: Any) -> Mapping[str, Any]:
    """The digests in the state of a task; none in older checkpoints."""
    found = task_state.get(DICTIONARIES) if isinstance(task_state, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def check_dictionaries(task_state: Any, words: Sequence[Sequence[str]], name: str) -> None:
    """Check that dictionaries have the words that a model was trained with.

    A dictionary of another size is left to the check of the weights, which do not fit it.

    Args:
        task_state: the entry of the checkpoint.
        words: as for ``digests``.
        name: the checkpoint, for the error.
    Raises:
        UserError: if they do not.
    """
    saved, given = saved_digests(task_state), digests(words)
    trained = {side: saved[side] for side in given if isinstance(saved.get(side), Mapping)}
    if any(trained[side].get("tokens") != given[side]["tokens"] for side in trained):
        return
    for side in trained:
        if trained[side].get("sha256") != given[side]["sha256"]:
            raise UserError(
                f"{name} was trained with another {side} dictionary, which has as many tokens, but "
                "other words or another order: use the dict.*.txt of its training data (--data; "
                "fairseq-preprocess --srcdict and --tgtdict)."
            )
