"""Plots of BLEU by length and of sweeps."""

import json
import math
from xml.etree import ElementTree

import pytest

from convs2s.cli import main
from convs2s.common.errors import UserError
from convs2s.pictures import (
    lengths,
    sets,
    speeds,
    sweep,
)

pyplot = pytest.importorskip("matplotlib.pyplot")


def run(system, seed, bleu, trial=None, **options):
    splits = {"valid": {"bleu": bleu}} if trial else {"valid": {"bleu": 1}, "test": {"bleu": bleu}}
    options = {name.replace("_", "-"): value for name, value in options.items()}
    return {"system": system, "seed": seed, "trial": trial, "options": options, "splits": splits}


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.json"

    def write(*runs):
        path.write_text(json.dumps({"results": runs, "systems": {"a": "System A"}}))
        return str(path)

    return write


def test_mean_and_deviation_over_seeds(results):
    path = results(
        run("two", 1, 42.0, dropout="0.2", arch="x"),
        run("one", 1, 40.0, dropout=0.1, arch="x"),
        run("two", 2, 44.0, dropout=0.2, arch="x"),
    )
    found = sweep.read_sweep(path, "dropout")
    assert (found.option, found.split) == ("dropout", "test")
    ((name, points),) = found.lines.items()
    assert name == "one" or name == "two"
    assert points == [(0.1, 40.0, None), (0.2, 43.0, pytest.approx(2**0.5))]


def test_a_line_for_each_combination_of_other_options(results):
    path = results(
        *(run("a", 1, 40 + x, encoder_layers=x, decoder_layers=3) for x in (3, 5, 9)),
        *(run("b", 1, 41 + x, encoder_layers=x, decoder_layers=5) for x in (5, 3)),
    )
    found = sweep.read_sweep(path, "encoder-layers")
    assert {name: [point[:2] for point in points] for name, points in found.lines.items()} == {
        "decoder-layers 3": [(3, 43), (5, 45), (9, 49)],
        "decoder-layers 5": [(3, 44), (5, 46)],
    }
    figure = sweep.plot(pyplot, found)
    (axis,) = figure.axes
    assert axis.get_ylabel() == "BLEU (test)" and axis.get_xlabel() == "encoder-layers"
    assert [text.get_text() for text in axis.get_legend().get_texts()] == list(found.lines)
    pyplot.close(figure)


def test_trials_if_nothing_else_differs(results):
    path = results(
        run("a", 1, 38.0, trial=1, lr=0.001),
        run("a", 1, 39.0, trial=2, lr=0.01),
        run("a", 1, 43.0, lr=0.01),
    )
    found = sweep.read_sweep(path, "lr")
    assert found.split == "valid" and list(found.lines) == ["System A"]
    assert found.lines["System A"][0] == (0.001, 38.0, None)


def test_a_trial_that_diverged_has_no_point(results):
    diverged = {**run("a", 1, 0, trial=3, lr=1), "diverged": True, "splits": {}}
    path = results(run("a", 1, 38.0, trial=1, lr=0.1), run("a", 1, 39.0, trial=2, lr=0.2), diverged)
    assert sweep.read_sweep(path).lines == {"System A": [(0.1, 38.0, None), (0.2, 39.0, None)]}


def test_options_with_the_same_value_are_one_and_single_points_are_left_out(results):
    path = results(
        run("a", 1, 38.0, width=64, other_width=64),
        run("b", 1, 39.0, width=128, other_width=128),
        run("c", 1, 43.0, width=128, other_width=128, lr=2),
    )
    found = sweep.read_sweep(path, "width")
    assert [*found.lines.values()] == [[(64, 38.0, None), (128, 39.0, None)]]


def test_the_deviation_is_that_of_means_over_data_sets(results):
    runs = [
        {**run("a", seed, bleu + seed, dropout=dropout), "data_set": data_set}
        for dropout in (0.1, 0.2)
        for seed in (1, 3)
        for data_set, bleu in (("one", 10.0), ("two", 50.0))
    ]
    first, _ = sweep.read_sweep(results(*runs), "dropout").lines["System A"]
    assert first == (0.1, 32.0, pytest.approx(math.sqrt(2)))


def test_numbers_and_their_texts_are_the_same_value(results):
    path = results(
        run("a", 1, 1.0, lr=1, dropout=0.1),
        run("a", 2, 3.0, lr="1", dropout=0.1),
        run("a", 1, 2.0, lr=1, dropout=0.2),
    )
    (line,) = sweep.read_sweep(path, "dropout").lines.values()
    assert [(point.value, point.score) for point in line] == [(0.1, 2.0), (0.2, 2.0)]


def test_values_that_are_no_numbers(results):
    found = sweep.read_sweep(
        results(run("a", 1, 1.0, arch="y"), run("b", 1, 2.0, arch="x"), run("c", 1, 2.0, arch=8)),
        "arch",
    )
    figure = sweep.plot(pyplot, found)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["8", "x", "y"]
    pyplot.close(figure)


def test_the_only_option_that_differs(results):
    # Options with the same values are one.
    runs = [run("a", 1, 1.0, width=2, depth=2, arch="x")]
    runs += [run("b", 1, 2.0, width=4, depth=4, arch="x")]
    assert sweep.read_sweep(results(*runs)).option == "depth"
    # Trials count only where no others differ.
    trials = [run("a", 1, 1.0, trial=number, arch="x", lr=number) for number in (1, 2)]
    assert sweep.read_sweep(results(*trials, run("a", 1, 2.0, arch="x", lr=1))).option == "lr"
    two = [run("a", 1, 1.0, arch="x"), run("b", 1, 2.0, arch="y")]
    assert sweep.read_sweep(results(*trials, *two)).option == "arch"


def test_no_option_is_the_only_one(results):
    path = results(run("a", 1, 1.0, arch="x", lr=1), run("b", 1, 2.0, arch="y", lr=1))
    assert sweep.read_sweep(path).option == "arch"
    path = results(run("a", 1, 1.0, arch="x", lr=1), run("b", 1, 2.0, arch="y", lr=2))
    with pytest.raises(UserError, match=r"several options: choose one of arch, lr"):
        sweep.read_sweep(path)
    path = results(run("a", 1, 1.0, arch="x"), run("a", 2, 2.0, arch="x"))
    with pytest.raises(UserError, match="have the same options"):
        sweep.read_sweep(path)


def test_errors_of_a_sweep(results, tmp_path):
    path = results(run("a", 1, 1.0, arch="x", lr=1), run("b", 1, 2.0, arch="x", lr=2))
    with pytest.raises(UserError, match="No runs of .* differ in arch"):
        sweep.read_sweep(path, "arch")
    with pytest.raises(UserError, match="no results on test_2017 .* valid, test"):
        sweep.read_sweep(path, "lr", "test_2017")
    for content in ("[]", "{}", "no"):
        (tmp_path / "other").write_text(content)
        with pytest.raises(UserError, match="give the results.json of `convs2s experiment`"):
            sweep.read_sweep(str(tmp_path / "other"), "lr")


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.json"
    groups = [{"low": 1, "high": 1, "sentences": 2}, {"low": 2, "high": 9, "sentences": 1000}]
    path.write_text(
        json.dumps(
            {
                "lengths_of": "source",
                "results": [
                    {"name": name, "by_length": [{**group, "bleu": bleu} for group in groups]}
                    for name, bleu in (("a", 30.0), ("b", 31.0))
                ],
            }
        )
    )
    return path


def test_lengths(scores):
    results = lengths.read_length_results(str(scores))
    assert results.groups == [("1", 2), ("2-9", 1000)]
    figure = lengths.plot(pyplot, results)
    (axis,) = figure.axes
    assert [list(line.get_ydata()) for line in axis.lines] == [[30, 30], [31, 31]]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["1\n(2)", "2-9\n(1,000)"]
    pyplot.close(figure)


def test_groups_that_are_too_short_for_bleu_have_no_point(scores):
    content = json.loads(scores.read_text())
    content["results"][0]["by_length"][0]["bleu"] = None
    scores.write_text(json.dumps(content))
    figure = lengths.plot(pyplot, lengths.read_length_results(str(scores)))
    first, second = figure.axes[0].lines
    assert math.isnan(first.get_ydata()[0]) and first.get_ydata()[1] == 30
    assert list(second.get_ydata()) == [31, 31]
    pyplot.close(figure)


def test_names_are_neither_formulas_nor_hidden(scores, tmp_path):
    content = json.loads(scores.read_text())
    for result, name in zip(content["results"], ("_base $x^$", "\x01 5$"), strict=True):
        result["name"] = name
    scores.write_text(json.dumps(content))
    output = tmp_path / "lengths.svg"
    assert main(["plot", "lengths", str(scores), "--output", str(output)]) == 0
    written = ElementTree.parse(output).getroot()
    assert written.tag.endswith("svg") and "_base $x^$" in output.read_text()
    figure = lengths.plot(pyplot, lengths.read_length_results(str(scores)))
    pyplot.close(figure)
    assert len(figure.axes[0].get_legend().get_texts()) == 2


def test_the_command_writes_a_plot(scores, tmp_path, capsys):
    output = tmp_path / "lengths.svg"
    assert main(["plot", "lengths", str(scores), "--output", str(output)]) == 0
    assert output.read_text().startswith("<?xml") and str(output) in capsys.readouterr().out


def test_the_command_finds_the_option(results, tmp_path, capsys):
    path = results(run("a", 1, 1.0, dropout=0.1), run("b", 1, 2.0, dropout=0.2))
    output = tmp_path / "sweep.png"
    assert main(["plot", "sweep", path, "--output", str(output)]) == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    assert main(["plot", "sweep", path, "--option=--dropout", "--output", str(output)]) == 0
    path = results(run("a", 1, 1.0, dropout=0.1, lr=1), run("b", 1, 2.0, dropout=0.2, lr=2.5))
    assert main(["plot", "sweep", path, "--output", str(output)]) == 2
    assert "choose one of dropout, lr (--option)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["lengths", "{folder}/other"], "has no BLEU by length"),
        (["lengths", "{folder}/missing"], "There is no file"),
        (["lengths", "{folder}/scores.json", "--output", "plot.jpg"], "must end in .png"),
        (["training", "{folder}/other"], "has no lines about training"),
        (["training", "{folder}/scores.json", "{folder}/other"], "has no lines about training"),
    ],
)
def test_errors_of_the_command(arguments, message, scores, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").write_text("{}")
    assert main(["plot", *(each.format(folder=tmp_path) for each in arguments)]) == 2
    assert message in capsys.readouterr().err


SCORES = {
    "metric": "wer",
    "systems": {"a": "System A", "b": "A system with quite a long title"},
    "sets": {
        "one": {
            "a": [{"splits": {"valid": {"wer": 9}, "test": {"wer": w}}} for w in (10, 30)],
            "b": [{"splits": {"valid": {"wer": 5}, "test": {"wer": 15}}}],
        },
        "two": {"a": [{"splits": {"valid": {"wer": 7}, "test": {"wer": 50}}}], "b": []},
    },
}


def test_scores_by_data_set(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(SCORES))
    found = sets.read_scores(str(path))
    assert (found.metric, found.split, found.sets) == ("wer", "test", ["one", "two"])
    assert [*found.systems.values()] == [[20, 50], [15, None]]
    assert [*sets.read_scores(str(path), "valid").systems.values()] == [[9, 7], [5, None]]
    alike = {**SCORES, "systems": dict.fromkeys("ab", "same")}
    path.write_text(json.dumps(alike))
    both = sets.read_scores(str(path)).systems
    assert both == {"same (a)": [20, 50], "same (b)": [15, None]}
    path.write_text(json.dumps(SCORES))
    figure = sets.plot(pyplot, found)
    pyplot.close(figure)
    texts = {text.get_text(): text for text in figure.axes[0].texts}
    assert {name: text.get_weight() for name, text in texts.items()} == {
        "20.0": "normal",
        "15.0": "bold",
        "50.0": "bold",
    }
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["System A", "A system with quite\na long title"]
    output = tmp_path / "sets.svg"
    assert main(["plot", "sets", str(path), "--output", str(output)]) == 0
    assert "A system with quite" in output.read_text()


@pytest.mark.parametrize(
    "content, split, message",
    [
        ({**SCORES, "sets": {}}, None, "has no results on several data sets"),
        ({"results": []}, None, "has no results on several data sets"),
        (SCORES, "tset", r"has no results on tset: choose one of valid, test \(--split\)"),
    ],
)
def test_no_scores_by_data_set(tmp_path, content, split, message):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        sets.read_scores(str(path), split)


def measured(*numbers):
    low, median, high = numbers
    return {"median": median, "min": low, "max": high}


SPEEDS = {
    "metric": "wer",
    "systems": {"a": "System A", "b": "System B", "c": "not measured"},
    "speeds": {
        "a": {"tokens_per_second": measured(900, 1000, 1300)},
        "b": {
            "tokens_per_second": measured(400, 500, 550),
            "sentences_per_second": measured(70, 80, 90),
        },
    },
    "results": [
        {"system": name, "trial": trial, "splits": {"valid": {"wer": 9}, "test": {"wer": wer}}}
        for name, trial, wer in (("a", None, 10), ("a", None, 30), ("a", 1, 99), ("b", None, 40))
    ],
}


def test_scores_over_speeds(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(SPEEDS))
    found = speeds.read_speeds(str(path))
    assert (found.metric, found.split) == ("wer", "test")
    assert {name: system.score for name, system in found.systems.items()} == {
        "System A": 20,
        "System B": 40,
    }
    assert speeds.read_speeds(str(path), "valid").systems["System B"].score == 9
    figure = speeds.plot(pyplot, found)
    training, translation = figure.axes
    points = [[bar[0].get_xydata().tolist() for bar in axis.containers] for axis in figure.axes]
    assert points == [[[[1000, 20]], [[500, 40]]], [[[80, 40]]]]
    ends = training.containers[0].lines[2][0].get_segments()[0]
    assert ends.tolist() == [[900, 20], [1300, 20]]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["System A", "System B"]
    # A lower error rate is better.
    assert training.yaxis_inverted() and translation.get_xlabel() == "translation, sentences/s"
    pyplot.close(figure)
    output = tmp_path / "speeds.svg"
    assert main(["plot", "speeds", str(path), "--output", str(output)]) == 0
    assert output.stat().st_size > 1000


@pytest.mark.parametrize(
    "content, split, message",
    [
        ({**SPEEDS, "speeds": {}}, None, "has no speeds: `convs2s experiment --speed` measures"),
        ({**SPEEDS, "speeds": {"a": {"tokens_per_second": 3}}}, None, "has no speeds of systems"),
        ([], None, "has no speeds of systems: give the results.json"),
        (SPEEDS, "tset", r"has no results on tset: choose one of valid, test \(--split\)"),
    ],
)
def test_no_scores_over_speeds(tmp_path, content, split, message):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        speeds.read_speeds(str(path), split)
