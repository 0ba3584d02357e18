"""Dropout: rate, scale, gradient, explicit masks, and passes without dropout."""

import pytest
import torch

from convs2s.nn import dropout as dropout_module
from convs2s.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rate_scale_and_gradient(p, dtype):
    torch.manual_seed(1)
    x = torch.ones(513, 1001, dtype=dtype, requires_grad=True)
    y = Dropout(p)(x)
    assert y.dtype == dtype and y.shape == x.shape
    dropped = y.eq(0)
    error = 5 * (p * (1 - p) / x.numel()) ** 0.5
    assert abs(dropped.double().mean().item() - p) < error + 2**-17
    kept = y[~dropped].double()
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)), rtol=5e-3, atol=0)
    y.backward(torch.full_like(y, 2.0))
    torch.testing.assert_close(x.grad, 2 * y.detach())


def test_neighbors_are_independent():
    torch.manual_seed(1)
    dropped = Dropout(0.25)(torch.ones(2**20)).eq(0).double()
    for distance in (1, 2, 3, 4, 8):
        both = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert abs(both - 0.25**2) < 0.002


def test_the_seed_decides_and_draws_differ():
    x, dropout = torch.ones(7, 13), Dropout(0.5)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first) and not torch.equal(first, second)


def test_forward_applies_a_sampled_mask():
    x, dropout = torch.randn(5, 7), Dropout(0.4)
    torch.manual_seed(3)
    y = dropout(x)
    torch.manual_seed(3)
    mask = dropout.sample_mask(x)
    assert torch.equal(dropout.apply_mask(x, mask), y) and torch.equal(mask == 0, y == 0)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled(dynamic):
    """torch.compile makes one graph of a layer, which draws other numbers at each step."""
    dropout = Dropout(0.25)
    layer = torch.compile(lambda x: dropout(2 * x), backend="aot_eager", dynamic=dynamic)
    for size in (100, 60):
        x = torch.ones(size, 99, requires_grad=True)
        first, second = layer(x), layer(x)
        assert not torch.equal(first, second)
        for y in (first, second):
            dropped = y.eq(0)
            assert abs(dropped.double().mean().item() - 0.25) < 0.03
            torch.testing.assert_close(y[~dropped], torch.full_like(y[~dropped], 2 / 0.75))
        first.sum().backward()
        torch.testing.assert_close(x.grad, first.detach())


def test_a_compiled_mask():
    dropout = Dropout(0.25)
    sample = torch.compile(dropout.sample_mask, backend="aot_eager", fullgraph=True)
    mask = sample(torch.ones(100, 99))
    assert mask.dtype == torch.int16 and abs(mask.double().mean().item() + 0.75) < 0.03
    assert not torch.equal(mask, sample(torch.ones(100, 99)))


def test_inactive_at_inference_and_without_a_rate():
    x = torch.randn(3, 4)
    for inactive in (Dropout(0.5).eval(), Dropout(0.0).train()):
        assert inactive(x) is x
        assert inactive.sample_mask(x) is None and inactive.apply_mask(x, None) is x
    layer = Dropout(1.0).eval()
    layer.always = True
    assert not layer(x).any() and not layer.sample_mask(x).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunk_by_chunk_is_all_at_once(dtype, monkeypatch):
    x, dropout = torch.randn(37, 7, 11, dtype=dtype).transpose(0, 2), Dropout(0.3)
    mask = dropout.sample_mask(x)
    whole = dropout.apply_mask(x, mask)
    monkeypatch.setattr(dropout_module, "CHUNK", 1000)
    assert torch.equal(dropout.apply_mask(x, mask), whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_mask_selects_or_zeroes(dtype):
    """Also numbers that a product with zero would make NaN, and tensors that are not contiguous."""
    x, dropout = torch.randn(6, 5, dtype=dtype).t(), Dropout(0.5)
    x[0, 0] = x[2, 3] = float("inf")
    mask = torch.zeros(5, 6, dtype=torch.int16)
    mask[1:3] = -1
    expected = torch.zeros_like(x)
    expected[1:3] = 2 * x[1:3]
    torch.testing.assert_close(dropout.apply_mask(x, mask), expected)


def test_of_an_empty_tensor():
    assert Dropout(0.5)(torch.ones(0, 3)).shape == (0, 3)
