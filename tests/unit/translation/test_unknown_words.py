"""Unknown words are aligned with the source word with the most attention."""

import torch

from convs2s.text.vocabulary import unknown_word
from convs2s.translation.alignment import aligned_sources
from tests.support.batches import vocabulary


def aligned(tokens, source, attention):
    return aligned_sources(torch.tensor(tokens), torch.tensor(source), attention, 3, 1, 2)


def test_every_unknown_word_is_aligned():
    attention = torch.eye(5)[[1, 2, 3, 1]]  # to w0, w1, w2, w0
    # Padding, w0, w1, w2, end of sentence.
    assert aligned([3, 3, 8, 3], [1, 4, 5, 6, 2], attention) == {0: 1, 1: 2, 3: 1}


def test_padding_and_end_of_sentence_never_count():
    attention = torch.tensor([[0.5, 0.1, 0.0, 0.4]])
    assert aligned([3], [1, 4, 5, 2], attention) == {0: 1}
    assert aligned([3], [1, 2], attention[:, :2]) == {}


def test_the_first_unknown_word_of_a_text():
    assert unknown_word(vocabulary(), "w1 <unk> other w2 another") == "other"
    assert unknown_word(vocabulary(), "w1 <unk>") is None
