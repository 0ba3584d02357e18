"""The named architectures: all exist, all can be resolved, and they are those of the paper."""

import re

import pytest

from convs2s.models.adl.architectures import ARCHITECTURES, NAMED, SIZES, table
from convs2s.models.adl.figures import figures, sequential_parts
from convs2s.models.adl.hybrids import HYBRIDS
from convs2s.models.adl.language.registry import layer_type
from convs2s.models.adl.language.writer import definition

ROWS = (
    "transformer convs2s rnmt rnmt_no_input_feeding "
    "transformer_upper transformer_increasing transformer_decreasing "
    "rnn rnn_mh rnn_mh_pos rnn_mh_pos_norm rnn_mh_pos_norm_multi_att_1h "
    "rnn_mh_pos_norm_multi_att rnn_mh_pos_norm_multi_att_ff "
    "cnn_glu cnn_glu_nested cnn_glu_norm cnn_glu_norm_mh cnn_glu_norm_mh_ff "
    "cnn_relu cnn_relu_norm cnn_relu_norm_mh cnn_relu_norm_mh_ff "
    "self_att_self_att self_att_rnn self_att_cnn rnn_self_att cnn_self_att rnn_rnn cnn_cnn "
    "self_att_combined self_att_none"
).split()


def names(spec):
    return {layer.name for side in (spec.encoder, spec.decoder) for layer in side.walk()}


def attended(spec):
    return [layer["block"] for layer in spec.decoder.walk() if layer_type(layer).attends]


def test_every_row_has_a_name_in_every_size():
    expected = {f"adl_{row}{size}" for row in ROWS for size in ("", "_iwslt", "_wmt", "_small")}
    assert set(ARCHITECTURES) == {*expected, "adl_rnnsearch", *HYBRIDS}


@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - set(HYBRIDS)))
def test_can_be_resolved_and_attends(name):
    spec = ARCHITECTURES[name].resolve()
    assert spec.warnings == () and attended(spec)
    width = {"wmt": 256, "small": 128, "rnnsearch": 128}.get(name.split("_")[-1], 512)
    assert spec.settings.model_dim == width
    assert spec.decoder.width == (256 if name == "adl_rnnsearch" else width)
    assert spec.input_feeding == (re.sub("_(iwslt|wmt|small)$", "", name) == "adl_rnmt")


@pytest.mark.parametrize("row", ROWS)
def test_small_models_have_the_same_layers_in_stacks_of_four(row):
    paper, small = (ARCHITECTURES[f"adl_{row}{size}"] for size in ("_iwslt", "_small"))
    for side in ("encoder", "decoder"):
        definition = getattr(small, side)
        # A recurrent encoder has a bidirectional layer and three more.
        counts = {"repeat(6": "repeat(4", "repeat(5": "repeat(3", "repeat(2": "repeat(1"}
        expected = getattr(paper, side)
        for count, smaller in counts.items():
            expected = expected.replace(count, smaller)
        assert definition == expected
    assert small.resolve().settings.ff_dim == 256


def test_the_transformer_has_the_parameters_of_the_transformer():
    spec = ARCHITECTURES["adl_transformer"].resolve()
    attention, feed_forward, norm = 4 * 512**2, 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder = 6 * (attention + feed_forward + 2 * norm) + norm
    decoder = 6 * (2 * attention + feed_forward + 3 * norm) + norm
    assert figures(spec.encoder.layers, 1).parameters == encoder
    assert figures(spec.decoder.layers, 1).parameters == decoder
    assert sequential_parts(spec) == []


def linear(inputs, outputs):
    return inputs * outputs + outputs


def test_parameters_of_other_papers():
    """Counted from the layers of each model, for one block at a time."""
    # Wu et al. (2019), WMT: GLU, convolution and projection, then source attention and ffl.
    C, F, H = 1024, 4096, 16
    norm, feed_forward = 2 * C, linear(C, F) + linear(F, C)
    kernels = [3, 7, 15, 31, 31, 31, 31]
    for name, weights in (("light", H), ("dynamic", C * H)):
        both = linear(C, 2 * C) + linear(C, C) + feed_forward + 2 * norm
        encoder = sum(both + weights * k for k in kernels)
        decoder = sum(both + weights * k + 4 * C * C + norm for k in kernels[:6])
        spec = ARCHITECTURES[f"adl_{name}_conv_wmt"].resolve()
        assert figures(spec.encoder.layers, 1).parameters == encoder
        assert figures(spec.decoder.layers, 1).parameters == decoder
    # Twelve blocks of self-attention, and a decoder of a single block.
    C, F = 512, 2048
    norm, feed_forward = 2 * C, linear(C, F) + linear(F, C)
    spec = ARCHITECTURES["adl_deep_ssru"].resolve()
    encoder = 12 * (4 * C * C + feed_forward + 2 * norm) + norm
    decoder = 2 * C * C + C + 4 * C * C + feed_forward + 4 * norm
    assert figures(spec.encoder.layers, 1).parameters == encoder
    assert figures(spec.decoder.layers, 1).parameters == decoder
    # Projections to z, x, B, C and dt, a convolution, and the projection back.
    inner, n, h = 2 * C, 128, 8
    conv = inner + 2 * n
    mamba = C * (inner + conv + h) + 5 * conv + 3 * h + inner + inner * C
    spec = ARCHITECTURES["adl_mamba2"].resolve()
    assert figures(spec.encoder.layers, 1).parameters == 8 * (mamba + C) + C


def test_table_2_attends_to_the_blocks_that_it_names():
    def blocks(name):
        return attended(ARCHITECTURES[f"adl_transformer_{name}"].resolve())

    assert blocks("upper") == [6] * 6
    assert blocks("increasing") == [1, 2, 3, 4, 5, 6]
    assert blocks("decreasing") == [6, 5, 4, 3, 2, 1]
    same = ARCHITECTURES["adl_transformer"].resolve()
    assert ARCHITECTURES["adl_transformer_upper"].resolve() == same


def test_table_3_changes_one_thing_a_row():
    def spec(row):
        return ARCHITECTURES[f"adl_rnn{row}"].resolve()

    heads = [
        [layer["h"] for layer in spec(row).decoder.walk() if layer.name == "mh_dot_src_att"]
        for row in ("", "_mh", "_mh_pos", "_mh_pos_norm", "_mh_pos_norm_multi_att_1h",
                    "_mh_pos_norm_multi_att", "_mh_pos_norm_multi_att_ff")
    ]  # fmt: skip
    assert heads == [[1], [8], [8], [8], [1] * 6, [8] * 6, [8] * 6]
    assert "pos" not in names(spec("_mh")) and "pos" in names(spec("_mh_pos"))
    assert "norm" not in names(spec("_mh_pos")) and "norm" in names(spec("_mh_pos_norm"))
    last = spec("_mh_pos_norm_multi_att_ff")
    assert sum(layer.name == "ff" for layer in last.decoder.walk()) == 6
    assert sum(layer.name == "ff" for layer in last.encoder.walk()) == 6
    # "identical to the Transformer, except that each self-attention has been replaced".
    transformer = ARCHITECTURES["adl_transformer"].resolve()
    swapped = definition(transformer.decoder).replace("mh_dot_self_att", "rnn")
    assert definition(last.decoder) == swapped


def test_table_4_differs_in_the_non_linearity_alone():
    for row in ("", "_norm", "_norm_mh", "_norm_mh_ff"):
        glu, relu = (ARCHITECTURES[f"adl_cnn_{word}{row}"] for word in ("glu", "relu"))
        assert glu.encoder.replace("glu", "relu") == relu.encoder
        assert glu.decoder.replace("glu", "relu") == relu.decoder
        assert sequential_parts(glu.resolve()) == []


def test_table_5_has_the_layers_of_its_names():
    kinds = {"self_att": "mh_dot_self_att", "rnn": "rnn", "cnn": "cnn"}
    for row in ROWS[-9:]:
        spec = ARCHITECTURES[f"adl_{row}"].resolve()
        encoder, decoder = (
            {layer.name for layer in side.walk()} & set(kinds.values())
            for side in (spec.encoder, spec.decoder)
        )
        left = next(kind for kind in kinds if row.startswith(kind))
        right = row[len(left) + 1 :]
        assert encoder == {kinds[left]}
        assert decoder == {
            "combined": set(kinds.values()), "none": set()
        }.get(right) or decoder == {kinds.get(right)} - {None}  # fmt: skip
        assert attended(spec) == [spec.encoder.blocks] * 6
    order = [
        layer.name
        for layer in ARCHITECTURES["adl_self_att_combined"].resolve().decoder.walk()
        if layer.name in kinds.values()
    ]
    assert order == ["mh_dot_self_att", "rnn", "cnn"] * 2


def test_rnnsearch_has_the_sizes_of_the_paper():
    spec = ARCHITECTURES["adl_rnnsearch"].resolve()
    birnn, rnn = spec.encoder.layers[1], spec.decoder.layers[1]
    assert (birnn.name, birnn.input_width, birnn.width) == ("birnn", 128, 256)
    assert (rnn.name, rnn.input_width, rnn.width) == ("rnn", 128, 256)
    assert spec.settings.dropout == 0.2


def test_the_table_lists_every_definition_once():
    lines = table().splitlines()[2:]
    listed = [line.split("`")[1] for line in lines]
    without_sizes = [name for name in NAMED if not name.endswith(tuple(SIZES))]
    assert listed == [*without_sizes, *HYBRIDS]
    for name, line in zip(listed, lines):
        assert f"`{ARCHITECTURES[name].encoder}` | `{ARCHITECTURES[name].decoder}`" in line
        assert line.count("|") == 7


@pytest.mark.parametrize("kind", ["light_conv", "dynamic_conv"])
def test_light_convolutions_have_the_blocks_of_their_paper(kind):
    for name, gated, heads, dims in (
        (f"adl_{kind}", False, 4, (512, 1024)),
        (f"adl_{kind}_wmt", True, 16, (1024, 4096)),
    ):
        spec = ARCHITECTURES[name].resolve()
        kernels = [
            [layer["k"] for layer in side.walk() if layer.name == kind]
            for side in (spec.encoder, spec.decoder)
        ]
        assert kernels == [[3, 7, 15, 31, 31, 31, 31], [3, 7, 15, 31, 31, 31]]
        assert {layer["h"] for layer in spec.encoder.walk() if layer.name == kind} == {heads}
        assert (spec.settings.model_dim, spec.settings.ff_dim) == dims
        assert sum(layer.arguments.get("v") == "glu" for layer in spec.encoder.walk()) == 7 * gated
        assert len(attended(spec)) == 6 and sequential_parts(spec) == []


def test_the_state_space_model_has_the_blocks_of_its_authors():
    spec = ARCHITECTURES["adl_mamba2"].resolve()
    encoder, decoder = (
        [layer.name for layer in side.walk() if layer.name not in ("res", "rms_norm", "dropout")]
        for side in (spec.encoder, spec.decoder)
    )
    assert encoder == ["mamba2"] * 8
    assert decoder == ["mamba2", "mh_dot_src_att", "ff", "linear"] * 6
    assert {layer["d"] for layer in spec.decoder.walk() if layer.name == "ff"} == {2048}


def test_the_gated_attention_model_has_the_sizes_of_its_authors():
    spec = ARCHITECTURES["adl_mega"].resolve()
    for side, layers in ((spec.encoder, ["mega_self_att"]), (spec.decoder, ["mega_src_att"])):
        found = [layer for layer in side.walk() if layer.name in layers]
        assert len(found) == 6 and {layer["d_k"] for layer in found} == {128}
    own = [layer for side in (spec.encoder, spec.decoder) for layer in side.walk() if "n" in
           layer.arguments]  # fmt: skip
    assert {(layer["n"], layer["d_v"]) for layer in own} == {(16, 1024)} and len(own) == 12
    assert {layer["d"] for layer in spec.decoder.walk() if layer.name == "ff"} == {1024}


def test_a_shallow_decoder_keeps_one_state():
    spec = ARCHITECTURES["adl_deep_ssru"].resolve()
    kinds = [layer.name for layer in spec.decoder.walk()]
    assert kinds.count("ssru") == kinds.count("mh_dot_src_att") == 1 and kinds.count("ff") == 1
    assert sum(layer.name == "mh_dot_self_att" for layer in spec.encoder.walk()) == 12
