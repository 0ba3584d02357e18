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
