"""Every recurrent layer against its formula, written plainly in float64 for one sentence."""

import pytest
import torch

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.layers.chains import LayerChain
from tests.support.adl_layers import (
    C,
    T,
    built,
    check,
    context,
    norm,
    random_input,
    sigmoid,
)
from tests.support.batches import random_batch
from tests.support.families import build, outputs


def lstm(module, xs):
    w, u, b = module.weight_ih_l0, module.weight_hh_l0, module.bias_ih_l0 + module.bias_hh_l0
    d = u.size(1)
    h = c = torch.zeros(d, dtype=torch.float64)
    outputs = []
    for x in xs:
        i, f, g, o = (w @ x + u @ h + b).split(d)
        c = sigmoid(f) * c + sigmoid(i) * g.tanh()
        h = sigmoid(o) * c.tanh()
        outputs.append(h)
    return outputs


def gru(module, xs):
    w, u, b, e = module.weight_ih_l0, module.weight_hh_l0, module.bias_ih_l0, module.bias_hh_l0
    d = u.size(1)
    h = torch.zeros(d, dtype=torch.float64)
    outputs = []
    for x in xs:
        (r, z, n), (p, q, m) = (w @ x + b).split(d), (u @ h + e).split(d)
        z = sigmoid(z + q)
        h = (1 - z) * (n + sigmoid(r + p) * m).tanh() + z * h
        outputs.append(h)
    return outputs


def normalized_lstm(module, xs):
    d = module.recurrent.in_features
    h = c = torch.zeros(d, dtype=torch.float64)
    outputs = []
    for x in xs:
        gates = norm(module.input.weight @ x, module.input_norm)
        gates = gates + norm(module.recurrent.weight @ h, module.recurrent_norm)
        i, f, g, o = gates.split(d)
        c = sigmoid(f) * c + sigmoid(i) * g.tanh()
        h = sigmoid(o) * norm(c, module.cell_norm).tanh()
        outputs.append(h)
    return outputs


def normalized_gru(module, xs):
    d = module.recurrent.in_features
    h = torch.zeros(d, dtype=torch.float64)
    outputs = []
    for x in xs:
        r, z, n = norm(module.input.weight @ x, module.input_norm).split(d)
        p, q, m = norm(module.recurrent.weight @ h, module.recurrent_norm).split(d)
        z = sigmoid(z + q)
        h = (1 - z) * (n + sigmoid(r + p) * m).tanh() + z * h
        outputs.append(h)
    return outputs


CELLS = {"lstm": lstm, "gru": gru, "lnlstm": normalized_lstm, "lngru": normalized_gru}


@pytest.mark.parametrize("cell", CELLS)
def test_rnn(cell):
    chain, layer = built(f"rnn({cell}, d=6)")
    check(chain, random_input(), lambda xs: CELLS[cell](layer.network, xs))


@pytest.mark.parametrize("cell", CELLS)
def test_birnn_starts_at_the_end_of_each_sentence(cell):
    chain, layer = built(f"birnn({cell}, d=6)")
    x, lengths = random_input(), [5, 3, 1]
    mask = torch.arange(T) >= torch.tensor(lengths).unsqueeze(1)
    actual = chain(x, context(x, padding_mask=mask))
    for row, sentence, length in zip(actual, x, lengths):
        xs = list(sentence[:length])
        ahead = CELLS[cell](layer.forwards, xs)
        back = CELLS[cell](layer.backwards, xs[::-1])[::-1]
        expected = torch.stack([torch.cat(pair) for pair in zip(ahead, back)])
        torch.testing.assert_close(row[:length], expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("padding", ["right", "left", "none"])
@pytest.mark.parametrize("cell", CELLS)
def test_bi_of_a_recurrent_network_is_birnn(cell, padding):
    options = dict(arch="adl", decoder_adl="mlp_att", model_dim=C)
    birnn = build(**options, encoder_adl=f"birnn({cell})").double()
    bi = build(**options, encoder_adl=f"bi(rnn({cell}, d={C // 2}))", seed=2).double()
    weights = {
        name.replace("forwards.", "forwards.0.network.").replace(
            "backwards.", "backwards.0.network."
        ): weight
        for name, weight in birnn.state_dict().items()
    }
    bi.load_state_dict(weights)
    lengths = [(7, 2)] * 2 if padding == "none" else [(7, 2), (3, 2), (1, 2)]
    batch = random_batch(lengths, left_pad_source=padding == "left")["net_input"]
    assert torch.equal(outputs(bi, batch)[0], outputs(birnn, batch)[0])


def test_qrnn():
    chain, layer = built("qrnn(d=6, k=2, v=relu)")
    weight, bias = layer.linear.weight, layer.linear.bias

    def reference(xs):
        outputs, cell = [], torch.zeros(6, dtype=torch.float64)
        for t, x in enumerate(xs):
            before = xs[t - 1] if t else torch.zeros_like(x)
            z, f = (weight @ torch.cat([before, x]) + bias).split(6)
            cell = sigmoid(f) * cell + (1 - sigmoid(f)) * z.clamp(min=0)
            outputs.append(cell)
        return outputs

    check(chain, random_input(), reference)


def ssru(layer, x, h):
    f = sigmoid(layer.forget.weight @ x + layer.forget.bias)
    c = f * h + (1 - f) * (layer.candidate.weight @ x)
    return c, c.clamp(min=0)


def min_gru(layer, x, h):
    candidate, z = (layer.linear.weight @ x + layer.linear.bias).split(len(h))
    h = (1 - sigmoid(z)) * h + sigmoid(z) * candidate
    return h, h


def min_lstm(layer, x, h):
    candidate, i, f = (layer.linear.weight @ x + layer.linear.bias).split(len(h))
    i, f = sigmoid(i), sigmoid(f)
    h = f / (f + i) * h + i / (f + i) * candidate
    return h, h


def rg_lru(layer, x, h):
    i, r = sigmoid(layer.linear.weight @ x + layer.linear.bias).split(len(h))
    a = sigmoid(layer.decay) ** (8 * r)
    h = a * h + (1 - a**2).sqrt() * i * x
    return h, h


RECURRENCES = {
    "ssru(d=6)": ssru,
    "min_gru(d=6)": min_gru,
    "min_lstm(d=6)": min_lstm,
    "rg_lru": rg_lru,
}


@pytest.mark.parametrize("text", RECURRENCES)
def test_gated_recurrences(text):
    chain, layer = built(text)

    def reference(xs):
        hidden, outputs = torch.zeros(6 if "6" in text else C, dtype=torch.float64), []
        for x in xs:
            hidden, output = RECURRENCES[text](layer, x, hidden)
            outputs.append(output)
        return outputs

    check(chain, random_input(), reference)


def test_the_initial_decays_of_rg_lru():
    (layer,) = resolve("rg_lru", "id", Settings(model_dim=4096)).encoder.layers
    decays = torch.sigmoid(LayerChain((layer,))[0].decay.double()) ** 8
    assert 0.9 - 1e-6 <= decays.min() < 0.902 and 0.997 < decays.max() <= 0.999 + 1e-6


def test_extreme_gates():
    """Gates that are open or closed for good have finite values and gradients."""
    for text in RECURRENCES:
        chain, layer = built(text)
        x = random_input(length=40) * 1e4
        x.requires_grad_()
        for part in chain.parameters():
            part.requires_grad_()
        y = chain(x, context(x))
        y.sum().backward()
        assert y.isfinite().all() and x.grad.isfinite().all(), text
        assert all(part.grad.isfinite().all() for part in chain.parameters()), text


@pytest.mark.parametrize("text", ["ssru", "min_gru", "min_lstm", "qrnn(k=1)"])
def test_gates_that_are_almost_closed_still_learn_in_bf16(text):
    """Where bf16 has no number between the forget gate and 1."""
    chain, layer = built(text)
    chain.float().requires_grad_()
    forget = layer.forget if text == "ssru" else layer.linear
    # The candidate has the first part of the biases.
    logits = {"ssru": [8.0], "min_gru": [0.0, -8.0], "min_lstm": [0.0, -8.0, 8.0]}
    with torch.no_grad():
        given = logits.get(text, [0.0, 8.0])
        forget.bias.copy_(torch.tensor(given).repeat_interleave(len(forget.bias) // len(given)))
    x = random_input(40, 2).float().abs()
    found = {}
    for half in (False, True):
        chain.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            y = chain(x, context(x))
        y.float().square().sum().backward()
        found[half] = y.detach().float(), forget.bias.grad.clone()
    for single, half in zip(found[False], found[True]):
        assert single.abs().max() > 0
        torch.testing.assert_close(half, single, rtol=0.1, atol=0.05 * float(single.abs().max()))
