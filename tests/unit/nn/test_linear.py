"""Matrix multiplication and the gradient of ReLU, against torch's own."""

import pytest
import torch
from torch.nn import functional as F

from convs2s.models.pervasive.batch_norm import BatchStats
from convs2s.models.pervasive.feature_buffer import FeatureBuffer
from convs2s.nn import linear as linear_module
from convs2s.nn.linear import Linear, linear, matmul_transposed, relu_backward_

DTYPES = [torch.float32, torch.float64, torch.bfloat16]


@pytest.fixture(params=[True, False], ids=["onednn", "torch"])
def library(request, monkeypatch):
    """With oneDNN, if torch has it, and without; also for small products."""
    monkeypatch.setattr(linear_module, "_ONEDNN", linear_module._ONEDNN and request.param)
    monkeypatch.setattr(linear_module, "SMALL_PRODUCT", 0)


@pytest.mark.parametrize("shape", [(5, 7, 6), (7, 6), (6,), (0, 3, 6), (1, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_equals_torchs(library, shape, bias):
    torch.manual_seed(1)
    x, weight = torch.randn(shape), torch.randn(4, 6)
    inputs = [x, weight, torch.randn(4)] if bias else [x, weight]
    with torch.no_grad():
        torch.testing.assert_close(linear(*inputs), F.linear(*inputs))
    found = []
    for function in (linear, F.linear):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        out = function(*leaves)
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for ours, theirs in zip(*found):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs)


def test_only_the_required_gradients(library):
    x, weight = torch.randn(3, 6), torch.randn(4, 6, requires_grad=True)
    linear(x, weight).sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(dim=0).expand(4, 6))


def test_linear_of_noncontiguous_inputs(library):
    x = torch.randn(6, 5, 7).transpose(0, 2)
    for weight in (
        torch.randn(6, 4).t(),
        torch.randn(4, 18)[:, 6:12],
        torch.randn(18, 4)[6:12].t(),
    ):
        for bias in (None, torch.randn(8)[::2], torch.randn(1).expand(4)):
            torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))


def test_autocast_and_tracing_use_torchs_operators(library):
    module, x = Linear(6, 4), torch.randn(3, 6)
    with torch.autocast("cpu", torch.bfloat16):
        assert module(x).dtype == torch.bfloat16
    traced = torch.jit.trace(module, x)
    assert "aten::linear" in str(traced.graph)
    torch.testing.assert_close(traced(x), module(x))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 16), (3, 5, 16), (400, 1, 16), (0, 16)])
@torch.no_grad()
def test_generation_in_bfloat16(shape, bias, monkeypatch):
    """In any precision of the input; the result is as exact as that of torch."""
    calls = []
    onednn = linear_module._onednn_linear
    monkeypatch.setattr(
        linear_module, "_onednn_linear", lambda *given: calls.append(given) or onednn(*given)
    )
    torch.manual_seed(1)
    x, weight = torch.randn(shape), torch.randn(24, 16).bfloat16()
    added = [torch.randn(24)] if bias else []
    exact = [each.double() for each in (x.bfloat16(), weight, *added)]
    expected = F.linear(*exact)
    with torch.autocast("cpu", torch.bfloat16):
        for each in (x, x.bfloat16()):
            found = linear(each, weight, *added)
            assert found.dtype == torch.bfloat16
            torch.testing.assert_close(found.double(), expected, rtol=2**-7, atol=2**-6)
        assert len(calls) == (2 if linear_module._has_bfloat16() else 0)
        with torch.enable_grad():
            linear(x, weight, *added)
        graph = torch.compile(linear, backend="eager", fullgraph=True)
        torch.testing.assert_close(
            graph(x, weight, *added).double(), expected, rtol=2**-7, atol=2**-6
        )
    assert len(calls) == (2 if linear_module._has_bfloat16() else 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_transposed(library, dtype):
    a, b = torch.randn(5, 6).to(dtype), torch.randn(6, 4).to(dtype).t()
    torch.testing.assert_close(matmul_transposed(a, b), a @ b.t())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_of_relu(dtype):
    x = torch.tensor([-1.5, -0.0, 0.0, 1e-30, 2.0, -float("inf"), float("inf")]).to(dtype)
    rectified = x.relu()
    grad = torch.tensor([1.0, 2.0, -3.0, -4.0, 5.0, 6.0, -7.0]).to(dtype)
    expected = torch.where(rectified > 0, grad, torch.zeros_like(grad))
    given = grad.clone()
    assert relu_backward_(given, rectified) is given and torch.equal(given, expected)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dense_layer_propagates_nan(dtype, sign):
    """Processors create negative NaNs, whose bits are negative integers."""
    block = torch.tensor([[1.0, float("nan")], [2.0, 3.0]]).to(dtype)
    block = block.copysign(torch.tensor(float(sign), dtype=dtype))
    exact = torch.promote_types(dtype, torch.float32)
    stats = BatchStats(torch.zeros(2, dtype=exact), torch.ones(2, dtype=exact))
    read = FeatureBuffer([block], stats).read(*torch.ones(2, 2), torch.ones(1, 2).to(dtype))
    assert read[:, 0].isnan().tolist() == [False, True]
