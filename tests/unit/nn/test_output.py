"""Output projections: logits of all tokens and of some."""

import pytest
import torch

from convs2s.nn.embedding import random_embedding_matrix
from convs2s.nn.linear import WeightNormLinear, fold_weight_norm_
from convs2s.nn.output import OutputProjection, TiedOutputProjection

C, V = 4, 11


@pytest.mark.parametrize("kind", ["tied", "weight-normalized", "folded", "separate"])
def test_logits_of_some_tokens_are_those_of_all(kind):
    torch.manual_seed(1)
    if kind == "separate":
        projection = OutputProjection(C, V)
    elif kind == "tied":
        projection = TiedOutputProjection(random_embedding_matrix(V, C, padding_idx=1))
    else:
        projection = WeightNormLinear(C, V)
    if kind == "folded":
        fold_weight_norm_(projection)
    torch.nn.init.normal_(projection.bias)
    features, tokens = torch.randn(2, 3, C), torch.tensor([7, 2, 2])
    logits = projection(features)
    weight, bias = projection.weight_and_bias()
    torch.testing.assert_close(features @ weight.t() + bias, logits)
    weight, bias = projection.weight_and_bias(tokens)
    torch.testing.assert_close(features @ weight.t() + bias, logits[..., tokens])
