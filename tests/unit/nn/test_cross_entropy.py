"""The chunked cross-entropy against the plain loss."""

import pytest
import torch
from torch.nn import functional as F

from convs2s.nn import cross_entropy
from convs2s.nn.cross_entropy import linear_cross_entropy

N, C, V = 40, 9, 53


def inputs(bias, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(1)

    def leaf(*shape):
        values = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return values.to(dtype).requires_grad_()

    target = torch.randint(V, (N,), generator=generator)
    return leaf(N, C), leaf(V, C), leaf(V) if bias else None, target


def plain(features, weight, bias, target, label_smoothing):
    """Loss and negative log-likelihood as fairseq computes them, from all logits at once."""
    log_probabilities = F.linear(features, weight, bias).log_softmax(-1)
    nll = -log_probabilities.gather(1, target.unsqueeze(1)).sum()
    # fairseq gives each other word an equal share of the smoothed mass.
    share = label_smoothing / (V - 1)
    return (1 - label_smoothing - share) * nll - share * log_probabilities.sum(), nll


def gradients(loss, *tensors):
    return torch.autograd.grad(loss * 0.5, [tensor for tensor in tensors if tensor is not None])


@pytest.mark.parametrize("rows", [1, 7, N, 1000])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_equal_to_the_plain_loss(rows, bias, label_smoothing, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", rows * V)
    x, w, b, target = inputs(bias)
    sums = linear_cross_entropy(x, w, b, target, label_smoothing, count_correct=True)
    loss, nll = plain(x, w, b, target, label_smoothing)
    torch.testing.assert_close(sums.loss, loss)
    torch.testing.assert_close(sums.nll, nll)
    assert sums.correct == (F.linear(x, w, b).argmax(1) == target).sum()
    for ours, theirs in zip(gradients(sums.loss, x, w, b), gradients(loss, x, w, b)):
        torch.testing.assert_close(ours, theirs)


def test_single_precision_to_1e_5():
    x, w, b, target = inputs(True, torch.float32)
    sums = linear_cross_entropy(x, w, b, target, 0.1)
    loss, _ = plain(x, w, b, target, 0.1)
    torch.testing.assert_close(sums.loss, loss, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients(sums.loss, x, w, b), gradients(loss, x, w, b)):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_tokens_of_vanishing_probability():
    """If exp underflows, the loss must not become infinite."""
    x, w, b, target = inputs(True, torch.float32, scale=12.0)
    probabilities = F.linear(x, w, b).softmax(-1).gather(1, target.unsqueeze(1))
    assert (probabilities == 0).any()
    sums = linear_cross_entropy(x, w, b, target, 0.1)
    loss, nll = plain(x, w, b, target, 0.1)
    torch.testing.assert_close(sums.loss, loss, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(sums.nll, nll, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_the_plain_loss_of_cast_operands(dtype, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", 7 * V)
    x, w, b, target = inputs(True, torch.float32)
    with torch.autocast("cpu", dtype):
        sums = linear_cross_entropy(x, w, b, target, 0.1)
    loss, _ = plain(x.to(dtype).float(), w.to(dtype).float(), b, target, 0.1)
    assert sums.loss.dtype == torch.float32
    torch.testing.assert_close(sums.loss, loss, rtol=5e-3, atol=0)
    for ours, theirs in zip(gradients(sums.loss, x, w, b), gradients(loss, x, w, b)):
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() < 0.02 * theirs.abs().max()


def test_half_precision_parameters():
    x, w, b, target = inputs(True, torch.bfloat16)
    sums = linear_cross_entropy(x, w, b, target)
    loss, _ = plain(x.float(), w.float(), b.float(), target, 0.0)
    torch.testing.assert_close(sums.loss, loss, rtol=5e-3, atol=0)
    assert [g.dtype for g in gradients(sums.loss, x, w, b)] == [torch.bfloat16] * 3


def test_without_gradient():
    x, w, b, target = inputs(True)
    with torch.no_grad():
        sums = linear_cross_entropy(x, w, b, target)
    assert not sums.loss.requires_grad
    torch.testing.assert_close(sums.loss, plain(x, w, b, target, 0.0)[0].detach())


def test_without_tokens():
    x, w, b, _ = inputs(True)
    sums = linear_cross_entropy(x[:0], w, b, torch.zeros(0, dtype=torch.long), 0.1)
    assert sums.loss == 0.0
    assert all(not gradient.any() for gradient in gradients(sums.loss, w, b))


def test_the_backward_pass_runs_once():
    x, w, b, target = inputs(True)
    loss = linear_cross_entropy(x, w, b, target).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can run only once"):
        loss.backward()


def test_the_logits_of_a_batch_are_never_in_memory(monkeypatch):
    """No operation of the loss creates a tensor as large as N x V."""
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", 5 * V)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            for tensor in torch.utils._pytree.tree_leaves(result):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.numel())
            return result

    x, w, b, target = inputs(True)
    with Watch():
        linear_cross_entropy(x, w, b, target, 0.1, count_correct=True).loss.backward()
    assert largest == max(V * C, 5 * V) < N * V


@pytest.mark.parametrize("label_smoothing", [-0.1, 1.0])
def test_label_smoothing_out_of_range(label_smoothing):
    with pytest.raises(ValueError, match="label_smoothing is"):
        linear_cross_entropy(*inputs(True), label_smoothing)
