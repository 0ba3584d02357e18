"""Softmax of short and long rows, and masks of attention scores."""

import pytest
import torch

from convs2s.nn import softmax as module
from convs2s.nn.softmax import LANES, MIN_ROWS, causal_mask, masked_softmax, softmax


@pytest.mark.parametrize("rows", [1, MIN_ROWS, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_equal_torch(rows, dtype):
    torch.manual_seed(1)
    for size in (0, 1, 2, 5, LANES - 1, LANES, LANES + 1, 40):
        scores = (5 * torch.randn(rows, 3, size, dtype=dtype)).requires_grad_()
        weights = torch.randn(rows, 3, size, dtype=dtype)
        results = []
        for function in (softmax, lambda x: x.softmax(-1)):
            probs = function(scores)
            (grad,) = torch.autograd.grad((probs * weights).sum(), scores)
            results.append((probs, grad))
        torch.testing.assert_close(*results)


def test_short_rows_are_padded(monkeypatch):
    sizes, pad = [], module.F.pad
    monkeypatch.setattr(
        module.F, "pad", lambda x, *rest, **more: sizes.append(x.size(-1)) or pad(x, *rest, **more)
    )
    for rows, size in ((MIN_ROWS, 5), (MIN_ROWS - 1, 5), (MIN_ROWS, LANES), (MIN_ROWS, 1)):
        softmax(torch.randn(rows, size))
    assert sizes == [5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masks_are_selections_or_numbers(dtype):
    torch.manual_seed(1)
    scores = torch.randn(70, 2, 6, 6, dtype=dtype)
    real = (torch.arange(6) < torch.randint(1, 7, (70, 1)))[:, None, None]
    numbers = torch.zeros(real.shape).masked_fill(~real, float("-inf"))
    expected = (scores.float() * 0.5).masked_fill(~real, float("-inf")).softmax(-1)
    for mask in (real, numbers):
        weights = masked_softmax(scores, mask, 0.5)
        assert weights.dtype == torch.float32 and not weights[~real.expand_as(weights)].any()
        torch.testing.assert_close(weights, expected)
    causal = masked_softmax(scores, causal_mask(scores))
    assert not causal.triu(1).any()
    torch.testing.assert_close(causal.sum(-1), torch.ones(70, 2, 6))


def test_an_exported_graph_does_not_depend_on_the_number_of_rows():
    class Module(torch.nn.Module):
        def forward(self, x):
            return softmax(x)

    sizes = {0: torch.export.Dim("rows", min=2, max=1000)}
    graph = torch.export.export(Module(), (torch.randn(5, 7),), dynamic_shapes=(sizes,)).module()
    x = torch.randn(999, 7)
    torch.testing.assert_close(graph(x), x.softmax(-1))
