"""``mega_self_att`` and ``mega_src_att`` against their formulas, position by position."""

from dataclasses import replace

import pytest
import torch

from convs2s.common.errors import SequenceTooLong
from convs2s.models.adl import resolve
from convs2s.models.adl.context import Context, Source
from convs2s.models.adl.layers.chains import LayerChain
from convs2s.nn.state import State
from tests.support.adl_layers import SETTINGS, C, S, T, built, check, context, random_input
from tests.unit.models.adl.test_linear_attention import ema, sigmoid, swish

N = 3
SELF = f"mega_self_att(d_k=5, d_v=6, n={N})"
SOURCE = "mega_src_att(d_k=5)"
MAX_SOURCE, MAX_TARGET = SETTINGS.max_source_positions, SETTINGS.max_target_positions


def linear(module, x):
    return module.weight @ x + module.bias


def softmax(numbers):
    powers = torch.stack(numbers).exp()
    return powers / powers.sum()


def mixed(x, h, update):
    u = sigmoid(update)
    return (1 - u) * x + u * h


def averages(layer, xs, causal):
    """silu(EMA(x) + w x), with what comes after a position in an encoder."""
    found = ema(layer.forwards, xs, N)
    if not causal:
        for t in range(len(xs)):
            alpha, delta = sigmoid(layer.backwards.alpha), sigmoid(layer.backwards.delta)
            for later in range(t + 1, len(xs)):
                decay = (1 - alpha * delta) ** (later - t)
                part = layer.backwards.eta * decay * alpha * layer.backwards.beta
                found[t] = found[t] + part.sum(dim=1) * xs[later]
    return [swish(y + layer.weight * x) for y, x in zip(found, xs)]


def own_attention(layer, xs, causal=False):
    bias = layer.biases.weight
    limit = (len(bias) + 1) // 2
    gates = [
        linear(layer.gates, y).split([C, 5, 6, C]) for y in averages(layer.averages, xs, causal)
    ]
    values = [swish(linear(layer.values, x)) for x in xs]
    queries, keys = (
        [
            layer.scales.chunk(2)[i] * swish(shared) + layer.shifts.chunk(2)[i]
            for _, shared, _, _ in gates
        ]
        for i in range(2)
    )
    outputs = []
    for t, (update, _, reset, candidate) in enumerate(gates):
        seen = range(t + 1 if causal else len(xs))
        weights = softmax([queries[t] @ keys[s] / 5**0.5 + bias[limit - 1 + s - t] for s in seen])
        attended = sum(w * values[s] for w, s in zip(weights, seen))
        h = swish(candidate + linear(layer.output, attended * swish(reset)))
        outputs.append(mixed(xs[t], h, update))
    return outputs


def source_attention(layer, xs, source):
    bias = layer.biases.weight
    limit = (len(bias) + 1) // 2
    keys, values = zip(*(linear(layer.keys_values, s).split([5, C]) for s in source))
    outputs = []
    for t, x in enumerate(xs):
        update, reset, query = linear(layer.queries, x).split([C, C, 5])
        weights = softmax(
            [query @ key / 5**0.5 + bias[limit - 1 + s - t] for s, key in enumerate(keys)]
        )
        attended = sum(w * swish(value) for w, value in zip(weights, values))
        outputs.append(mixed(x, swish(linear(layer.output, attended * swish(reset))), update))
    return outputs


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("length", [1, 2, T, 16])
def test_attention_to_the_sentence(side, length):
    chain, layer = built(SELF, side)
    check(chain, random_input(length), lambda xs: own_attention(layer, xs, side == "decoder"))


def test_padding_takes_no_part():
    chain, layer = built(SELF)
    x, lengths = random_input(), [5, 3, 1]
    mask = torch.arange(T) >= torch.tensor(lengths).unsqueeze(1)
    for row, sentence, length in zip(chain(x, context(x, padding_mask=mask)), x, lengths):
        expected = torch.stack(own_attention(layer, list(sentence[:length])))
        torch.testing.assert_close(row[:length], expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("parts", [(1, 1, 1, 1), (3, 1, 4), (1, 6)], ids=str)
def test_parts_continue_each_other(parts):
    chain, layer = built(SELF, "decoder")
    x, state, start, outputs = random_input(sum(parts)), State(), 0, []
    for part in parts:
        end = start + part
        # Later positions see the earlier ones of their part, too.
        seen = torch.arange(end) <= torch.arange(start, end).unsqueeze(1)
        given = Context(torch.arange(start, end), end, state=state)
        given.cache_mask = None if part == 1 else seen[None, None]
        outputs.append(chain(x[:, start:end], given))
        start = end
    for row, sentence in zip(torch.cat(outputs, dim=1), x):
        expected = torch.stack(own_attention(layer, list(sentence), causal=True))
        torch.testing.assert_close(row, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("each", [False, True])
def test_attention_to_the_source(beam_size, each):
    """Hypotheses of a sentence share its keys; positions are given for all, or for each."""
    chain, layer = built(SOURCE, "decoder")
    sentences, lengths = 2, [6, 4]
    source = random_input(S, sentences, seed=5)
    mask = torch.arange(S) >= torch.tensor(lengths).unsqueeze(1)
    x = random_input(sentences=sentences * beam_size)
    positions = torch.arange(T).repeat(len(x), 1) if each else torch.arange(T)
    given = Context(positions, T, source=Source({1: source}, mask, beam_size), need_weights=True)
    for row, (sentence, y) in enumerate(zip(x, chain(x, given))):
        number = row // beam_size
        seen = list(source[number, : lengths[number]])
        expected = torch.stack(source_attention(layer, list(sentence), seen))
        torch.testing.assert_close(y, expected, atol=1e-10, rtol=1e-10)
    (found,) = given.attention
    assert found.weights.shape == (len(x), 1, T, S)


@pytest.mark.parametrize("text, length", [(SELF, 5), (SELF, 40), (SOURCE, 5), (SOURCE, 40)])
def test_gradients_are_those_of_the_formula(text, length):
    """Those of distances too, also where fused kernels compute the attention."""
    chain, layer = built(text, "decoder")
    chain.requires_grad_()
    x, source = random_input(length, 1), random_input(length, 1, seed=5)
    given = Context(torch.arange(length), length, source=Source({1: source}))
    xs = list(x[0])
    formula = (
        own_attention(layer, xs, causal=True)
        if text == SELF
        else source_attention(layer, xs, list(source[0]))
    )
    weights = torch.randn(length, C, dtype=torch.float64)
    wanted = list(chain.parameters())
    actual = torch.autograd.grad((chain(x, given)[0] * weights).sum(), wanted)
    expected = torch.autograd.grad((torch.stack(formula) * weights).sum(), wanted)
    assert all(gradient.abs().max() > 0 for gradient in expected)
    for gradient, other in zip(actual, expected):
        torch.testing.assert_close(gradient, other, atol=1e-8, rtol=1e-8)


def test_sentences_that_are_longer_than_the_options_allow():
    chain, _ = built(SELF)
    x = random_input(MAX_SOURCE + 1, 1)
    with pytest.raises(SequenceTooLong):
        chain(x, context(x))
    chain, _ = built(SOURCE, "decoder")
    x = random_input(MAX_TARGET + 1, 1)
    with pytest.raises(SequenceTooLong):
        chain(x, context(x, source=Source({1: random_input(S, 1)})))


def test_distances_of_both_sides():
    _, own = built(SELF)
    _, source = built(SOURCE, "decoder")
    assert len(own.biases.weight) == 2 * MAX_SOURCE - 1
    assert len(source.biases.weight) == 2 * max(MAX_SOURCE, MAX_TARGET) - 1


@pytest.mark.parametrize("text", ["mega_self_att", "mega_src_att"])
def test_dropout_is_where_the_authors_have_it(text):
    """--dropout takes all of the candidate, and hidden_dropout all of the values."""
    x = random_input()
    given = context(x, source=Source({1: random_input(S, seed=5)}))

    def output(dropout, hidden, scale=1.0):
        spec = resolve("id", f"{text}(hidden_dropout=0.1)", replace(SETTINGS, dropout=0.3))
        torch.manual_seed(1)
        chain = LayerChain(spec.decoder.layers).double().train()
        (layer,) = chain
        assert (layer.channel_dropout.p, layer.value_dropout.p) == (0.3, 0.1)
        layer.channel_dropout.p, layer.value_dropout.p = dropout, hidden
        values = layer.values if text == "mega_self_att" else layer.keys_values
        with torch.no_grad():
            values.weight[-C:].mul_(scale)
        return chain(x, given)

    torch.testing.assert_close(output(1.0, 0.0), output(1.0, 1.0, scale=99.0))
    torch.testing.assert_close(output(0.0, 1.0), output(0.0, 1.0, scale=99.0))
    assert (output(0.0, 0.0) - output(0.0, 0.0, scale=99.0)).abs().max() > 1e-6
