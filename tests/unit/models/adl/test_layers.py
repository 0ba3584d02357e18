"""Every layer without recurrence against its formula, in float64 for one sentence at a time."""

import math

import pytest
import torch
from torch.nn import functional as F

from convs2s.models.adl.context import Source
from convs2s.models.adl.layers.chains import LayerChain
from convs2s.nn.attention import record_attention
from tests.support.adl_layers import (
    C,
    S,
    T,
    built,
    check,
    context,
    norm,
    random_input,
    sigmoid,
)
from tests.support.batches import PAD, random_batch
from tests.support.families import MODELS, tiny_adl


def test_bi_runs_a_second_chain_from_the_end_of_each_sentence():
    text = "bi(pos(scale=false) -> cnn(tanh, k=4, padding=causal, d=6) -> res(ssru(d=6)))"
    chain, layer = built(text)
    x, lengths = random_input(), [5, 3, 1]
    mask = torch.arange(T) >= torch.tensor(lengths).unsqueeze(1)
    actual = chain(x, context(x, padding_mask=mask))
    assert actual.shape == (3, T, 12)
    for row, sentence, length in zip(actual, x, lengths):
        xs = sentence[:length].unsqueeze(0)
        ahead = layer.forwards(xs, context(xs))[0]
        back = layer.backwards(xs.flip(1), context(xs))[0].flip(0)
        expected = torch.cat([ahead, back], dim=-1)
        torch.testing.assert_close(row[:length], expected, atol=1e-10, rtol=1e-10)
    assert not torch.equal(ahead, back)


@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 3, 1]])
def test_recorded_attention_of_bi_is_in_the_order_of_the_sentence(lengths):
    chain, layer = built("bi(mh_dot_self_att)")
    layer.backwards.load_state_dict(layer.forwards.state_dict())
    x = random_input()
    mask = torch.arange(T) >= torch.tensor(lengths).unsqueeze(1)
    given = context(x, padding_mask=mask if min(lengths) < T else None)
    with record_attention():
        chain(x, given)
    first, second = (found.weights for found in given.attention)
    # Without positions, attention is the same for any order of the tokens.
    for length, ahead, back in zip(lengths, first, second):
        torch.testing.assert_close(
            back[:, :length, :length], ahead[:, :length, :length], atol=1e-10, rtol=1e-10
        )


@pytest.mark.parametrize("padding", ["centred", "causal"])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("name", ["light_conv", "dynamic_conv"])
def test_weighted_means_of_neighbors(name, k, padding):
    chain, layer = built(f"{name}({k}, h=2, padding={padding})")
    left = k - 1 if padding == "causal" else (k - 1) // 2

    def reference(xs):
        outputs = []
        for t, x in enumerate(xs):
            scores = layer.scores if name == "light_conv" else (layer.scores.weight @ x).view(2, k)
            heads = []
            for head in range(2):
                part = slice(head * C // 2, (head + 1) * C // 2)
                weights = scores[head].exp() / scores[head].exp().sum()
                places = [t + j - left for j in range(k)]
                near = [xs[p][part] if 0 <= p < len(xs) else torch.zeros(C // 2) for p in places]
                heads.append(sum(w * y for w, y in zip(weights, near)))
            outputs.append(torch.cat(heads))
        return outputs

    check(chain, random_input(), reference)


def test_sum():
    chain, _ = built("sum(linear(6), ff(4, v=tanh) -> linear(6))")
    parts = [LayerChain(()) for _ in range(2)]
    for part, layers in zip(parts, chain[0].chains):
        part.extend(layers)
    x = random_input()
    expected = parts[0](x, context(x)) + parts[1](x, context(x))
    torch.testing.assert_close(chain(x, context(x)), expected, atol=0, rtol=0)


def test_rms_norm():
    chain, layer = built("rms_norm")
    weight = layer.norm.weight
    check(
        chain,
        random_input(),
        lambda xs: [weight * x / (x.square().mean() + 1e-6).sqrt() for x in xs],
    )


@pytest.mark.parametrize("v, activation", [("swiglu", F.silu), ("geglu", F.gelu)])
def test_gated_activations(v, activation):
    chain, second = built(f"ffl(6, v={v})")
    first = chain[0]

    def reference(xs):
        outputs = []
        for x in xs:
            gate, value = (first.linear.weight @ x + first.linear.bias).split(6)
            hidden = activation(gate) * value
            outputs.append(second.linear.weight @ hidden + second.linear.bias)
        return outputs

    check(chain, random_input(), reference)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("v", ["relu", "glu"])
@pytest.mark.parametrize("padding", ["centred", "causal"])
def test_cnn(padding, v, k, dilation):
    chain, layer = built(f"cnn({v}, {k}, d=6, dilation={dilation}, padding={padding})")
    x = random_input()
    # The kernel of torch's convolution is outputs x inputs x k.
    kernel = layer.linear.weight.unflatten(1, (k, C)).transpose(1, 2)
    span = (k - 1) * dilation
    left = span if padding == "causal" else span // 2
    y = F.conv1d(
        F.pad(x.transpose(1, 2), (left, span - left)), kernel, layer.linear.bias, 1, 0, dilation
    ).transpose(1, 2)
    expected = y.clamp(min=0) if v == "relu" else y[..., :6] * sigmoid(y[..., 6:])
    torch.testing.assert_close(chain(x, context(x)), expected, atol=1e-10, rtol=1e-10)


def attention(score, values):
    """Plain attention for one query position."""

    def of(query, seen):
        weights = torch.tensor([score(query, key) for key in seen], dtype=torch.float64).softmax(0)
        return sum(weight * value for weight, value in zip(weights, values(seen))), weights

    return of


def heads(layer, h, s, mixed):
    """The attention of all heads, by the formula, then the last projection if there is one."""
    if hasattr(layer, "queries_keys_values"):
        q, k, v = layer.queries_keys_values.weight.chunk(3)
    else:
        q, (k, v) = layer.queries.weight, layer.keys_values.weight.chunk(2)

    def of(query, seen):
        found, shares = [], []
        for wq, wk, wv in zip(q.chunk(h), k.chunk(h), v.chunk(h)):
            one = attention(
                lambda a, b, wq=wq, wk=wk: float((wq @ a) @ (wk @ b)) / math.sqrt(s),
                lambda us, wv=wv: [wv @ u for u in us],
            )
            context, weights = one(query, seen)
            found.append(context)
            shares.append(weights)
        joined = torch.cat(found)
        return layer.output.weight @ joined if mixed else joined, sum(shares) / h

    return of


def mlp(layer):
    def score(query, key):
        hidden = (layer.queries.weight @ query + layer.keys.weight @ key).tanh()
        return float(layer.weight @ hidden)

    return attention(score, list)


ATTENTION = {
    "mh_dot_{}_att(h=2)": lambda layer: heads(layer, 2, C / 2, True),
    "mh_dot_{}_att(h=4, d=6, d_p=12, s=2)": lambda layer: heads(layer, 4, 2, True),
    "proj_dot_{}_att(d_p=6)": lambda layer: heads(layer, 1, 6, False),
    "mlp_{}_att(d_p=6)": mlp,
}


@pytest.mark.parametrize("text", ATTENTION)
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_self_attention(text, side):
    chain, layer = built(text.format("self"), side)
    of = ATTENTION[text](layer)

    def reference(xs):
        return [of(x, xs if side == "encoder" else xs[: t + 1])[0] for t, x in enumerate(xs)]

    check(chain, random_input(), reference)


@pytest.mark.parametrize("text", [*ATTENTION, "dot_att", "dot_att(s=1)"])
def test_attention_to_the_source(text):
    channels = C if text.startswith("dot_att") else 12
    chain, layer = built(text.format("src"), "decoder", f"linear({channels})")
    if text.startswith("dot_att"):
        root = 1 if "s=1" in text else math.sqrt(C)
        of = attention(lambda a, b: float(a @ b) / root, list)
    else:
        of = ATTENTION[text](layer)
    x, source = random_input(), random_input(S, seed=3, channels=channels)
    lengths = [6, 4, 1]
    mask = torch.arange(S) >= torch.tensor(lengths).unsqueeze(1)
    given = context(x, source=Source({1: source}, mask), need_weights=True)
    actual = chain(x, given)
    for row in range(3):
        seen = list(source[row, : lengths[row]])
        expected = [of(query, seen) for query in x[row]]
        torch.testing.assert_close(
            actual[row], torch.stack([pair[0] for pair in expected]), atol=1e-10, rtol=1e-10
        )
        (found,) = given.attention
        weights = found.weights.mean(dim=1)
        torch.testing.assert_close(
            weights[row, :, : lengths[row]],
            torch.stack([pair[1] for pair in expected]),
            atol=1e-10,
            rtol=1e-10,
        )
        assert not weights[row, :, lengths[row] :].any()


def test_pos():
    chain, _ = built("pos")

    def reference(xs):
        outputs = []
        for t, x in enumerate(xs):
            p = []
            for j in range(C // 2):
                angle = t / 10000 ** (2 * j / C)
                p += [math.sin(angle), math.cos(angle)]
            outputs.append(math.sqrt(C) * x + torch.tensor(p, dtype=torch.float32).double())
        return outputs

    check(chain, random_input(), reference)
    scaled, _ = built("pos(scale=false)")
    x = random_input()
    expected = (chain(x, context(x)) / math.sqrt(C)) - x
    torch.testing.assert_close(scaled(x, context(x)) - x, expected, atol=1e-7, rtol=0)


def test_learn_pos():
    chain, layer = built("learn_pos")
    check(chain, random_input(), lambda xs: [x + layer.weight[t] for t, x in enumerate(xs)])


@pytest.mark.parametrize(
    "text, formula",
    [
        ("id", lambda m, x: x),
        ("dropout", lambda m, x: x),
        ("linear(6)", lambda m, x: m.linear.weight @ x + m.linear.bias),
        ("linear(6, bias=false)", lambda m, x: m.linear.weight @ x),
        ("ff(6)", lambda m, x: (m.linear.weight @ x + m.linear.bias).clamp(min=0)),
        ("ff(6, v=tanh)", lambda m, x: (m.linear.weight @ x + m.linear.bias).tanh()),
        ("norm", lambda m, x: norm(x, m.norm)),
        ("act(swish)", lambda m, x: x * sigmoid(x)),
        ("act(softplus)", lambda m, x: (1 + x.exp()).log()),
        ("res(act(tanh))", lambda m, x: x + x.tanh()),
        (
            "highway(act(tanh))",
            lambda m, x: (g := sigmoid(m.gate.weight @ x + m.gate.bias)) * x + (1 - g) * x.tanh(),
        ),
        ("concat(id, act(tanh), act(relu))", lambda m, x: torch.cat([x, x.tanh(), x.clamp(min=0)])),
    ],
)
def test_layers_that_see_one_position(text, formula):
    chain, layer = built(text)
    check(chain, random_input(), lambda xs: [formula(layer, x) for x in xs])


def test_input_feeding_feeds_the_previous_output():
    """Against a pass over the whole prefix for every token, without incremental state."""
    model = tiny_adl(**MODELS["adl-rnmt"]).double()
    batch = random_batch([(7, 5), (3, 4)])["net_input"]
    encoded = model.encode(batch["src_tokens"])
    decoder, tokens = model.decoder, batch["prev_output_tokens"]
    expected, _ = model.decode(tokens, encoded)
    embedded = decoder.embed.words(tokens)
    inputs, last = [], embedded.new_zeros(2, model.decoder.layers.width)
    source = decoder.source(encoded)
    for t in range(tokens.size(1)):
        inputs.append(torch.cat([embedded[:, t], last], dim=-1))
        x = torch.stack(inputs, dim=1)
        last = decoder.layers.apply_layers(x, context(x, source=source))[:, -1]
        real = tokens[:, t].ne(PAD)
        torch.testing.assert_close(last[real], expected[real, t], atol=1e-10, rtol=1e-10)
