"""The specifications of definitions, and errors that are found before anything is built."""

import pytest

from convs2s.common.errors import TextError, UserError
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.language.parser import MAX_DEPTH
from convs2s.models.adl.language.registry import layer_type
from convs2s.models.adl.language.writer import definition, layer_text
from tests.support.work import at_most_calls

SMALL = Settings(model_dim=16, attention_heads=4)


def encoder(text, settings=SMALL):
    return resolve(text, "id", settings).encoder


def decoder(text, settings=SMALL, source="rnn", **options):
    return resolve(source, text, settings, **options).decoder


@pytest.mark.parametrize(
    "text, same",
    [
        ("res_d(rnn)", "res(rnn -> dropout)"),
        ("res_nd(rnn -> id)", "res(norm -> rnn -> id -> dropout)"),
        ("ffl", "ff(64) -> linear(16)"),
        ("ffl(40)", "ff(40) -> linear"),
        ("linear(8) -> ffl", "linear(8) -> ff(32) -> linear(8)"),
        ("repeat(2, rnn -> norm) -> id", "repeat(2, rnn -> norm) -> id"),
        ("res(repeat(2, repeat(2, rnn)) -> id)", "res(rnn -> rnn -> rnn -> rnn -> id)"),
        ("dot_self_att(s=3)", "mh_dot_self_att(1, 3)"),
        ("mh_dot_self_att", "mh_dot_self_att(h=4, s=4, d=16, d_p=16, dropout=0.1)"),
        ("mh_dot_self_att(d=8)", "mh_dot_self_att(s=2, d_p=8, d=8)"),
        ("mh_dot_self_att", "mh_dot_self_att(kv_heads=4, qk_norm=false, pos=none)"),
        ("dot_self_att(window=2)", "mh_dot_self_att(h=1, kv_heads=1, window=2)"),
        ("repeat(2, mh_dot_self_att(window=i))", "repeat(1, mh_dot_self_att(window=1)) -> "
         "repeat(1, mh_dot_self_att(window=2))"),
        ("cnn", "cnn(relu, 3, 16, 1, centred)"),
        ("rnn", "rnn(lstm, 16, 0.0)"),
        ("dropout -> ff", "dropout(0.1) -> ff(16, relu, dropout=0.1)"),
        ("repeat(2, dropout -> cnn(k=i))", "repeat(1, dropout -> cnn(k=1)) -> "
         "repeat(1, dropout -> cnn(k=2))"),
        ("res(repeat(2, repeat(2, cnn(k=i)) -> cnn(dilation=i)))",
         "res(cnn(k=1) -> cnn(k=2) -> cnn(dilation=1) -> cnn(k=1) -> cnn(k=2) -> cnn(dilation=2))"),
    ],
)  # fmt: skip
def test_same_specification(text, same):
    assert encoder(text) == encoder(same)


@pytest.mark.parametrize(
    "text, same",
    [
        ("mh_dot_att", "mh_dot_src_att"),
        ("mh_dot_att(2)", "mh_dot_src_att(2, 8, 1, 16, 16, 0.1)"),
        ("dot_src_att(s=1)", "mh_dot_src_att(1, 1)"),
        ("dot_src_att(1)", "mh_dot_src_att(1, 1)"),
        ("mlp_att", "mlp_src_att(16, 1)"),
        ("proj_dot_att(8)", "proj_dot_src_att(8, 8)"),
        ("dot_att", "dot_att(s=16, block=-1)"),
        ("cnn(glu)", "cnn(glu, padding=causal)"),
    ],
)
def test_same_decoder(text, same):
    assert decoder(text) == decoder(same)


def test_different_networks_have_different_specifications():
    texts = ["rnn", "rnn(gru)", "rnn(d=8)", "rnn(forget_bias=1)", "rnn -> id", "res(rnn)"]
    assert len({repr(encoder(text)) for text in texts}) == len(texts)
    assert encoder("repeat(2, rnn -> id)") != encoder("repeat(1, rnn -> id -> rnn -> id)")


@pytest.mark.parametrize(
    "text, width",
    [
        ("linear(5)", 5),
        ("ff(5)", 5),
        ("linear(6) -> ff", 16),
        ("linear(6) -> ffl", 6),
        ("linear(6) -> norm -> dropout -> pos -> learn_pos -> act(tanh) -> id", 6),
        ("linear(6) -> res(ff(3) -> linear(6))", 6),
        ("linear(6) -> highway(linear(6))", 6),
        ("concat(id, linear(5), rnn(d=7) -> id)", 28),
        ("cnn(glu, d=6)", 6),
        ("birnn(d=6)", 6),
        ("qrnn(6)", 6),
        ("proj_dot_self_att(6)", 6),
        ("linear(6) -> mlp_self_att(5)", 6),
        ("mh_dot_self_att(h=2, d=6, d_p=8)", 6),
    ],
)
def test_widths(text, width):
    assert encoder(text).width == width


def test_defaults_follow_the_options():
    settings = Settings(model_dim=24, ff_dim=10, attention_heads=3, dropout=0.3)
    layers = encoder("ffl -> mh_dot_self_att", settings).layers
    assert [layer.width for layer in layers] == [10, 24, 24]
    assert layers[0]["dropout"] == layers[2]["dropout"] == 0.3
    assert (layers[2]["h"], layers[2]["s"]) == (3, 8.0)
    apart = Settings(dropout=0.3, attention_dropout=0.0)
    assert encoder("mh_dot_self_att", apart).layers[0]["dropout"] == 0.0


def test_blocks_are_counted_from_below_and_from_the_top():
    source = "pos -> linear(6) -> repeat(2, linear(4) -> linear(8)) -> linear(10) -> " \
        "repeat(1, linear(12)) -> linear(14)"  # fmt: skip
    side = encoder(source)
    assert [side.block_width(block) for block in range(4)] == [6, 8, 10, 14]
    for block, width in [("0", 6), ("1", 8), ("2", 10), ("3", 14), ("-1", 14), ("-3", 8)]:
        layer = decoder(f"mlp_src_att(block={block})", source=source).layers[0]
        assert (layer.source_width, layer.width) == (width, width)
    assert decoder("mlp_src_att", source=source).layers[0]["block"] == 3
    side = encoder("linear(6) -> linear(8)")
    assert [side.block_width(block) for block in range(3)] == [16, 6, 8]


def test_increasing_and_decreasing():
    def blocks(text):
        side = decoder(f"repeat(3, rnn -> mh_dot_src_att(block={text}))", source="repeat(3, rnn)")
        return [layer["block"] for layer in side.layers if layer_type(layer).attends]

    assert (blocks("i"), blocks("-i"), blocks("-1")) == ([1, 2, 3], [3, 2, 1], [3, 3, 3])


def test_input_feeding_widens_the_input():
    assert decoder("rnn -> mlp_att", input_feeding=True).input_width == 32
    assert decoder("rnn -> linear(5)", input_feeding=True).input_width == 21
    assert decoder("res(linear(21)) -> linear(5)", input_feeding=True).width == 5
    with pytest.raises(TextError, match="has 32 input channels: 16 of"):
        decoder("repeat(2, res_d(rnn)) -> ff", input_feeding=True)
    with pytest.raises(TextError, match="its width must not depend on the input"):
        decoder("norm -> res(id)", input_feeding=True)


def test_a_decoder_without_source_attention_causes_a_warning():
    spec = resolve("rnn", "pos ->\n  rnn", SMALL)
    assert len(spec.warnings) == 1 and "no layer attends to the source" in spec.warnings[0]
    assert resolve("rnn", "res(concat(rnn, mlp_att) -> linear)", SMALL).warnings == ()


LAYERS = "layers are act, bi, birnn, cnn, concat, cycle, dot_att,"

INVALID_ENCODERS = [
    ("rnn -> cn", 8, "there is no layer 'cn' (did you mean 'cnn'?)"),
    ("rnn -> flurb", 8, f"there is no layer 'flurb'; {LAYERS}"),
    ("rnn -> relu", 8, "there is no layer 'relu', a non-linearity (did you mean 'act(relu)'?)"),
    ("glu", 1, "there is no layer 'glu', a non-linearity (did you mean 'ff(v=glu)'?)"),
    ("ffl(swiglu)", 5, "from 1 to 65536, found 'swiglu' (did you mean 'v=swiglu'?)"),
    ("linear(65536) -> retention", 18, "'d_v' would be 131072 here, but must be an integer from"),
    ("res(cnn(glu) -> mh_dot_slf_att)", 17, "(did you mean 'mh_dot_self_att'?)"),
    ("repeat(2, mh_dot_src_att)", 11, "'mh_dot_src_att' attends to the source, but this is the"),
    ("mh_dot_att", 1, "attention within a sentence is 'mh_dot_self_att'"),
    ("concat(id, res(dot_att))", 16, "'dot_att' attends to the source"),
    ("pool", 1, "it would change the number of source positions"),
    ("res(bilstm)", 5, "there is no layer 'bilstm': write 'birnn(lstm)'"),
    ("gru", 1, "there is no layer 'gru': write 'rnn(gru)'"),
    ("id -> layer_norm", 7, "layer normalization is 'norm'"),
    ("self_att", 1, "there is no layer 'self_att': write 'mh_dot_self_att'"),
    ("res(linear(8))", 5, "the input has 16 channels and 'linear' outputs 8"),
    ("res(linear(8) -> dropout)", 5, "ending the chain with 'linear(16)'"),
    ("res_nd(id -> linear(8))", 14, "'res' adds the input and the output of its chain"),
    ("sum(linear(8), rnn)", 16, "the first has 8 channels and 'rnn' outputs 16"),
    ("dynamic_conv(h=3)", 14, "the 3 heads of 'dynamic_conv'"),
    ("linear(8) -> highway(rnn)", 22, "the input has 8 channels and 'rnn' outputs 16"),
    ("mh_dot_self_att(h=3)", 17, "3 heads do not divide 16 channels"),
    ("mh_dot_self_att(4, 1, 10)", 17, "4 heads do not divide 10 channels"),
    ("mh_dot_self_att(kv_heads=3)", 17, "3 heads of keys and values (kv_heads) do not divide"),
    ("mh_dot_self_att(h=2, kv_heads=4)", 22, "do not divide the 2 heads of queries (h)"),
    ("mh_dot_self_att(window=0)", 17, "'window' must be an integer from 1 to 1000000, found '0'"),
    ("mh_dot_self_att(d_p=12, pos=rope)", 25, "heads (h) has 3 of the 12 channels (d_p): choose"),
    ("mh_dot_self_att(pos=rop)", 17, "none, rope, alibi, found 'rop' (did you mean 'rope'?)"),
    ("mh_dot_self_att(qk_norm=rms)", 17, "'qk_norm' must be true or false, found 'rms'"),
    ("dot_self_att(kv_heads=1)", 14, "'dot_self_att' has no argument 'kv_heads'"),
    ("mlp_self_att(window=3)", 14, "'mlp_self_att' has no argument 'window'"),
    ("proj_dot_self_att(pos=rope)", 19, "'proj_dot_self_att' has no argument 'pos'"),
    ("res_nd(linear(window=3))", 15, "'linear' has no argument 'window'"),
    ("birnn(d=7)", 7, "must be even, but it is 7"),
    ("linear(7) -> pos", 14, "must have an even number of channels, but it has 7"),
    ("rnn(lstm, gru)", 11, "'rnn': 'd' must be an integer from 1 to 65536, found 'gru'"),
    ("rnn(gru, forget_bias=1)", 10, "a 'gru' cell has no forget gate"),
    ("rnn(ltsm)", 5, "lngru, found 'ltsm' (did you mean 'lstm'"),
    ("rnn(3)", 5, "'cell' must be one of lstm, gru, lnlstm, lngru, found '3'"),
    ("cnn(relu, 3, kernel=3)", 14, "'cnn' has no argument 'kernel'"),
    ("cnn(dilatoin=3)", 5, "'dilatoin' (did you mean 'dilation'?); it takes"),
    ("cnn(k=3, k=3)", 10, "'k' is given twice"),
    ("cnn(relu, v=relu)", 11, "'v' is given twice"),
    ("cnn(k=3, relu)", 10, "an argument without a name follows one with a name"),
    ("cnn(k=0)", 5, "'k' must be an integer from 1 to 1023, found '0'"),
    ("cnn(k=1.5)", 5, "found '1.5'"),
    ("cnn(k=1000, dilation=1000)", 13, "spans 999001 positions, more than 4096"),
    ("id(3)", 4, "'id' takes no arguments"),
    ("dropout(0.1, 0.2)", 14, "'dropout' takes only the argument p"),
    ("dropout(1)", 9, "'p' must be a number of at least 0 and below 1, found '1'"),
    ("dropout(rnn -> rnn)", 9, "found 'rnn -> rnn'"),
    ("linear(bias=maybe)", 8, "'bias' must be true or false, found 'maybe'"),
    ("linear(99999999)", 8, "'d' must be an integer from 1 to 65536"),
    ("res", 1, "'res' needs its argument 'chain', a chain of layers"),
    ("concat()", 1, "'concat' needs its argument 'chains'"),
    ("res(3)", 5, "'chain' must be a chain of layers, found '3'"),
    ("res_d(3)", 7, "'res_d': 'chain' must be a chain of layers, found '3'"),
    ("res_nd(i)", 8, "'i' is the number of a repetition"),
    ("res(rnn, rnn)", 10, "'res' takes only the argument chain"),
    ("concat" + "(linear(65536), linear(65536))", 1, "has 131072 output channels, more than 65536"),
    ("cnn(k=i)", 5, "'i' is the number of a repetition, but no repeat is around it"),
    ("repeat(2, cnn(k=-i))", 15, "must be an integer from 1 to 1023, found '-1'"),
    ("repeat(2, res(i))", 15, "'chain' must be a chain of layers, found 'i'"),
    ("i -> rnn", 1, "there is no layer 'i'"),
]  # fmt: skip

INVALID_DECODERS = [
    ("birnn", 1, "'birnn' sees all positions to its right, but a decoder must not"),
    ("res_nd(repeat(2, birnn))", 18, "'birnn' sees all positions to its right"),
    ("cnn(relu, 3, padding=centred)", 14, "'cnn' sees 1 position(s) to its right"),
    ("cnn(relu, 5, dilation=2, padding=centred)", 26, "'cnn' sees 4 position(s) to its right"),
    ("cnn(relu, 2, padding=centred)", 14, "'cnn' sees 1 position(s) to its right"),
    ("mh_dot_att(block=3)", 12, "there is no encoder block 3: the encoder has 2, that is 0 to 2"),
    ("mh_dot_att(block=-3)", 12, "there is no encoder block -3"),
    ("repeat(3, mh_dot_att(block=i))", 22, "there is no encoder block 3"),
    ("mh_dot_att(kv_heads=3)", 12, "do not divide the 4 heads of queries (h)"),
    ("mh_dot_src_att(pos=alibi)", 16, "none, rope, found 'alibi'"),
    ("mh_dot_src_att(d_p=12, pos=rope)", 24, "heads (h) has 3 of the 12 channels (d_p)"),
    ("mh_dot_src_att(window=2)", 16, "'mh_dot_src_att' has no argument 'window'; it takes the"),
    ("linear(8) -> dot_att", 14, "the first has 8 channels and the second 16"),
    ("mh_dot_att(blok=1)", 12, "(did you mean 'block'?); it takes"),
    ("rnn ->\n cn", 2, "there is no layer 'cn'"),
]


@pytest.mark.parametrize("text, column, message", INVALID_ENCODERS)
def test_invalid_encoders(text, column, message):
    with pytest.raises(TextError) as error:
        encoder(text)
    assert message in str(error.value) and error.value.column == column
    assert str(error.value).startswith("--encoder-adl, line 1, column ")


@pytest.mark.parametrize("text, column, message", INVALID_DECODERS)
def test_invalid_decoders(text, column, message):
    with pytest.raises(TextError) as error:
        decoder(text, source="repeat(2, rnn)")
    assert message in str(error.value) and error.value.column == column
    assert str(error.value).startswith("--decoder-adl, line ")


def test_a_centred_convolution_of_one_position_may_stand_in_a_decoder():
    assert decoder("cnn(relu, 1, padding=centred)").layers[0].width == 16


def test_options_out_of_range():
    for name, value, message in [
        ("model_dim", 0, "--model-dim is 0, but must be from 1 to 65536"),
        ("attention_heads", -1, "--attention-heads is -1"),
        ("dropout", 1.5, "--dropout is 1.5, but must be at least 0 and below 1"),
    ]:
        with pytest.raises(UserError, match=message):
            Settings(**{name: value})
    with pytest.raises(UserError, match="no ADL dialect 'sokeye' \\(did you mean 'sockeye'"):
        resolve("rnn", "rnn", dialect="sokeye")


@pytest.mark.parametrize(
    "text, plain",
    [
        ("res_nd(ffl)", "res(norm -> ff(d=64) -> linear -> dropout)"),
        ("pos -> repeat(3, rnn(gru)) -> norm", "pos -> repeat(3, rnn(cell=gru)) -> norm"),
        ("repeat(2, id -> rnn) -> rnn", "repeat(2, id -> rnn) -> rnn"),
        ("repeat(2, rnn) -> repeat(3, rnn)", "repeat(5, rnn)"),
        ("repeat(2, rnn) -> id -> repeat(2, rnn)", "repeat(2, rnn) -> id -> repeat(2, rnn)"),
        ("rnn -> rnn -> id", "rnn -> rnn -> id"),
        ("rnn -> repeat(1, id)", "rnn -> repeat(1, id)"),
        ("linear(16, false)", "linear(bias=false)"),
        ("concat(id, id -> rnn)", "concat(id, id -> rnn)"),
        ("dropout(.50)", "dropout(p=0.5)"),
    ],
)
def test_text_of_a_specification(text, plain):
    assert definition(encoder(text)) == plain
    assert encoder(plain) == encoder(text)


def test_text_leaves_out_the_defaults_of_the_options():
    side = encoder("linear(32) -> rnn(d=24)")
    assert [layer_text(layer) for layer in side.layers] == ["linear(d=32)", "rnn(d=24)"]
    other = encoder(definition(side), Settings(model_dim=24))
    assert definition(other) == "linear(d=32) -> rnn"


TOO_LARGE = [
    "repeat(501, res_nd(rnn))",
    "repeat(1001, res(rnn))",
    "repeat(1500, ffl)",
    "repeat(2000, repeat(2000, rnn))",
    "repeat(50," * 6 + "rnn" + ")" * 6,
    "repeat(1500, rnn) -> repeat(1500, rnn)",
    "concat(repeat(1500, rnn), repeat(1500, rnn)) -> id",
    "rnn" + "->rnn" * 3000,
]


@pytest.mark.parametrize("text", TOO_LARGE, ids=range(len(TOO_LARGE)))
def test_too_many_layers_take_little_work(text):
    with at_most_calls(1_000_000):
        with pytest.raises(TextError, match="the encoder has more than 2000 layers"):
            encoder(text)


def test_the_largest_and_the_deepest_definitions():
    with at_most_calls(3_000_000):
        side = encoder("repeat(500, res_nd(rnn))")
        assert side.blocks == 500 and sum(1 for _ in side.walk()) == 2000
        assert encoder(definition(side)) == side
        side = encoder("res_nd(" * MAX_DEPTH + "rnn" + ")" * MAX_DEPTH)
        assert sum(1 for _ in side.walk()) == 3 * MAX_DEPTH + 1
        assert encoder(definition(side)) == side
