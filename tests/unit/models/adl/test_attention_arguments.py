"""Arguments of multi-head attention against their formulas, written for one position at a time."""

import math

import pytest
import torch

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.context import Context, Source
from convs2s.models.adl.layers import relative_positions
from convs2s.models.adl.layers.chains import LayerChain
from convs2s.models.adl.layers.relative_positions import Rotation, alibi_slopes
from convs2s.nn import attention
from convs2s.nn.attention import dot_product_attention
from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from convs2s.translation.precision import cast_weights_
from tests.support.batches import PAD, random_batch
from tests.support.families import make, outputs, tiny_adl

C, H, E = 24, 4, 6
LENGTHS = [11, 4, 1]
SETTINGS = Settings(model_dim=C, attention_heads=H, dropout=0.0)
SLOPES = [1 / 4, 1 / 16, 1 / 64, 1 / 256]


def built(text, side="encoder"):
    """The module of a layer with random weights, in float64."""
    torch.manual_seed(1)
    definitions = (text, "id") if side == "encoder" else ("id", text)
    (spec,) = getattr(resolve(*definitions, SETTINGS), side).layers
    (layer,) = LayerChain([spec]).double().eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return spec, layer


def sentences(seed=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(LENGTHS), max(LENGTHS), C, dtype=torch.float64, generator=generator)


def padding():
    return torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS).unsqueeze(1)


def context(x, **options):
    return Context(torch.arange(x.size(1)), x.size(1), **options)


def turned(x, position):
    """Each pair of channels, rotated by an angle; sines and cosines are in single precision."""
    y = x.clone()
    for j in range(len(x) // 2):
        angle = position / 10000 ** (2 * j / len(x))
        sine, cosine = torch.tensor([math.sin(angle), math.cos(angle)]).double()
        y[2 * j] = x[2 * j] * cosine - x[2 * j + 1] * sine
        y[2 * j + 1] = x[2 * j] * sine + x[2 * j + 1] * cosine
    return y


def normalized(x, weight):
    return weight * x / ((x**2).sum() / len(x) + 1e-6).sqrt()


def reference(spec, layer, xs, us):
    """The output for each position of xs, which attend to us, without padding."""
    groups = spec["kv_heads"]
    if spec.source_width is None:
        q, k, v = layer.queries_keys_values.weight.split([C, groups * E, groups * E])
    else:
        q, (k, v) = layer.queries.weight, layer.keys_values.weight.chunk(2)
    window, pos = spec.arguments.get("window"), spec.arguments.get("pos")
    found = []
    for t, x in enumerate(xs):
        of_heads = []
        for head in range(H):
            part = slice(head * E, head * E + E)
            group = head // (H // groups)
            shared = slice(group * E, group * E + E)
            scores, values = [], []
            for p, u in enumerate(us):
                if spec.source_width is None:
                    if spec.in_decoder and not 0 <= t - p < (window or 1000):
                        continue
                    if not spec.in_decoder and abs(t - p) > (window or 1000):
                        continue
                query, key = q[part] @ x, k[shared] @ u
                if spec["qk_norm"]:
                    query = normalized(query, layer.q_norm.weight)
                    key = normalized(key, layer.k_norm.weight)
                if pos == "rope":
                    query, key = turned(query, t), turned(key, p)
                score = query @ key / math.sqrt(E)
                scores.append(score - SLOPES[head] * abs(t - p) if pos == "alibi" else score)
                values.append(v[shared] @ u)
            weights = torch.stack(scores).exp()
            of_heads.append(sum(w * y for w, y in zip(weights / weights.sum(), values)))
        found.append(layer.output.weight @ torch.cat(of_heads))
    return torch.stack(found)


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)


SELF_ATTENTION = (
    "window=1",
    "window=3",
    "window=50",
    "kv_heads=1",
    "kv_heads=2",
    "qk_norm=true",
    "pos=rope",
    "pos=alibi",
    "window=2, pos=alibi",
    "window=2, pos=rope, kv_heads=2, qk_norm=true",
    "window=4, pos=alibi, kv_heads=1, qk_norm=true",
)


@pytest.mark.parametrize("unfused", [0, 1000], ids=["fused", "unfused"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("arguments", SELF_ATTENTION)
@torch.no_grad()
def test_self_attention(arguments, side, unfused, monkeypatch):
    monkeypatch.setattr(attention, "MAX_UNFUSED_LENGTH", unfused)
    spec, layer = built(f"mh_dot_self_att({arguments})", side)
    x = sentences()
    # In a decoder, no token sees the padding after it.
    mask = padding() if side == "encoder" else None
    actual = layer(x, context(x, padding_mask=mask))
    assert actual.isfinite().all()
    for row, sentence, length in zip(actual, x, LENGTHS):
        tokens = sentence[:length]
        assert_close(row[:length], reference(spec, layer, tokens, tokens))


@pytest.mark.parametrize(
    "arguments",
    [
        "kv_heads=1",
        "qk_norm=true",
        "kv_heads=2, qk_norm=true",
        "pos=rope",
        "kv_heads=2, qk_norm=true, pos=rope",
    ],
)
@torch.no_grad()
def test_attention_to_the_source(arguments):
    spec, layer = built(f"mh_dot_src_att({arguments})", "decoder")
    x, source = sentences(3), sentences(4)
    given = context(x, source=Source({1: source}, padding()), need_weights=True)
    actual = layer(x, given)
    (weights,) = given.attention
    assert weights.weights.shape == (len(LENGTHS), H, max(LENGTHS), max(LENGTHS))
    for row, targets, tokens, length in zip(actual, x, source, LENGTHS):
        assert_close(row, reference(spec, layer, targets, tokens[:length]))


def published_slopes(heads):
    """The function of the authors' implementation, for any number of heads."""

    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return of_power(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return of_power(closest) + published_slopes(2 * closest)[0::2][: heads - closest]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 31, 64])
def test_alibi_slopes(heads):
    expected = torch.tensor(published_slopes(heads), dtype=torch.float64)
    assert_close(alibi_slopes(heads, expected), expected)


@torch.no_grad()
def test_only_distances_count():
    """With rope and with alibi, all positions may be moved."""
    for pos in ("rope", "alibi"):
        _, layer = built(f"mh_dot_self_att(pos={pos})", "decoder")
        x = sentences()
        moved = Context(torch.arange(x.size(1)) + 300, 300 + x.size(1))
        torch.testing.assert_close(layer(x, moved), layer(x, context(x)), atol=1e-5, rtol=1e-5)
        changed = layer(x.flip(1), context(x)).flip(1)
        assert not torch.allclose(layer(x, context(x)), changed, atol=1e-3)


def test_windows_between_padding_have_finite_gradients():
    """A position of padding may have nothing but padding in its window."""
    for unfused in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention, "MAX_UNFUSED_LENGTH", unfused)
            for pos in ("none", "rope", "alibi"):
                _, layer = built(f"mh_dot_self_att(window=1, pos={pos}, qk_norm=true)")
                x = sentences().requires_grad_()
                y = layer(x, context(x, padding_mask=padding()))
                (y * ~padding().unsqueeze(2)).sum().backward()
                assert y.isfinite().all() and x.grad.isfinite().all()
                assert all(weight.grad.isfinite().all() for weight in layer.parameters())
                assert not x.grad[padding()].any()


MODELS = ("adl-attention", "adl-attention-fed")


@pytest.mark.parametrize("name", [*MODELS, "adl-mixers"])
@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("ends", [(1, 4, 5, 9), (3, 4, 9)])
@torch.no_grad()
def test_several_positions_of_hypotheses_at_once(name, left_pad, ends):
    """Chunks of a beam of two, which is reordered between them, with padding at the source."""
    model = make(name).double()
    batch = random_batch([(7, 9), (3, 9), (12, 9)], left_pad)["net_input"]
    rows = torch.arange(3).repeat_interleave(2)
    encoded = reorder_encoder_output(model.encode(batch["src_tokens"]), BeamOrder(rows, 1))
    generator = torch.Generator().manual_seed(1)
    prefix = torch.randint(4, 20, (6, 9), generator=generator)
    sources, state = batch["src_tokens"][rows], State()
    for end in ends:
        features, _ = model.decode(prefix[:, :end], encoded, state)
        expected = model(sources, prefix[:, :end])[:, -features.size(1) :]
        torch.testing.assert_close(model.logits(features), expected, atol=1e-9, rtol=1e-9)
        order = torch.tensor([1, 1, 2, 3, 5, 4])
        state.reorder_(order)
        prefix = prefix[order]


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_prefixes_with_padding_before_them_in_the_cache(name):
    model = make(name).double()
    batch = random_batch([(7, 9), (3, 2), (12, 5)], left_pad_target=True)["net_input"]
    expected, _ = outputs(model, batch)
    real = batch["prev_output_tokens"].ne(PAD)
    for ends in ((6, 7, 9), range(1, 10)):
        encoded, state = model.encode(batch["src_tokens"]), State()
        logits = [
            model.logits(model.decode(batch["prev_output_tokens"][:, :end], encoded, state)[0])
            for end in ends
        ]
        found = torch.cat(logits, dim=1)
        torch.testing.assert_close(found[real], expected[real], atol=1e-9, rtol=1e-9)


@torch.no_grad()
def test_a_step_reads_the_keys_of_its_window_alone(monkeypatch):
    sizes = []

    def attend(query, keys, *arguments, **options):
        sizes.append((keys.size(1), keys.size(2)))
        return dot_product_attention(query, keys, *arguments, **options)

    monkeypatch.setattr("convs2s.models.adl.layers.attention.dot_product_attention", attend)
    model = tiny_adl(
        arch="adl",
        encoder_adl="id",
        decoder_adl="mh_dot_self_att(window=3) -> mh_dot_self_att(kv_heads=2)",
    )
    batch = random_batch([(3, 9)])["net_input"]
    encoded, state = model.encode(batch["src_tokens"]), State()
    for end in range(1, 9):
        sizes.clear()
        model.decode(batch["prev_output_tokens"][:, :end], encoded, state)
        assert sizes == [(4, min(end, 3)), (2, end)]


@torch.no_grad()
def test_layers_share_angles_and_masks(monkeypatch):
    made = []

    def count(owner, name):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a: made.append(name) or original(*a))

    count(Rotation, "_factors")
    count(relative_positions.AlibiBiases, "__call__")
    layers = "mh_dot_self_att(pos=rope) -> mh_dot_self_att(pos=alibi, window=4)"
    model = tiny_adl(
        arch="adl", encoder_adl=f"repeat(5, {layers})", decoder_adl=f"repeat(5, {layers})"
    )
    batch = random_batch([(7, 5), (3, 4)])["net_input"]
    encoded = model.encode(batch["src_tokens"])
    assert sorted(made) == ["__call__", "_factors"]
    state = State()
    for end in (1, 2, 4):
        made.clear()
        model.decode(batch["prev_output_tokens"][:, :end], encoded, state)
        assert sorted(made) == ["__call__", "_factors"]


@torch.no_grad()
def test_fused_kernels_compute_whole_sentences(monkeypatch):
    fused, calls = torch.nn.functional.scaled_dot_product_attention, []
    monkeypatch.setattr(
        attention.F,
        "scaled_dot_product_attention",
        lambda *given, **options: calls.append(given[0].shape) or fused(*given, **options),
    )
    for arguments in SELF_ATTENTION:
        for side in ("encoder", "decoder"):
            _, layer = built(f"mh_dot_self_att({arguments})", side)
            calls.clear()
            x = torch.randn(2, 40, C, dtype=torch.float64)
            layer(x, context(x))
            assert calls == [(2, H, 40, E)]


@pytest.mark.parametrize("length", [9, 60])
@torch.no_grad()
def test_bfloat16_is_close_to_single_precision(length):
    model = make("adl-attention")
    batch = random_batch([(length, length), (length // 2, 7)])["net_input"]
    real = batch["prev_output_tokens"].ne(PAD)
    expected = outputs(model, batch, need_weights=False)[0][real]
    with torch.autocast("cpu", torch.bfloat16):
        mixed = outputs(model, batch, need_weights=False)[0][real]
    cast_weights_(model, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        cast = outputs(model, batch, need_weights=False)[0][real]
    scale = expected.abs().max()
    for actual in (mixed, cast):
        assert (actual.float() - expected).abs().max() < 0.05 * scale
        assert (actual.float() - expected).abs().mean() < 0.01 * scale


def test_defaults_have_no_further_parameters():
    plain, named = (
        tiny_adl(arch="adl", encoder_adl=text, decoder_adl="mh_dot_src_att")
        for text in (
            "mh_dot_self_att",
            "mh_dot_self_att(h=4, kv_heads=4, qk_norm=false, pos=none)",
        )
    )
    assert plain.spec == named.spec
    assert list(plain.state_dict()) == list(named.state_dict())
    names = [name for name in plain.state_dict() if name.startswith("encoder.layers")]
    assert names == [
        f"encoder.layers.0.{name}.weight" for name in ("queries_keys_values", "output")
    ]
