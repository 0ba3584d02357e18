"""Embeddings of tokens and positions."""

import pytest
import torch

from convs2s.common.errors import SequenceTooLong
from convs2s.nn.embedding import Embedding, LearnedPositions, random_embedding_matrix

PAD = 1


@pytest.fixture
def embed():
    torch.manual_seed(1)
    return Embedding(random_embedding_matrix(9, 4, PAD), LearnedPositions(3, 4))


def test_padding_does_not_count_as_a_position(embed):
    tokens = torch.tensor([[5, 6, 7], [1, 5, 6], [5, 1, 6]])
    x = embed(tokens, tokens == PAD)
    torch.testing.assert_close(x[0, :2], x[1, 1:])
    torch.testing.assert_close(x[0, :2], x[2, [0, 2]])
    assert not x[tokens == PAD].any()
    torch.testing.assert_close(embed(tokens, tokens == PAD, start=2), x[:, 2:])


def test_the_number_of_tokens_is_limited_not_the_number_of_columns(embed):
    tokens = torch.tensor([[1, 5, 6, 7]])
    embed(tokens, tokens == PAD)
    tokens = torch.tensor([[8, 5, 6, 7]])
    with pytest.raises(SequenceTooLong, match="has 4 tokens, but at most 3") as error:
        embed(tokens, tokens == PAD)
    assert (error.value.length, error.value.limit) == (4, 3)
