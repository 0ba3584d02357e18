"""``explain``: counts against torch's own modules, receptive fields, totals; and the command."""

import json

import pytest
from torch import nn

from convs2s.cli import main
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.explain import as_dict, as_text
from convs2s.models.adl.figures import figures
from convs2s.models.adl.language.registry import entries, receptive_field

SETTINGS = Settings(model_dim=24, attention_heads=4, max_source_positions=50)


def encoder(text):
    return resolve(f"linear(16) -> {text}", "id", SETTINGS).encoder.layers[1:]


def decoder(text):
    return resolve("rnn(d=12)", f"linear(16) -> {text}", SETTINGS).decoder.layers[1:]


def size(*modules):
    return sum(weight.numel() for module in modules for weight in module.parameters())


@pytest.mark.parametrize(
    "text, modules",
    [
        ("linear", [nn.Linear(16, 24)]),
        ("linear(bias=false)", [nn.Linear(16, 24, bias=False)]),
        ("ff", [nn.Linear(16, 24)]),
        ("ff(v=glu)", [nn.Linear(16, 48)]),
        ("ffl", [nn.Linear(16, 64), nn.Linear(64, 16)]),
        ("cnn(relu, 5)", [nn.Conv1d(16, 24, 5)]),
        ("cnn(glu, 3, 8, dilation=2)", [nn.Conv1d(16, 16, 3)]),
        ("qrnn(8, 3)", [nn.Conv1d(16, 16, 3)]),
        ("ssru(8)", [nn.Linear(16, 8, bias=False), nn.Linear(16, 8)]),
        ("min_gru", [nn.Linear(16, 24), nn.Linear(16, 24)]),
        ("min_lstm(8)", [nn.Linear(16, 24)]),
        ("rg_lru", [nn.Linear(16, 32), nn.RMSNorm(16)]),
        ("ffl(v=swiglu)", [nn.Linear(16, 128), nn.Linear(64, 16)]),
        ("rms_norm", [nn.RMSNorm(16)]),
        ("light_conv(5, h=4)", [nn.Linear(4, 5, bias=False)]),
        ("dynamic_conv(5, h=4)", [nn.Linear(16, 20, bias=False)]),
        ("retention", [nn.Linear(16, 2 * 16 + 3 * 32, bias=False)]),
        ("retention(2, d_k=8, d_v=6)", [nn.Linear(16, 2 * 8 + 3 * 6, bias=False)]),
        (
            "gla",
            [
                nn.Linear(16, 2 * 8 + 3 * 16, bias=False),
                nn.Linear(16, 16, bias=False),
                nn.Linear(16, 8),
                nn.RMSNorm(4),
            ],
        ),
        (
            "mamba2(n=5, h=2)",
            [
                nn.Linear(16, 32 + 32 + 5 + 5 + 2, bias=False),
                nn.Conv1d(42, 42, 4, groups=42),
                nn.Linear(2, 3, bias=False),
                nn.RMSNorm(32),
                nn.Linear(32, 16, bias=False),
            ],
        ),
        ("ema", [nn.Linear(16, 4 * 16, bias=False)]),
        (
            "mega_self_att(d_k=5, n=3)",
            [
                # Averages from both ends, the weight of the input, and the distances
                nn.Linear(2 * 4 * 3 + 1, 16, bias=False),
                nn.Linear(2 * 50 - 1, 1, bias=False),
                nn.Linear(16, 32),
                nn.Linear(16, 16 + 5 + 32 + 16),
                nn.Linear(5, 4, bias=False),
                nn.Linear(32, 16),
            ],
        ),
        ("norm", [nn.LayerNorm(16)]),
        ("rnn", [nn.LSTM(16, 24)]),
        ("rnn(gru)", [nn.GRU(16, 24)]),
        ("birnn", [nn.LSTM(16, 12, bidirectional=True)]),
        ("birnn(gru, 10)", [nn.GRU(16, 5, bidirectional=True)]),
        (
            "rnn(lnlstm, 8)",
            [
                nn.Linear(16, 32, bias=False),
                nn.Linear(8, 32, bias=False),
                nn.LayerNorm(32),
                nn.LayerNorm(32),
                nn.LayerNorm(8),
            ],
        ),
        (
            "rnn(lngru, 8)",
            [
                nn.Linear(16, 24, bias=False),
                nn.Linear(8, 24, bias=False),
                nn.LayerNorm(24),
                nn.LayerNorm(24),
            ],
        ),
        ("mh_dot_self_att(d=16)", [nn.MultiheadAttention(16, 4, bias=False)]),
        ("mh_dot_self_att(2, d=8, d_p=6)", [nn.Linear(16, 18, bias=False), nn.Linear(6, 8, False)]),
        ("mh_dot_self_att(d=16, kv_heads=2)", [nn.Linear(16, 32, False), nn.Linear(16, 16, False)]),
        (
            "mh_dot_self_att(d=16, qk_norm=true, pos=rope)",
            [nn.MultiheadAttention(16, 4, bias=False), nn.RMSNorm(4), nn.RMSNorm(4)],
        ),
        ("mh_dot_self_att(d=16, window=3)", [nn.MultiheadAttention(16, 4, bias=False)]),
        ("mh_dot_self_att(d=16, pos=alibi)", [nn.MultiheadAttention(16, 4, bias=False)]),
        ("proj_dot_self_att(8)", [nn.Linear(16, 24, bias=False)]),
        ("mlp_self_att(8)", [nn.Linear(16, 16, bias=False), nn.Linear(8, 1, bias=False)]),
        ("highway(id)", [nn.Linear(16, 16)]),
        ("learn_pos", [nn.Embedding(50, 16)]),
        ("id -> dropout -> pos -> act(tanh)", []),
        ("concat(id, res(linear(16)))", [nn.Linear(16, 16)]),
    ],
)
def test_parameters_are_those_of_torch(text, modules):
    assert figures(encoder(text), 1).parameters == size(*modules)


@pytest.mark.parametrize(
    "text, modules",
    [
        (
            "mh_dot_src_att(d=16, d_p=16)",
            [nn.MultiheadAttention(16, 4, bias=False, kdim=12, vdim=12)],
        ),
        (
            "mh_dot_src_att(d=16, kv_heads=1, qk_norm=true)",
            [nn.Linear(16, 32, bias=False), nn.Linear(12, 8, bias=False), nn.RMSNorm(8)],
        ),
        (
            "mega_src_att",
            [
                nn.Linear(2 * 1024 - 1, 1, bias=False),
                nn.Linear(16, 2 * 16 + 4),
                nn.Linear(12, 4 + 16),
                nn.Linear(16, 16),
            ],
        ),
        ("proj_dot_att(8)", [nn.Linear(16, 8, bias=False), nn.Linear(12, 16, bias=False)]),
        ("mlp_att(8)", [nn.Linear(16 + 12, 8, bias=False), nn.Linear(8, 1, bias=False)]),
        ("linear(12, bias=false) -> dot_att", [nn.Linear(16, 12, bias=False)]),
    ],
)
def test_parameters_of_source_attention(text, modules):
    assert figures(decoder(text), 1).parameters == size(*modules)


@pytest.mark.parametrize(
    "text, products",
    [
        ("linear", 16 * 24),
        ("cnn(glu, 5)", 5 * 16 * 48),
        ("rnn", 4 * 24 * (16 + 24)),
        ("birnn(gru)", 2 * 3 * 12 * (16 + 12)),
        # Projections of queries, keys, values and output; scores and sums over 7 positions.
        ("mh_dot_self_att(d=16)", 4 * 16 * 16 + 2 * 7 * 16),
        # Keys and values of one of four heads.
        ("mh_dot_self_att(d=16, kv_heads=1)", 2 * 16 * 16 + 2 * 16 * 4 + 2 * 7 * 16),
        # All scores are computed, and those outside of the window are masked.
        ("mh_dot_self_att(d=16, window=2)", 4 * 16 * 16 + 2 * 7 * 16),
        ("mlp_self_att(8)", 2 * 16 * 8 + 7 * (8 + 16)),
        ("res_nd(linear(16) -> act)", 16 * 16),
        # Projections; scores and sums over 7 positions, as in attention.
        ("retention(h=2)", 16 * (2 * 16 + 3 * 32) + 7 * (16 + 32)),
        ("gla", 16 * (2 * 8 + 3 * 16) + 16 * (16 + 8) + 16 + 7 * (2 * 8 + 16)),
        ("mamba2(n=5, h=2)", 16 * (76 + 32) + 32 + 7 * (5 + 32)),
        ("ema(3)", 2 * 3 * 16 + 7 * 16),
        # Averages from both ends; four projections; scores and sums.
        (
            "mega_self_att(d_k=5, n=3)",
            2 * (2 * 3 * 16 + 7 * 16) + 16 * (2 * 32 + 69) + 7 * (5 + 32),
        ),
    ],
)
def test_multiply_adds_of_one_position(text, products):
    assert figures(encoder(text), 7).multiply_adds == products


def test_multiply_adds_of_long_sentences():
    """Pairs of positions in a chunk; then the heads update a state and read it."""
    projections, state = 16 * (2 * 16 + 3 * 32), 2 * 2 * 8 * 16
    actual = figures(encoder("retention(h=2)"), 4 * 128).multiply_adds
    assert actual == projections + 128 * (16 + 32) + state * 3 // 4
    assert actual < figures(encoder("mh_dot_self_att(d=16)"), 4 * 128).multiply_adds


def test_chunks_are_those_of_the_averages_alone():
    own = figures(encoder("mega_self_att(n=2)"), 3 * 64).multiply_adds
    without = 16 * (2 * 32 + 68) + 3 * 64 * (4 + 32)
    averages = figures(encoder("ema(2)"), 3 * 64).multiply_adds
    assert own - without in (2 * averages, 2 * averages - 1)


def test_multiply_adds_of_source_attention():
    # Keys and values of one source token per target token: both sides have the same length.
    expected = 16 * 24 + 24 * 24 + 2 * 12 * 24 + 2 * 7 * 24
    assert figures(decoder("mh_dot_src_att"), 7).multiply_adds == expected
    shared = expected - 2 * 12 * 24 // 2
    assert figures(decoder("mh_dot_src_att(kv_heads=2)"), 7).multiply_adds == shared
    assert figures(decoder("linear(12) -> dot_att"), 7).multiply_adds == 16 * 12 + 2 * 7 * 12


INF = float("inf")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("id -> ffl -> norm", (0, 0)),
        ("cnn(k=5)", (2, 2)),
        ("cnn(k=4)", (1, 2)),
        ("cnn(k=4, padding=causal)", (3, 0)),
        ("cnn(k=3, dilation=4)", (4, 4)),
        ("repeat(6, res_nd(cnn))", (6, 6)),
        ("cnn(k=5) -> res(cnn -> cnn(k=7))", (2 + 1 + 3, 2 + 1 + 3)),
        ("concat(cnn, cnn(k=7), id) -> cnn", (3 + 1, 3 + 1)),
        ("highway(cnn(d=16))", (1, 1)),
        ("rnn", (INF, 0)),
        ("rnn -> cnn", (INF, 1)),
        ("birnn", (INF, INF)),
        ("res(mh_dot_self_att(d=16))", (INF, INF)),
        ("mh_dot_self_att(window=2)", (2, 2)),
        ("repeat(3, mh_dot_self_att(window=2, pos=alibi)) -> cnn", (7, 7)),
        ("mh_dot_self_att(pos=rope)", (INF, INF)),
        ("qrnn", (INF, 0)),
        ("ssru -> res(rg_lru)", (INF, 0)),
        ("retention -> gla -> mamba2 -> ema", (INF, 0)),
        ("mega_self_att", (INF, INF)),
        ("light_conv(k=5) -> dynamic_conv(k=4)", (2 + 1, 2 + 2)),
        ("dynamic_conv(k=5, padding=causal)", (4, 0)),
    ],
)
def test_receptive_field_in_an_encoder(text, expected):
    text = text.replace("cnn(", "cnn(d=16, ").replace("cnn)", "cnn(d=16))")
    text = text.replace("cnn(d=16, d=16", "cnn(d=16").replace("cnn ->", "cnn(d=16) ->")
    assert receptive_field(encoder(text)) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("cnn(k=5)", (4, 0)),
        ("repeat(3, cnn(k=3, dilation=2))", (12, 0)),
        ("mh_dot_self_att", (INF, 0)),
        ("mh_dot_self_att(window=1)", (0, 0)),
        ("repeat(3, mh_dot_self_att(window=4))", (9, 0)),
        ("mh_dot_src_att(kv_heads=2)", (0, 0)),
        ("mlp_self_att -> cnn", (INF, 0)),
        ("mh_dot_src_att -> mlp_att", (0, 0)),
        ("rnn -> qrnn", (INF, 0)),
        ("mega_self_att -> mega_src_att", (INF, 0)),
    ],
)
def test_receptive_field_in_a_decoder(text, expected):
    assert receptive_field(decoder(text)) == expected


@pytest.mark.parametrize(
    "texts, feeding, sentences",
    [
        (
            ("repeat(2, cnn)", "cnn(k=5) -> mlp_att"),
            False,
            [
                "The receptive field of the encoder is 5 positions: its own, 2 to its left and 2 "
                "to its right.",
                "The receptive field of the decoder is 5 positions: its own, 4 to its left.",
                "Training is parallel over time.",
            ],
        ),
        (
            ("id", "mlp_att -> linear"),
            True,
            [
                "The receptive field of the encoder is a single position.",
                "The receptive field of the decoder is all earlier positions.",
                "Training is not parallel over time: input feeding.",
            ],
        ),
        (
            ("rnn -> cnn", "rnn(d=20)"),
            False,
            [
                "The receptive field of the encoder is all earlier positions and 1 later.",
                "Training is not parallel over time: rnn.",
                "The embedding matrix of 100 tokens has 100 x 24 = 2,400 parameters, for source "
                "and target each; the output matrix has 100 x 20 = 2,000.",
                "Warning: --decoder-adl, line 1, column 1: no layer attends",
            ],
        ),
    ],
)
def test_sentences(texts, feeding, sentences):
    text = as_text(resolve(*texts, SETTINGS, input_feeding=feeding), 100, 10)
    for sentence in sentences:
        assert sentence in text


def test_the_second_chain_of_a_bi_sees_what_is_to_its_right():
    spec = resolve("bi(cnn(padding=causal) -> bi(ssru))", "mlp_att", SETTINGS)
    rows = [line.split("  ") for line in as_text(spec, 100, 10).splitlines()]
    fields = [
        next(cell.strip() for cell in row[1:] if " to " in cell or "all" in cell)
        for row in rows
        if any(cell.startswith(("cnn", "ssru")) for cell in row)
    ]
    assert fields == [
        *("-2 to 0", "all earlier", "0 to all later"),
        *("0 to +2", "0 to all later", "all earlier"),
    ]
    (bi,) = as_dict(spec, 100, 10)["encoder"]["layers"]
    convolutions = [chain[0]["receptive_field"] for chain in bi["chains"]]
    assert convolutions == [{"left": 2, "right": 0}, {"left": 0, "right": 2}]
    inner = [[c[0]["receptive_field"] for c in chain[1]["chains"]] for chain in bi["chains"]]
    past, future = {"left": None, "right": 0}, {"left": 0, "right": None}
    assert inner == [[past, future], [future, past]]


def test_the_table_sums_up():
    spec = resolve(
        "pos -> repeat(3, res_nd(cnn) -> res_nd(ffl)) -> norm",
        "pos -> repeat(2, concat(rnn, mlp_att) -> linear) -> norm",
        SETTINGS,
    )
    facts = as_dict(spec, 100, 10)
    lines = {line.split("  ")[0]: line.split() for line in as_text(spec, 100, 10).splitlines()}
    for side in ("encoder", "decoder"):
        parts = facts[side]["layers"]
        assert facts[side]["parameters"] == sum(part["parameters"] for part in parts)
        assert lines[side][-2] == f"{facts[side]['parameters']:,}"
        assert lines[side][-1] == f"{facts[side]['multiply_adds']:,}"
    assert facts["parameters"] == facts["encoder"]["parameters"] + facts["decoder"]["parameters"]
    assert "3 times" in as_text(spec, 100, 10) and "2 times" in as_text(spec, 100, 10)
    assert [block["layers"] for block in facts["encoder"]["blocks"]] == [1, 3, 5, 8]
    concat = facts["decoder"]["layers"][1]
    assert [[part["name"] for part in chain] for chain in concat["chains"]] == [
        ["rnn"], ["mlp_src_att"]
    ]  # fmt: skip
    assert (concat["line"], concat["column"], concat["width"]) == (1, 18, 48)


def test_command_explain(capsys):
    assert main(["adl", "explain", "rnn", "mlp_att", "--model-dim", "8", "--words", "10"]) == 0
    text = capsys.readouterr().out
    row = ["rnn", "S", "x", "8", "all", "earlier", "576", "512"]
    assert row in [line.split() for line in text.splitlines()]
    assert "10 x 8 = 80 parameters" in text
    command = ["adl", "explain", "adl_transformer_wmt", "--json", "--ff-dim", "100"]
    assert main(command) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["encoder"]["width"] == 256 and facts["parallel_over_time"] is True
    assert facts["encoder"]["receptive_field"] == {"left": None, "right": None}
    assert facts["encoder"]["layers"][0]["receptive_field"] == {"left": 0, "right": 0}
    assert "ff(d=100)" in facts["encoder"]["definition"]
    sockeye = ["--dialect", "sockeye", "--model-dim", "8", "--attention-heads", "4"]
    assert main(["adl", "explain", "cnn->linear", "mh_dot_att", *sockeye]) == 0
    assert "mh_dot_src_att(h=8)" in capsys.readouterr().out
    assert main(["adl", "explain", "rnn", "linear -> mlp_att", "--input-feeding"]) == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["rnn", "cn"], "DECODER, line 1, column 1: there is no"),
        (["rnn->", "cnn"], "ENCODER, line 1, column 6: expected a layer"),
        (
            ["adl_transfomer"],
            "'adl_transfomer' (did you mean 'adl_transformer",
        ),
        (["rnn", "rnn", "--model-dim", "0"], "--model-dim is 0, but must be from 1"),
        (["rnn", "rnn", "--words", "0"], "--words is 0"),
        (["rnn", "rnn", "--dialect", "x"], "There is no ADL dialect 'x'"),
        (["rnn", "rnn", "--user-dir", "/no/such"], "There is no folder /no/such (--user-dir)"),
    ],
)
def test_command_explain_reports_errors_in_a_sentence(arguments, message, capsys):
    assert main(["adl", "explain", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_command_list_and_layers(capsys):
    assert main(["adl", "list"]) == 0
    assert "| `adl_rnn_mh` |" in capsys.readouterr().out
    assert main(["adl", "layers"]) == 0
    text = capsys.readouterr().out
    for name, entry in entries().items():
        names = ", ".join(argument.name for argument in entry.arguments)
        assert (f"\n{name}({names})\n" if names else f"\n{name}\n") in text
    assert "      k: positions that an output sees (an integer from 1 to 1023; default: 3)" in text
    assert "d: channels of the output (an integer from 1 to 65536; default: --model-dim)" in text


def test_commands_know_the_layers_of_a_user_dir(tmp_path, capsys, monkeypatch):
    from convs2s.models.adl.language import registry

    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    folder = tmp_path / "layers_of_my_own"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from convs2s.models.adl import POSITION, register_layer\n"
        "@register_layer('mine', 'nothing much', reach=POSITION)\n"
        "class Mine: pass\n"
    )
    assert main(["adl", "layers", "--user-dir", str(folder)]) == 0
    assert "\nmine\n    nothing much\n" in capsys.readouterr().out
    assert main(["adl", "explain", "mine", "mlp_att -> mine", "--user-dir", str(folder)]) == 0
    assert "mine" in capsys.readouterr().out
