"""The loss of two passes against the plain formulas."""

import pytest
import torch
from torch.nn import functional as F

from convs2s.nn import cross_entropy
from convs2s.nn.cross_entropy import linear_cross_entropy
from convs2s.nn.divergence import Weights, cross_entropy_of_two_passes

N, C, V = 24, 9, 53
WEIGHTS = {
    "SimCut": Weights.simcut(3.0),
    "R-Drop": Weights.rdrop(5.0),
    "all": Weights(0.3, 0.7, 2.0),
}


def inputs(bias=True, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(1)

    def leaf(*shape):
        values = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return values.to(dtype).requires_grad_()

    target = torch.randint(V, (N,), generator=generator)
    return leaf(2 * N, C), leaf(V, C), leaf(V) if bias else None, target


def plain(features, weight, bias, target, weights, label_smoothing):
    """Loss, negative log-likelihood and divergence from all logits at once."""
    log_p, log_q = F.linear(features, weight, bias).log_softmax(-1).chunk(2)
    share = label_smoothing / (V - 1)

    def nll(log_probabilities):
        return -log_probabilities.gather(1, target.unsqueeze(1)).sum()

    def smoothed(logs):
        return (1 - label_smoothing - share) * nll(logs) - share * logs.sum()

    forward = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    backward = F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    divergences = weights.forward * forward + weights.backward * backward
    loss = smoothed(log_p) + weights.second * smoothed(log_q) + divergences
    return loss, nll(log_p), divergences / (weights.forward + weights.backward)


def gradients(loss, *tensors):
    return torch.autograd.grad(loss * 0.5, [tensor for tensor in tensors if tensor is not None])


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_equal_to_the_plain_formulas(name, rows, bias, label_smoothing, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", 3 * rows * V)
    x, w, b, target = inputs(bias)
    weights = WEIGHTS[name]
    sums = cross_entropy_of_two_passes(x, w, b, target, weights, label_smoothing, True)
    loss, nll, divergence = plain(x, w, b, target, weights, label_smoothing)
    torch.testing.assert_close(sums.loss, loss)
    torch.testing.assert_close(sums.nll, nll)
    torch.testing.assert_close(sums.divergence, divergence)
    assert sums.correct == (F.linear(x[:N], w, b).argmax(1) == target).sum()
    for ours, theirs in zip(gradients(sums.loss, x, w, b), gradients(loss, x, w, b)):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("scale", [1.0, 12.0], ids=["usual", "probabilities that vanish"])
def test_single_precision(name, scale):
    x, w, b, target = inputs(True, torch.float32, scale)
    arguments = (target, WEIGHTS[name], 0.1)
    sums = cross_entropy_of_two_passes(x, w, b, *arguments)
    loss, _, divergence = plain(x.double(), w.double(), b.double(), *arguments)
    torch.testing.assert_close(sums.loss.double(), loss, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(sums.divergence.double(), divergence, rtol=1e-5, atol=1e-3)
    for ours, theirs in zip(gradients(sums.loss, x, w, b), gradients(loss, x, w, b)):
        error = (ours - theirs).abs().max() / theirs.abs().max()
        assert error < (2e-5 if scale == 1.0 else 1e-4)


@pytest.mark.parametrize("name", WEIGHTS)
def test_autocast_is_the_plain_loss_of_cast_operands(name):
    x, w, b, target = inputs(True, torch.float32)
    arguments = (target, WEIGHTS[name], 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        sums = cross_entropy_of_two_passes(x, w, b, *arguments)
    loss, _, _ = plain(x.bfloat16().float(), w.bfloat16().float(), b, *arguments)
    assert sums.loss.dtype == torch.float32
    torch.testing.assert_close(sums.loss, loss, rtol=5e-3, atol=0)
    for ours, theirs in zip(gradients(sums.loss, x, w, b), gradients(loss, x, w, b)):
        assert (ours - theirs).abs().max() < 0.02 * theirs.abs().max()


def test_weights_of_the_papers():
    """Liang et al. 2021, equations 2 to 4: alpha times half of both divergences."""
    assert WEIGHTS["R-Drop"] == (1.0, 2.5, 2.5)
    assert WEIGHTS["SimCut"] == (0.0, 3.0, 0.0)


def test_equal_passes_have_no_divergence():
    x, w, b, target = inputs()
    twice = torch.cat([x[:N], x[:N]])
    sums = cross_entropy_of_two_passes(twice, w, b, target, Weights.simcut(3.0), 0.1)
    torch.testing.assert_close(sums.divergence, torch.zeros_like(sums.divergence))
    torch.testing.assert_close(sums.loss, linear_cross_entropy(x[:N], w, b, target, 0.1).loss)


def test_without_tokens_and_without_gradients():
    x, w, b, target = inputs()
    sums = cross_entropy_of_two_passes(x[:0], w, b, target[:0], Weights.rdrop(5.0), 0.1)
    assert sums.loss == 0.0
    assert all(not gradient.any() for gradient in gradients(sums.loss, w, b))
    with torch.no_grad():
        sums = cross_entropy_of_two_passes(x, w, b, target, Weights.rdrop(5.0))
    assert not sums.loss.requires_grad and sums.loss.isfinite()


def test_the_backward_pass_runs_once():
    x, w, b, target = inputs()
    loss = cross_entropy_of_two_passes(x, w, b, target, Weights.simcut(1.0)).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can run only once"):
        loss.backward()


def test_the_logits_of_a_batch_are_never_in_memory(monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", 15 * V)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            nonlocal largest
            result = function(*arguments, **(options or {}))
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.numel())
            return result

    x, w, b, target = inputs()
    with Watch():
        cross_entropy_of_two_passes(x, w, b, target, Weights.rdrop(1.0), 0.1).loss.backward()
    assert largest <= max(15 * V, w.numel(), x.numel())
