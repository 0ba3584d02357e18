"""``retention``, ``gla``, ``mamba2`` and ``ema`` against their formulas, position by position."""

import math

import pytest
import torch

from convs2s.common.errors import TextError
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.context import Context
from convs2s.models.adl.language.layers import linear_attention as declared
from convs2s.models.adl.language.layers.moving_average import CHUNK
from convs2s.nn.linear_attention import CHANNEL_CHUNK, HEAD_CHUNK
from convs2s.nn.state import State
from tests.support.adl_layers import C, built, check, context, random_input, sigmoid


def swish(x):
    return x * sigmoid(x)


def states(query, key, value, decay, state):
    """S_t and o_t of one head; decay has one element, or one for each channel of the key."""
    state = decay.unsqueeze(-1) * state + torch.outer(key, value)
    return state, query @ state


def rms(x):
    return x / ((x * x).mean() + 1e-6).sqrt()


def rotated(x, t):
    """Pairs of channels as complex numbers, turned by t / 10000^(2j/E)."""
    turned = []
    for j in range(len(x) // 2):
        angle = t / 10000 ** (2 * j / len(x))
        # The layer has a table in single precision.
        cos, sin = (
            torch.tensor(f(angle), dtype=torch.float32).double() for f in (math.cos, math.sin)
        )
        a, b = x[2 * j], x[2 * j + 1]
        turned += [a * cos - b * sin, a * sin + b * cos]
    return torch.stack(turned)


def retention(layer, xs, h=2, d_k=C, d_v=2 * C):
    w_q, w_k, w_v, w_g = layer.projections.weight.split([d_k, d_k, d_v, d_v])
    memory = [w_q.new_zeros(d_k // h, d_v // h) for _ in range(h)]
    outputs = []
    for t, x in enumerate(xs):
        heads = []
        for i in range(h):
            decay = torch.tensor([math.log(1 - 2 ** (-5 - i))]).double().exp()
            q, k, v = ((w @ x).chunk(h)[i] for w in (w_q, w_k, w_v))
            k = k / math.sqrt(d_k // h)
            memory[i], o = states(rotated(q, t), rotated(k, t), v, decay, memory[i])
            o = o - o.mean()
            heads.append(o / ((o * o).mean() + 1e-6).sqrt())
        outputs.append(layer.output.weight @ (swish(w_g @ x) * torch.cat(heads)))
    return outputs


def gla(layer, xs, h=2, d_k=C // 2, d_v=C):
    w_q, w_k, w_v, w_r, w_1 = layer.projections.weight.split([d_k, d_k, d_v, d_v, 16])
    memory = [w_q.new_zeros(d_k // h, d_v // h) for _ in range(h)]
    outputs = []
    for x in xs:
        gates = sigmoid(layer.gates.weight @ (w_1 @ x) + layer.gates.bias) ** (1 / 16)
        heads = []
        for i in range(h):
            q, k, v = ((w @ x).chunk(h)[i] for w in (w_q, w_k, w_v))
            q = q / math.sqrt(d_k // h)
            memory[i], o = states(q, k, v, gates.chunk(h)[i], memory[i])
            heads.append(rms(o) * layer.norm_weight)
        outputs.append(layer.output.weight @ (swish(w_r @ x) * torch.cat(heads)))
    return outputs


def mamba2(layer, xs, h=2, n=4, expand=2, k=3):
    inner = expand * C
    memory = [xs[0].new_zeros(n, inner // h) for _ in range(h)]
    outputs, inputs = [], [xs[0].new_zeros(inner + 2 * n)] * (k - 1)
    for x in xs:
        z, new, dt = (layer.projections.weight @ x).split([inner, inner + 2 * n, h])
        inputs.append(new)
        window = zip(layer.convolution, inputs[-k:])
        convolved = layer.convolution_bias + sum(w * part for w, part in window)
        value, key, query = swish(convolved).split([inner, n, n])
        dt = torch.logaddexp(dt + layer.dt_bias, dt.new_zeros(h))
        heads = []
        for i, v in enumerate(value.chunk(h)):
            decay = (-dt[i] * layer.log_a[i].exp()).exp().unsqueeze(0)
            memory[i], o = states(query, key, dt[i] * v, decay, memory[i])
            heads.append(o + layer.skip[i] * v)
        y = rms(torch.cat(heads) * swish(z)) * layer.norm_weight
        outputs.append(layer.output.weight @ y)
    return outputs


def ema(layer, xs, n=3):
    alpha, delta = sigmoid(layer.alpha), sigmoid(layer.delta)
    h, outputs = xs[0].new_zeros(C, n), []
    for x in xs:
        h = alpha * layer.beta * x.unsqueeze(1) + (1 - alpha * delta) * h
        outputs.append((layer.eta * h).sum(dim=1))
    return outputs


LAYERS = {
    "retention": retention,
    "retention(h=1, d_k=6, d_v=5)": lambda layer, xs: retention(layer, xs, 1, 6, 5),
    "gla": gla,
    "gla(4, d_k=12, d_v=4)": lambda layer, xs: gla(layer, xs, 4, 12, 4),
    "mamba2(n=4, k=3)": mamba2,
    "mamba2(n=2, h=4, expand=1, k=1)": lambda layer, xs: mamba2(layer, xs, 4, 2, 1, 1),
    "ema(3)": ema,
}
EVERY_LAYER = pytest.mark.parametrize("text", LAYERS)
# Around the ends of chunks of 32 and of 64 positions.
SIZES = {CHANNEL_CHUNK, HEAD_CHUNK, CHUNK}
LENGTHS = sorted({1, 2, 3, *(x for s in SIZES for x in (s - 1, s, s + 1, 3 * s + 5))})


def test_chunks_are_those_of_the_declarations():
    assert (HEAD_CHUNK, CHANNEL_CHUNK) == (declared.HEAD_CHUNK, declared.CHANNEL_CHUNK)


@EVERY_LAYER
@pytest.mark.parametrize("length", LENGTHS)
def test_all_positions_at_once(text, length):
    chain, layer = built(text)
    check(chain, random_input(length, 2), lambda xs: LAYERS[text](layer, xs))


@EVERY_LAYER
@pytest.mark.parametrize("parts", [(1, 1, 1, 70), (40, 1, 33), (1, 72, 1), (70, 4)], ids=str)
def test_parts_continue_each_other(text, parts):
    chain, layer = built(text)
    x, state, start, outputs = random_input(sum(parts), 2), State(), 0, []
    for part in parts:
        positions = torch.arange(start, start + part)
        given = Context(positions, start + part, state=state)
        outputs.append(chain(x[:, start : start + part], given))
        start += part
    for row, sentence in zip(torch.cat(outputs, dim=1), x):
        expected = torch.stack(LAYERS[text](layer, list(sentence)))
        torch.testing.assert_close(row, expected, atol=1e-10, rtol=1e-10)


@EVERY_LAYER
@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_decays_that_are_nearly_0_or_1(text, scale):
    """Equal to the formula, with finite gradients, also in single precision."""
    chain, layer = built(text)
    for name, parameter in layer.named_parameters():
        if name in ("gates.weight", "dt_bias", "alpha", "delta"):
            parameter.mul_(scale)
    x = random_input(70, 2)
    check(chain, x, lambda xs: LAYERS[text](layer, xs))
    expected = chain(x, context(x))
    chain.float().requires_grad_()
    x = x.float().requires_grad_()
    single = chain(x, context(x))
    single.sum().backward()
    assert x.grad.isfinite().all()
    assert all(part.grad.isfinite().all() for part in chain.parameters())
    assert (single - expected).abs().max() < 1e-3 * expected.abs().max()


@EVERY_LAYER
def test_gradients_are_those_of_the_formula(text):
    chain, layer = built(text)
    chain.requires_grad_()
    x = random_input(70, 1).requires_grad_()
    weights = torch.randn(70, C, dtype=torch.float64)
    wanted = [x, *chain.parameters()]
    actual = torch.autograd.grad((chain(x, context(x))[0] * weights).sum(), wanted)
    formula = torch.stack(LAYERS[text](layer, list(x[0])))
    expected = torch.autograd.grad((formula * weights).sum(), wanted)
    for gradient, other in zip(actual, expected):
        torch.testing.assert_close(gradient, other, atol=1e-8, rtol=1e-8)


@EVERY_LAYER
def test_a_step_at_padding_leaves_the_state(text):
    chain, _ = built(text)
    x, mask = random_input(6, 2), torch.tensor([[True] * 3 + [False] * 3, [False] * 6])
    positions, state, outputs = ((~mask).cumsum(dim=1) - 1).clamp(min=0), State(), []
    for t in range(6):
        part = slice(t, t + 1)
        given = Context(positions[:, part], 6, padding_mask=mask[:, part], state=state)
        outputs.append(chain(x[:, part], given))
    actual = torch.cat(outputs, dim=1)
    alone = x[:1, 3:]
    torch.testing.assert_close(actual[:1, 3:], chain(alone, context(alone)), atol=1e-10, rtol=0)
    torch.testing.assert_close(actual[1:], chain(x[1:], context(x[1:])), atol=1e-10, rtol=0)


@EVERY_LAYER
@torch.no_grad()
def test_states_are_in_single_precision_under_autocast(text):
    chain, _ = built(text)
    chain.float()
    x, state = random_input(40, 2).float(), State()
    with torch.autocast("cpu", torch.bfloat16):
        half = chain(x, context(x))
        chain(x, Context(torch.arange(40), 40, state=state))
    (kept,) = (each.rows["hidden"] for each in state.walk() if each.rows)
    assert kept.dtype == torch.float32
    single = chain(x, context(x))
    assert (half.float() - single).abs().max() < 0.1 * single.abs().max()


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("retention(h=3)", 11, "the 3 heads of 'retention' (h) must divide the 16 channels of its "
         "queries and keys (d_k)"),
        ("retention(2, d_v=9)", 11, "must divide the 9 channels of its values (d_v)"),
        ("retention(h=16)", 11, "rotates pairs of channels, but each of its 16 heads (h) has 1 of"),
        ("gla(h=16)", 5, "the 16 heads of 'gla' (h) must divide the 8 channels of its queries"),
        ("mamba2(h=3)", 8, "(h) must divide its 32 inner channels, 2 times the 16 of its input"),
        ("mamba2(expand=5000)", 8, "would have 80000 inner channels"),
        ("ema(0)", 5, "'ema': 'n' must be an integer from 1"),
    ],
)  # fmt: skip
def test_refused(text, column, message):
    settings = Settings(model_dim=16, attention_heads=4)
    with pytest.raises(TextError) as error:
        resolve(text, "id", settings)
    assert f"column {column}:" in str(error.value) and message in str(error.value)
