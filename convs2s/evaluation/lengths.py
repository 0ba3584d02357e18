"""Groups of sentences of similar length."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from ..common.errors import UserError

GROUPS = 5


class LengthGroup(NamedTuple):
    """Sentences of similar length.

    Attributes:
        low, high: the smallest and the largest length in tokens.
        sentences: their positions in the text, counted from 0.
    """

    low: int
    high: int
    sentences: list[int]


def group_by_length(
    lengths: Sequence[int], bounds: Sequence[int] | None = None
) -> list[LengthGroup]:
    """Group sentences by length.

    Args:
        lengths: the length of each sentence in tokens.
        bounds: the largest length of each group but the last, in increasing order. By default,
            five groups of about the same number of sentences.
    Returns:
        The groups that have sentences, the shortest sentences first.
    Raises:
        UserError: if the bounds are not positive and increasing.
    """
    if bounds is None:
        ordered = sorted(lengths)
        bounds = sorted({ordered[len(ordered) * i // GROUPS - 1] for i in range(1, GROUPS)})
    elif any(high <= low for low, high in zip((0, *bounds), bounds)):
        raise UserError(
            f"--length-bounds is {','.join(map(str, bounds))}: the bounds must be positive and "
            "increasing."
        )
    members: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for position, length in enumerate(lengths):
        members[bisect_left(bounds, length)].append(position)
    return [
        LengthGroup(
            min(lengths[i] for i in sentences), max(lengths[i] for i in sentences), sentences
        )
        for sentences in members
        if sentences
    ]
