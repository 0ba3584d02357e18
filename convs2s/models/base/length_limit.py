"""Errors about sentences that are longer than a model allows, or empty."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ...common.errors import EmptySequence, SequenceTooLong, UserError


@contextmanager
def explain_length_limit(language: str) -> Iterator[None]:
    """Name the option that limits the length of a sentence if a layer refuses one.

    Args:
        language: "source" or "target".
    Raises:
        UserError: if the body raises SequenceTooLong.
    """
    try:
        yield
    except SequenceTooLong as error:
        raise UserError(
            f"A {language} sentence has {error.length} tokens, more than the {error.limit} that "
            f"--max-{language}-positions allowed in training: shorten it or train with a larger "
            "value."
        ) from None


def check_not_empty(padding_mask: Tensor) -> None:
    """Check that every source sentence of a batch has a token, which attention needs.

    Args:
        padding_mask: B x S, True at padding.
    Raises:
        EmptySequence: if a sentence has none.
    """
    empty = padding_mask.all(dim=1)
    if not torch.compiler.is_compiling() and bool(empty.any()):
        raise EmptySequence(int(empty.int().argmax()))
