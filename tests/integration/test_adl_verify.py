"""``convs2s adl verify`` as a user starts it: for each property, a layer with which it fails."""

import subprocess

import pytest

from convs2s.models.adl.verify import PROPERTIES
from convs2s.nn.int8 import is_supported
from tests import ROOT
from tests.support.commands import server

BROKEN = ROOT / "tests" / "packages" / "broken_layers"
NAMES = [each.name for each in PROPERTIES]
STEPS = {"steps, float64", "steps, float32"}
PADDING = {"padding on the right", "padding on the left"}


def verify(*arguments, **options):
    program = server().programs / "convs2s"
    return subprocess.run(
        [program, "adl", "verify", *arguments], capture_output=True, text=True, **options
    )


def verdicts(output):
    """Property -> the last column of its line."""
    rows = output.partition("\n\n")[0].splitlines()[1:]
    found = {next(n for n in NAMES if row.startswith(f"{n} ")): row.split()[-1] for row in rows}
    assert [*found] == NAMES
    return found


def sentences(output):
    """The sentences about what failed."""
    return [line for line in output.splitlines() if line.startswith("FAILED ")]


def failed(output):
    return {name for name, verdict in verdicts(output).items() if verdict == "FAILED"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["pos -> res_nd(birnn) -> norm", "pos -> res_nd(cnn(glu)) -> res_nd(mh_dot_src_att)"],
        ["adl_rnmt", "--length", "5", "--words", "11"],
        ["learn_pos -> light_conv -> dynamic_conv(k=5)", "--side", "encoder"],
        ["rnn(lngru) -> highway(qrnn) -> mlp_att", "--side", "decoder", "--model-dim", "6"],
        ["cnn->linear", "mh_dot_att", "--dialect", "sockeye"],
        ["rnn", "linear -> rg_lru -> mlp_att", "--input-feeding"],
        ["linear -> whole", "linear -> whole", "--user-dir", str(BROKEN)],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_holds(arguments):
    done = verify(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert set(verdicts(done.stdout).values()) <= {"ok", "here"}
    assert "\nAll of this holds.\n" in done.stdout and "FAILED" not in done.stdout


@pytest.mark.parametrize(
    "layer, side, properties, advice",
    [
        (
            "forgetful",
            "decoder",
            {*STEPS, "several positions", "reordering", "steps after padding"},
            "keep what later positions need in `context.layer_state(self).rows`",
        ),
        ("drifting", "decoder", {"steps, float32"}, "rounding errors grow from step to step"),
        ("single", "decoder", {"several positions"}, "A step may have several positions"),
        ("unordered", "decoder", {"reordering"}, "keep nothing of a sentence in the module"),
        ("leaky", "encoder", {*PADDING, "batch"}, "`context.padding_mask` is true"),
        ("careless", "decoder", {"steps after padding"}, "`context.padding_mask` (R x 1) is true"),
        ("mixing", "encoder", {"batch"}, "A layer must treat each row separately"),
        (
            "foreseeing",
            "decoder",
            {*STEPS, *PADDING, "several positions", "steps after padding", "batch"}
            | {"later tokens", "receptive field"},
            "look at what the layer reads to the right",
        ),
        ("narrow", "decoder", {"receptive field"}, "Correct `reach=`"),
        ("narrow", "encoder", {"receptive field"}, "Correct `reach=`"),
        ("light", "encoder", {"parameters"}, ": it states 3 and has 272."),
        ("cheap", "decoder", {"multiply-adds"}, ": it states 7 and computes 256."),
        ("flat", "encoder", {"gradients"}, "Look for `detach()`"),
        ("coarse", "decoder", {"bfloat16"}, "differences of similar numbers need float32"),
    ],
)
def test_a_layer_that_breaks_a_promise(layer, side, properties, advice):
    definition = f"linear -> res({layer})"
    done = verify(definition, "--side", side, "--user-dir", BROKEN)
    assert (done.returncode, done.stderr) == (1, "")
    assert failed(done.stdout) == properties
    said = sentences(done.stdout)
    assert any(advice in sentence for sentence in said)
    named = [sentence.partition(":")[0].removeprefix("FAILED ").split("; ") for sentence in said]
    assert sorted(sum(named, [])) == sorted(properties)
    place = f"'{layer}' ({side.upper()}, line 1, column 15)"
    assert all(place in sentence for sentence in said)


@pytest.mark.skipif(not is_supported(), reason="this CPU has no instructions for int8")
def test_a_layer_that_cannot_be_rounded():
    done = verify("rounded", "--side", "encoder", "--user-dir", BROKEN)
    assert done.returncode == 1 and "int8" in failed(done.stdout)
    assert "Weights that must not be rounded" in done.stdout


def test_a_cpu_without_int8():
    code = (
        "from convs2s.nn import int8; int8.is_supported = lambda: False\n"
        "from convs2s.cli import main; raise SystemExit(main(['adl', 'verify', 'rnn', 'mlp_att']))"
    )
    python = server().programs / "python"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert verdicts(done.stdout)["int8"] == "here" and "  not available here\n" in done.stdout


@pytest.mark.parametrize(
    "layer, properties, sentence",
    [
        (
            "wide",
            len(NAMES) - 2 - (not is_supported()),
            "returns 32 channels and declares 16 (`width=`).",
        ),
        ("raising", 5, "raises IndexError: there is no seventh position."),
    ],
)
def test_a_layer_that_raises_an_exception(layer, properties, sentence):
    done = verify("id", f"mlp_att -> {layer}", "--user-dir", BROKEN)
    assert (done.returncode, done.stderr) == (1, "")
    assert len(failed(done.stdout)) == properties
    (said,) = sentences(done.stdout)
    assert said.endswith(f"'{layer}' (DECODER, line 1, column 12) {sentence}")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["rnn", "cn"], "DECODER, line 1, column 1: there is no layer 'cn'"),
        (["cn", "--side", "decoder"], "DECODER, line 1, column 1: there is no layer 'cn'"),
        (["cn", "--side", "encoder"], "ENCODER, line 1, column 1: there is no layer 'cn'"),
        (["rnn", "birnn"], "DECODER, line 1, column 1: 'birnn' sees all positions"),
        (
            ["res(rnn)"],
            "DECODER is missing after res(rnn): give two chains of layers, one with --side, or the "
            "name of an architecture.",
        ),
        (
            ["res(linear(64) -> norm)", "id"],
            "The first layer gets 16 channels, unless --model-dim gives another number.",
        ),
        (["rnn", "rnn", "--side", "encoder"], "--side is for a single definition"),
        (["adl_rnn", "--side", "encoder"], "adl_rnn names both sides of a model: omit --side."),
        (["rnn", "--side", "both"], "--side"),
        (["adl_rn"], "There is no named architecture 'adl_rn' (did you mean 'adl_rnn"),
        (["@missing.adl", "rnn"], "missing.adl"),
        (["rnn", "rnn", "--model-dim", "0"], "--model-dim is 0, but must be from 1"),
        (["rnn", "rnn", "--words", "4"], "--words is 4: it must be at least 5."),
        (["rnn", "rnn", "--length", "0"], "--length is 0, but must be from 1 to 1000."),
        (["rnn", "rnn", "--length", "1001"], "--length is 1001, but must be from 1 to 1000."),
        (["rnn", "rnn", "--dialect", "x"], "There is no ADL dialect 'x'"),
        (["rnn", "rnn", "--user-dir", "/no/such"], "There is no folder /no/such (--user-dir)"),
        (
            ["id", "concat(id, unbuilt)", "--user-dir", str(BROKEN)],
            "'unbuilt' (DECODER, line 1, column 12) cannot be built: it raises KeyError: 'depth'.",
        ),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_input(arguments, message, tmp_path):
    done = verify(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert message in done.stderr and done.stdout == ""


def test_a_field_that_is_longer_than_the_sentences():
    done = verify("cnn(k=3, dilation=9)", "mlp_att", "--length", "10")
    assert done.returncode == 0
    assert "The receptive field of the encoder reaches 9 positions away, so no position" in (
        done.stdout
    )
    assert "give a larger --length" not in verify("cnn(k=3, dilation=9)", "mlp_att").stdout


def test_what_is_not_declared_is_named():
    done = verify("linear -> forgetful", "--side", "encoder", "--user-dir", BROKEN)
    assert done.returncode == 0
    assert "Without the multiply-adds of forgetful: no cost is declared.\n" in done.stdout
