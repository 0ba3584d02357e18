"""Errors about sentences that are longer than a model allows."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import SequenceTooLong, UserError


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
