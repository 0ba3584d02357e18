"""Batches of sentences of similar length."""

from collections.abc import Iterator, Sequence

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def batches_by_size(
    order: Sequence[int], lengths: Sequence[int], max_tokens: int, max_sentences: int | None = None
) -> Iterator[list[int]]:
    """Group sentences, as many as fit into a batch.

    Args:
        order: numbers of sentences; neighbors come into one batch.
        lengths: the number of tokens of each sentence.
        max_tokens: largest number of tokens in a batch, with padding; a longer sentence is a batch
            of its own.
        max_sentences: largest number of sentences in a batch; None for any number.
    """
    batch: list[int] = []
    longest = 0
    for number in order:
        longest = max(longest, lengths[number])
        size = len(batch) + 1
        if batch and (size * longest > max_tokens or size > (max_sentences or size)):
            yield batch
            batch, longest = [], lengths[number]
        batch.append(number)
    if batch:
        yield batch


def padded_before(sentences: Sequence[Tensor], pad: int) -> Tensor:
    """Sentences as rows, B x S, with padding before the shorter ones."""
    return pad_sequence([tokens.flip(0) for tokens in sentences], True, pad).flip(1)
