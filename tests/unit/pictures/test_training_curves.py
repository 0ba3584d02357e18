"""Curves from logs of fairseq-train in its formats, and their plots."""

import pytest

from convs2s.cli import plot
from convs2s.common.errors import UserError
from convs2s.pictures import training
from convs2s.pictures.training import TrainingCurves, read_training_curves

TIME = "2026-01-05 10:00:00 | INFO | "
JSON = [
    TIME + 'train_inner | {"epoch": 1, "update": 0.5, "loss": "9.5", "wps": "0", '
    '"num_updates": "20", "lr": "0.0002", "train_wall": "8"}',
    TIME + 'train_inner | {"epoch": 1, "update": 1.0, "loss": "8.25", "wps": "4100.5", '
    '"num_updates": "40", "lr": "0.0004", "train_wall": "8"}',
    TIME + 'valid | {"epoch": 1, "valid_loss": "8.1", "valid_nll_loss": "7.5", "valid_ppl": '
    '"181.02", "valid_bleu": "3.5", "valid_num_updates": "40"}',
    TIME + "fairseq_cli.train | done training in 20.0 seconds",
]
SIMPLE = [
    TIME + "train_inner | epoch 001:     20 / 40 loss=9.5, wps=0, ups=0, num_updates=20, "
    "lr=0.0002, train_wall=8",
    TIME + "train_inner | epoch 001:     40 / 40 loss=8.25, wps=4100.5, ups=2, "
    "num_updates=40, lr=0.0004, train_wall=8",
    TIME + "valid | epoch 001 | valid on 'valid' subset | loss 8.1 | nll_loss 7.5 | ppl 181.02 "
    "| bleu 3.5 | num_updates 40",
]


TRAINED = TIME + 'train | {"epoch": 1, "train_loss": "9.9", "train_num_updates": "40"}'
TRAINED_SIMPLE = TIME + "train | epoch 001 | loss 9.9 | num_updates 40"


def bare(lines):
    """The lines as --log-file has them."""
    return [line.removeprefix(TIME).partition(" | ")[2] for line in lines]


def hydra(lines):
    """The lines as fairseq-hydra-train prints them."""
    parts = [line.removeprefix(TIME).partition(" | ") for line in lines]
    return [f"[2026-01-05 10:00:00,123][{name}][INFO] - {text}" for name, _, text in parts]


def read(tmp_path, lines):
    path = tmp_path / "train.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return read_training_curves(str(path))


@pytest.mark.parametrize("written", [list, bare, hydra])
@pytest.mark.parametrize(
    "lines", [[*JSON, TRAINED], [*SIMPLE, TRAINED_SIMPLE]], ids=["json", "simple"]
)
def test_formats(lines, written, tmp_path):
    curves = read(tmp_path, ["something else", "{'_name': None}", *written(lines)])
    assert curves.train["loss"] == {20: 9.5, 40: 8.25}
    assert curves.train["lr"] == {20: 0.0002, 40: 0.0004}
    assert curves.train["wps"] == {20: 0, 40: 4100.5}
    assert {name: curves.valid[name] for name in ("loss", "ppl", "bleu")} == {
        "loss": {40: 8.1},
        "ppl": {40: 181.02},
        "bleu": {40: 3.5},
    }


def test_a_restart_replaces_what_is_trained_again(tmp_path):
    curves = read(tmp_path, [*JSON, JSON[1].replace("8.25", "8.0")])
    assert curves.train["loss"] == {20: 9.5, 40: 8.0}


def test_a_cut_line_and_values_that_are_not_finite_are_left_out(tmp_path):
    curves = read(tmp_path, [JSON[0], JSON[1][:80], JSON[1].replace("8.25", "inf")])
    assert curves.train["loss"] == {20: 9.5} and curves.train["lr"] == {20: 0.0002, 40: 0.0004}


def test_a_file_that_is_no_log(tmp_path):
    with pytest.raises(UserError, match="train.log has no lines about training"):
        read(tmp_path, ["nothing", TIME + "fairseq_cli.train | hello"])
    with pytest.raises(UserError, match="train.log has no lines about training"):
        read(tmp_path, ['{"epoch": 1, "num_updates": "5", "gnorm": "1.5", "wps": "0"}'])


@pytest.mark.parametrize("text, name", [("{}", "run"), ("={}", "run"), ("mine={}", "mine")])
def test_names_of_training_runs(text, name, tmp_path):
    log = tmp_path / "run" / "train.log"
    log.parent.mkdir()
    log.write_text("\n".join(JSON))
    assert [*plot._read_trainings([text.format(log)])] == [name]


def test_two_training_runs_of_one_name(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.log").write_text("\n".join(JSON))
    paths = [str(tmp_path / f"{name}.log") for name in ("one", "two")]
    with pytest.raises(UserError, match=f"Two logs are called {tmp_path.name}: .* baseline=.*two"):
        plot._read_trainings(paths)
    assert [*plot._read_trainings([paths[0], f"baseline={paths[1]}"])] == [
        tmp_path.name,
        "baseline",
    ]


def test_smoothing_keeps_the_mean():
    series = {update: float(update) for update in range(1, 1001)}
    means = training.smoothed(series, windows=10)
    assert list(means.values()) == [50.5 + 100 * i for i in range(10)]
    assert training.smoothed({1: 2.0, 2: 4.0}) == {1: 2.0, 2: 4.0}
    assert training.smoothed({}) == {}


def test_one_panel_for_each_curve():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    curves = TrainingCurves({"loss": {1: 3.0, 2: 2.0}, "wps": {1: 0.0, 2: 5.0}}, {"ppl": {2: 8.0}})
    figure = training.plot(pyplot, {"one": curves, "two": curves})
    titles = [axis.get_ylabel() for axis in figure.axes if axis.get_visible()]
    assert titles == [
        "training loss (bits per token)",
        "validation perplexity",
        "training speed (tokens per second)",
    ]
    assert [list(line.get_xdata()) for line in figure.axes[2].lines] == [[2], [2]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    pyplot.close(figure)
