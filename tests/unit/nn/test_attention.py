"""Attention by fused kernels and by separate matrix multiplications."""

import pytest
import torch

from convs2s_plugin.nn import attention
from convs2s_plugin.nn.attention import dot_product_attention


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
