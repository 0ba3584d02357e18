"""``convs2s flops``."""

import pytest

from convs2s.cli import flops, main, sizes
from tests.support.commands import NEEDS_FAIRSEQ

SMALL = (
    "--source-words",
    "40",
    "--target-words",
    "30",
    "--length",
    "7",
    "--sentence-pairs",
    "1000",
    "--epochs",
    "10",
)


def cells(printed):
    """The cells of the first row of a table."""
    row = printed.splitlines()[2]
    return [cell.strip() for cell in row.strip("|").split("|")]


def count(capsys, *arguments):
    assert main(["flops", *arguments]) == 0
    return cells(capsys.readouterr().out)


def test_a_transformer_by_hand(capsys):
    layer = pytest.importorskip("fairseq.modules.transformer_layer").TransformerEncoderLayerBase
    size, inner, layers, length = 256, 512, 2, 7
    arguments = (
        *("--arch", "transformer", *SMALL, "--encoder-layers", "2", "--decoder-layers", "2"),
        *("--encoder-embed-dim", "256", "--decoder-embed-dim", "256"),
        *("--encoder-ffn-embed-dim", "512", "--decoder-ffn-embed-dim", "512"),
        *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
    )
    name, network, total, giga, _ = count(capsys, *arguments)
    weights = layers * (4 * size**2 + 2 * size * inner) + layers * (8 * size**2 + 2 * size * inner)
    biases = layers * (4 * size + inner + size + 4 * size) + layers * (
        8 * size + inner + size + 6 * size
    )
    # fairseq 0.12.2 has the encoder's weights twice, for torch's fused layer.
    if "_transformer_encoder_layer_fwd" in layer.forward.__code__.co_names:
        biases += layers * (4 * size**2 + 2 * size * inner + 4 * size + inner + size)
    assert network == f"{(weights + biases) / 1e6:.2f}M" and name.startswith("transformer --")
    embeddings = (40 + 30 + 30) * size
    assert total == f"{(weights + biases + embeddings) / 1e6:.2f}M"
    # Each weight has one multiplication and one addition a token, three times with the backward
    # pass; scores of attention have no weights, and the source embeddings need no gradient.
    linear = 3 * 2 * length * (weights + 30 * size)
    attention = 3 * layers * 3 * 2 * 2 * length**2 * size
    assert float(giga) == pytest.approx((linear + attention) / 1e9, abs=0.02)


def test_options_change_the_model(capsys):
    arguments = "--arch", "pervasive", *SMALL, "--growth-rate", "8", "--kernel-size", "3"
    few, many = (count(capsys, *arguments, "--num-layers", number) for number in ("2", "4"))
    assert float(few[1].rstrip("M")) < float(many[1].rstrip("M"))
    assert few[0] == "pervasive --growth-rate 8 --kernel-size 3 --num-layers 2"


def test_the_cost_of_a_training(capsys):
    arguments = ["--arch", "adl_rnnsearch", *SMALL]
    arguments[arguments.index("--sentence-pairs") + 1] = "1000000000"
    *_, giga, peta = count(capsys, *arguments)
    assert float(peta.replace(",", "")) == pytest.approx(float(giga) * 1e4, rel=0.2)


def test_published_models(monkeypatch, capsys):
    monkeypatch.setattr(flops, "PUBLISHED", flops.PUBLISHED[-1:])
    assert main(["flops", "--length", "2"]) == 0
    printed = capsys.readouterr().out
    name, network, total, *_, parameters, cost, table = cells(printed)
    assert (name, parameters, cost, table) == ("convs2s_iwslt_de_en_deep", "21M", "1.35", "Table 3")
    assert float(total.rstrip("M")) == pytest.approx(21, abs=0.5)
    assert "Compare models within each of the two columns" in printed


def exact(arch, length, *options):
    return sizes.flops(arch, options, (40, 30), length)


def test_operations_do_not_depend_on_the_algorithm():
    """Longer sentences are convolved by Winograd's algorithm, with half the operations."""
    options = ("--encoder-layers", "[(128, 3)] * 2", "--decoder-layers", "[(128, 3)]")
    options += ("--encoder-embed-dim", "128", "--decoder-embed-dim", "128")
    short, middle, long = (exact("convs2s", n, *options) for n in (128, 256, 384))
    # Linear in the length but for attention, whose operations are quadratic.
    attention = 3 * 2 * 2 * 128 * (384**2 - 2 * 256**2 + 128**2)
    assert long - 2 * middle + short == attention


def test_target_positions_that_masked_convolutions_discard_do_not_count():
    options = ("--num-layers", "3", "--growth-rate", "4")
    narrow, wide = (exact("pervasive", 7, *options, "--kernel-size", k) for k in ("3", "5"))
    cells, layers, hidden, growth = 7 * 7, 3, 16, 4
    weights = layers * hidden * growth * (3 * 5 - 2 * 3)
    assert wide - narrow == 3 * 2 * cells * weights


@pytest.mark.parametrize("source, target, published", [(11830, 9000, 6), (9000, 11830, 7)])
def test_rnnsearch_has_the_published_size(source, target, published, capsys):
    words = ["--source-words", str(source), "--target-words", str(target)]
    assert main(["flops", "--arch", "adl_rnnsearch", "--length", "2", *words]) == 0
    _, _, total, *_ = cells(capsys.readouterr().out)
    assert float(total.rstrip("M")) == pytest.approx(published, abs=0.5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        # fairseq may have others.
        pytest.param(
            ["--arch", "nothing"], "There is no architecture nothing", marks=NEEDS_FAIRSEQ
        ),
        (["--num-layers", "3"], "--num-layers changes a model: give one with --arch"),
        (["--arch", "convs2s", "--layers", "3"], "unrecognized arguments: --layers 3"),
        (["--arch", "convs2s", "--length", "0"], "--length is 0"),
        (["--arch", "convs2s", "--source-words", "4"], "--source-words is 4"),
    ],
)
def test_errors(arguments, message, capsys):
    assert main(["flops", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--arch", "pervasive", "--words", "50"],
            "--words 50 is for --named: give --source-words",
        ),
        (["--named", "--target-words", "50"], "--target-words 50 is not for --named, whose models"),
    ],
)
def test_words_of_other_tables(arguments, message, capsys):
    assert main(["flops", *arguments]) == 2
    assert message in capsys.readouterr().err
