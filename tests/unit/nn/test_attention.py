"""Attention by fused kernels and by separate matrix multiplications."""

import pytest
import torch

from convs2s.nn import attention
from convs2s.nn.attention import dot_product_attention
from convs2s.nn.dropout import Dropout


@pytest.mark.parametrize("masked, causal", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("length", [5, 40])
def test_fused_and_separate_kernels_agree(masked, causal, length, monkeypatch):
    torch.manual_seed(1)
    tensors = [torch.randn(3, 2, length, 4).double().requires_grad_() for _ in range(3)]
    mask = None
    if masked:
        mask = (torch.arange(length) < torch.tensor([[length], [2], [1]]))[:, None, None]
    fused, results = torch.nn.functional.scaled_dot_product_attention, []
    calls = []
    monkeypatch.setattr(
        attention.F,
        "scaled_dot_product_attention",
        lambda *arguments, **options: calls.append(1) or fused(*arguments, **options),
    )
    for short in (0, attention.MAX_UNFUSED_LENGTH):
        monkeypatch.setattr(attention, "MAX_UNFUSED_LENGTH", short)
        context, weights = dot_product_attention(*tensors, mask, 0.5, causal, need_weights=False)
        assert weights is None
        results.append((context, *torch.autograd.grad(context.sin().sum(), tensors)))
    assert len(calls) == (1 if length <= attention.MAX_UNFUSED_LENGTH else 2)
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-12)
    context, weights = dot_product_attention(*tensors, mask, 0.5, causal)
    torch.testing.assert_close(context, results[0][0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(weights @ tensors[2], context)


@pytest.mark.parametrize("shared", [1, 2, 4])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "biases"])
@pytest.mark.parametrize("unfused", [0, 100], ids=["fused", "unfused"])
def test_heads_that_share_keys_and_biases(unfused, mask, shared, monkeypatch):
    """Against each head by itself, with its own copy of keys and values."""
    monkeypatch.setattr(attention, "MAX_UNFUSED_LENGTH", unfused)
    torch.manual_seed(1)
    query = torch.randn(3, 4, 7, 6, dtype=torch.float64, requires_grad=True)
    keys, values = (
        torch.randn(3, shared, 7, size, dtype=torch.float64, requires_grad=True) for size in (6, 5)
    )
    biases = torch.randn(1, 4, 7, 7, dtype=torch.float64)
    biases[:, :, :, 5] = float("-inf")
    real = (torch.arange(7) < torch.tensor([[7], [2], [1]]))[:, None, None]
    given = {"padding": real, "biases": biases}.get(mask)
    added = {
        "none": torch.zeros(1),
        "causal": torch.full((7, 7), float("-inf")).triu(1),
        "padding": torch.zeros(1).masked_fill(~real, float("-inf")),
        "biases": biases,
    }[mask].expand(3, 4, 7, 7)
    inputs = (query, keys, values)
    causal = mask == "causal"
    expected = []
    for head in range(4):
        of = head * shared // 4
        scores = query[:, head] @ keys[:, of].transpose(1, 2) / 2 + added[:, head]
        expected.append(scores.softmax(dim=-1) @ values[:, of])
    expected = torch.stack(expected, dim=1)
    expected = (expected, *torch.autograd.grad(expected.sin().sum(), inputs))
    for need_weights in (False, True):
        context, weights = dot_product_attention(
            *inputs, given, 0.5, causal, need_weights=need_weights
        )
        found = (context, *torch.autograd.grad(context.sin().sum(), inputs))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        assert (weights is not None) == need_weights
        if weights is not None:
            assert weights.shape == (3, 4, 7, 7)


@pytest.mark.parametrize("length", [5, 40])
def test_dropout_of_weights_keeps_the_mean_and_drops_the_given_share(length):
    torch.manual_seed(1)
    dropout = Dropout(0.25)
    query, keys = torch.zeros(2, 64, 4, length, 8)
    # With equal weights and orthogonal values, the context shows which weights were dropped.
    values = torch.eye(length).expand(64, 4, length, length)
    context, _ = dot_product_attention(query, keys, values, dropout=dropout, need_weights=False)
    kept = context != 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.01)
    torch.testing.assert_close(context[kept], torch.full_like(context[kept], 1 / 0.75 / length))
    context, _ = dot_product_attention(
        query, keys, values, dropout=dropout.eval(), need_weights=False
    )
    torch.testing.assert_close(context, torch.full_like(context, 1 / length))


def test_half_precision_is_close_to_single_precision():
    torch.manual_seed(1)
    tensors = [torch.randn(3, 2, 6, 8) for _ in range(3)]
    expected, _ = dot_product_attention(*tensors, causal=True, need_weights=False)
    halves = [x.bfloat16() for x in tensors]
    context, _ = dot_product_attention(*halves, causal=True, need_weights=False)
    assert context.dtype == torch.bfloat16
    torch.testing.assert_close(context.float(), expected, rtol=0.02, atol=0.03)
