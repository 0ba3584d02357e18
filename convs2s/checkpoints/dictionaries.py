"""Digests of the dictionaries of a model, which its checkpoint keeps.

A dictionary of the same size with other words fits the weights, and would make wrong translations.
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

    Dictionaries of other sizes are left to the check of the weights, which do not fit them.

    Args:
        task_state: the entry of the checkpoint.
        words: as for ``digests``.
        name: the checkpoint, for the error.
    Raises:
        UserError: if they have not.
    """
    saved = saved_digests(task_state)
    for side, found in digests(words).items():
        trained = saved.get(side)
        if not isinstance(trained, Mapping) or trained.get("tokens") != found["tokens"]:
            continue
        if trained.get("sha256") != found["sha256"]:
            raise UserError(
                f"{name} was trained with another {side} dictionary, which has as many tokens, but "
                "other words or another order: use the dict.*.txt of its training data (--data; "
                "fairseq-preprocess --srcdict and --tgtdict)."
            )
