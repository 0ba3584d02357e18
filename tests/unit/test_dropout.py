"""Dropout: how much is dropped, what is kept, its gradient, and where it is inactive."""

import pytest
import torch

from convs2s_plugin.nn import dropout as dropout_module
from convs2s_plugin.nn.dropout import Dropout, draw_kept, drop, dropout


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rate_scale_and_gradient(p, dtype):
    torch.manual_seed(1)
    x = torch.ones(513, 1001, dtype=dtype, requires_grad=True)
    y = dropout(x, p)
    assert y.dtype == dtype and y.shape == x.shape
    dropped = y.eq(0)
    error = 5 * (p * (1 - p) / x.numel()) ** 0.5
    assert abs(dropped.double().mean().item() - p) < error + 2**-17
    kept = y[~dropped].double()
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)), rtol=5e-3, atol=0)
    y.backward(torch.full_like(y, 2.0))
    torch.testing.assert_close(x.grad, 2 * y.detach())


def test_neighbours_are_independent():
    torch.manual_seed(1)
    dropped = dropout(torch.ones(2**20), 0.25).eq(0).double()
    for distance in (1, 2, 3, 4, 8):
        both = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert abs(both - 0.25**2) < 0.002


def test_the_seed_decides_and_draws_differ():
    x = torch.ones(7, 13)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5), first) and not torch.equal(first, second)


def test_inactive_at_inference_and_without_a_rate():
    x = torch.randn(3, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    layer = Dropout(1.0).eval()
    layer.always = True
    assert not layer(x).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_piece_by_piece_is_all_at_once(dtype, monkeypatch):
    x = torch.randn(37, 7, 11, dtype=dtype).transpose(0, 2)
    kept = draw_kept(x, 0.3)
    whole = drop(x, kept, 0.3)
    monkeypatch.setattr(dropout_module, "PIECE", 1000)
    assert torch.equal(drop(x, kept, 0.3), whole)


def test_of_nothing():
    assert dropout(torch.ones(0, 3), 0.5).shape == (0, 3)
