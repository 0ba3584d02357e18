"""The table and the plot of ``convs2s find-lr``, and its options."""

import argparse
import math

import pytest

from convs2s.cli import find_lr
from convs2s.common.errors import UserError
from convs2s_plugin.optim.lr_suggestion import Point, Suggestion

POINTS = [Point(10 ** (-4 + i / 10), 12 - 0.2 * i) for i in range(20)]
POINTS += [Point(0.02, 90.0), Point(0.1, math.nan)]


def parse(*arguments):
    parser = argparse.ArgumentParser()
    find_lr.add_arguments(parser)
    args, args.forwarded = parser.parse_known_args(arguments)
    return args


def test_the_table_marks_the_suggestion():
    head, *rows = find_lr.table(POINTS, Suggestion(0.003), "training loss").splitlines()
    assert head.split() == ["learning", "rate", "training", "loss"]
    (marked,) = (row for row in rows if "<- suggestion" in row)
    assert marked.split()[0] == "2.4e-03"
    assert rows[0].split()[1] == "11.80" and rows[-1].split()[1] == "nan"
    assert all("*" in row for row in rows[:-2]) and ">" in rows[-2]
    assert "suggestion" not in find_lr.table(POINTS, Suggestion(None), "training loss")


@pytest.mark.parametrize("points", (POINTS, POINTS[:1], [Point(0.1, math.nan)]))
def test_a_table_of_any_sweep(points):
    assert len(find_lr.table(points, Suggestion(None), "loss").splitlines()) > 1


@pytest.mark.parametrize("points", (POINTS, [Point(0.1, math.nan)]))
def test_the_plot(points, tmp_path):
    pytest.importorskip("matplotlib")
    pyplot = find_lr.import_pyplot()
    figure = find_lr.plot(pyplot, points, Suggestion(0.003), 0.9, "training loss")
    figure.savefig(tmp_path / "lr.svg")
    pyplot.close(figure)
    (axis,) = figure.axes
    assert axis.get_xscale() == "log" and axis.get_ylabel() == "training loss"
    assert "suggestion: 0.003" in [text.get_text() for text in axis.get_legend().get_texts()]


def test_other_options_are_those_of_fairseq():
    args = parse("data-bin", "--lr", "0.1,0.2", "--min-lr", "1e-4", "--encoder-adl", "pos -> norm")
    assert args.min_lr == 1e-4
    assert args.forwarded == ["data-bin", "--lr", "0.1,0.2", "--encoder-adl", "pos -> norm"]


@pytest.mark.parametrize(
    "arguments, sentence",
    (
        (["--min-lr", "0.1", "--max-lr", "0.1"], "--min-lr is 0.1 and --max-lr is 0.1"),
        (["--min-lr", "0"], "must be positive"),
        (["--max-lr", "inf"], "--max-lr is inf"),
        (["--sweep-updates", "5"], "--sweep-updates is 5"),
        (["--smoothing", "1"], "--smoothing is 1"),
        (["--output", "lr.txt"], r"must end in \.png"),
        (["--output", "no/such/lr.png"], "there is no folder no/such"),
    ),
)
def test_errors(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence):
        find_lr.run(parse("data-bin", *arguments))
