"""Several data sets, error rates, ensembles and rounds of trials, with the fake programs."""

import json
import re
import shutil
from argparse import Namespace

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments.report import lengths

from .words import commands

FILE = """
data: {source: de, target: en, text: "text/{set}", sets: [one, two, three]}
metric: wer
train: {task: convs2s_translation, lr: 2, total-num-update: "{updates}"}
seeds: [1, 2, 3]
baseline: a
tuning: {updates: [0.25, 0.5, 1], keep: 0.5, seed: 3, sets: [one, three]}
systems:
  a:
    updates: 8
    train: {arch: some}
    trials: [{lr: 4}, {lr: 3, updates: 16}, {lr: 5}, {lr: 6}]
  b:
    updates: 4
    train: {arch: other}
    searches: [{beam: 2}, {beam: 7}]
  both:
    ensemble: {a: [1, 2], b: 3}
"""


@pytest.fixture
def benchmark(folder):
    for name in ("one", "two", "three"):
        shutil.copytree(folder / "text", folder / "text2" / name)
    shutil.rmtree(folder / "text")
    (folder / "text2").rename(folder / "text")
    (folder / "words.yaml").write_text(FILE)
    return folder


def results(folder):
    runs = folder / "words_out" / "runs"
    found = runs.glob("*/*/result.json")
    return {
        path.parent.relative_to(runs).as_posix(): json.loads(path.read_text()) for path in found
    }


def rows(printed, title):
    """The cells of the table below a title."""
    text = printed.partition(f"# {title}\n")[2]
    lines = re.findall(r"^\|.*\|$", text.partition("\n#")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:1] + lines[2:]]


def test_a_benchmark_of_three_data_sets(start, benchmark):
    code, printed = start("--jobs", 2)
    assert code == 0
    found = results(benchmark)
    trials = [f"a.trial{number}" for number in range(1, 8)]
    own = ["a.1", "a.2", "a.3", "b.1", "b.2", "b.3", "both.1"]
    expected = [f"{name}/{run}" for name in ("one", "three") for run in trials]
    expected += [f"{name}/{run}" for name in ("one", "two", "three") for run in own]
    assert sorted(found) == sorted(expected)
    # The scores are equal, so that the loss decides, which the fakes take from the learning rate.
    assert found["one/a.trial5"]["trial_options"] == {"lr": 3, "updates": 16}
    assert [found[f"one/a.trial{number}"]["updates"] for number in (1, 2, 5, 6, 7)] == [
        2,
        4,
        8,
        4,
        16,
    ]
    # The last round has all updates, so that its model is the run with the seed of the trials.
    assert found["two/a.1"]["updates"] == found["one/a.3"]["updates"] == 16
    trained = [line for line in commands(benchmark) if "fairseq-train" in line]
    assert not any("one/a.3/" in line for line in trained)
    assert any("two/a.3/" in line for line in trained)
    # A search with --beam 7 is right.
    assert found["two/b.2"]["searches"][1]["wer"] == pytest.approx(100 / 3)
    assert found["two/b.2"]["generate"]["beam"] == 7
    assert found["two/both.1"]["updates"] == 16 + 16 + 4
    [ensemble] = [line for line in commands(benchmark) if "two/both.1/test_1" in line][:1]
    parts = [f"runs/two/{run}/average.pt" for run in ("a.1", "a.2", "b.3")]
    assert re.search("--path [^ ]*" + ":[^ ]*".join(parts) + " ", ensemble)
    # Means over data sets, and their permutation test: all 3 differences have one sign.
    main = rows(printed, "words")
    assert "WER valid" in main[0] and "PER" in " ".join(main[0]) and "BLEU" not in printed
    b = dict(zip(main[0], next(row for row in main if row[0] == "b")))
    assert b["WER valid"] == "33.33 ± 0.00" and b["Difference"] == "-66.67 (p = 0.25)"
    assert b["p over seeds"] == "0.000"
    by_set = rows(printed, "WER on test_1 by data set")
    assert [row[0] for row in by_set] == ["Data set", "one", "two", "three", "mean"]
    assert by_set[-1][2] == "33.33 ± 0.00"
    csv = (benchmark / "words_out/table.csv").read_text()
    assert "test_1.wer.p_over_seeds" in csv
    before = commands(benchmark)
    assert start("--jobs", 2)[0] == 0 and commands(benchmark) == before
    assert start("--report")[0] == 0


@pytest.mark.parametrize("other", ["--report", "--list"])
def test_speeds_are_measured_after_training_only(start, benchmark, other):
    with pytest.raises(UserError, match=f"--speed measures after training, and {other} trains"):
        start("--speed", other)


def test_a_run_that_is_missing_on_a_data_set(start, benchmark):
    assert start("--systems", "b")[0] == 0
    (benchmark / "words_out/runs/two/b.2/result.json").unlink()
    printed = start("--systems", "b", "--report")[1]
    assert "Unfinished: two/b.2." in printed
    main = rows(printed, "words")
    assert main[1][-1] == "2"


def test_a_difference_has_the_seeds_of_the_means(start, benchmark):
    """The missing run is not in the mean over data sets, and so are those of its seed on others."""
    assert start("--systems", "a", "b")[0] == 0
    runs = benchmark / "words_out/runs"
    (runs / "two/b.2/result.json").unlink()
    path = runs / "one/b.2/result.json"
    result = json.loads(path.read_text())
    result["splits"]["test_1"]["wer"] += 30
    path.write_text(json.dumps(result))
    main = rows(start("--systems", "a", "b", "--report")[1], "words")
    b = dict(zip(main[0], next(row for row in main if row[0] == "b")))
    assert b["Seeds"] == "2" and b["Difference"] == "-66.67 (p = 0.25)"


def test_groups_of_equal_length(start, benchmark):
    text = FILE.replace("  both:\n    ensemble: {a: [1, 2], b: 3}\n", "")
    text += "  c: {updates: 4, train: {arch: third}}\n"
    # As many updates, but after those of another model.
    text += "  d: {updates: 4, train: {arch: third}, continues: c}\n"
    text += "  e: {runs_of: d, generate: {beam: 3}}\n"
    text += "  f: {ensemble: {d: 1}}\n"
    (benchmark / "words.yaml").write_text(text)
    code, printed = start("--jobs", 2, "--seeds", 1)
    assert code == 0
    table = rows(printed, "At equal numbers of updates")
    assert table[0][:2] == ["System", "Updates"] and [row[:2] for row in table[1:]] == [
        ["b", "12"],
        ["c", "12"],
    ]


@pytest.mark.parametrize(
    "devices, is_comparable",
    [
        ([], True),
        (["CPU, 1 core, AVX512", "CPU, 2 cores, AVX512"], True),
        (["CPU, 2 cores, AVX2", "CPU, 2 cores, AVX512"], False),
    ],
)
def test_times_of_one_kind_of_device_are_compared(devices, is_comparable):
    titles = [title for title, *_ in lengths(Namespace(devices=devices))]
    assert titles == ["numbers of updates", *["time of training"] * is_comparable]


def test_a_draw_of_trials(start, benchmark):
    text = FILE.replace("{updates: [0.25, 0.5, 1], keep: 0.5,", "{sample: 2,")
    (benchmark / "words.yaml").write_text(text)
    printed = start("--systems", "a", "--seeds", 1, "--dry-run")[1]
    tried = [line for line in printed.splitlines() if "fairseq-train" in line and "trial" in line]
    assert len(tried) == 2 * 2
    assert printed == start("--systems", "a", "--seeds", 1, "--dry-run")[1]
    # More than there are, all are tried.
    (benchmark / "words.yaml").write_text(text.replace("sample: 2,", "sample: 5000,"))
    printed = start("--systems", "a", "--seeds", 1, "--dry-run")[1]
    assert printed.count("fairseq-train") == 4 * 2 + 3


def test_results_of_another_metric_are_refused(start, benchmark):
    text = FILE.replace("metric: wer\n", "")
    (benchmark / "words.yaml").write_text(text)
    assert start("--systems", "b", "--seeds", 1)[0] == 0
    (benchmark / "words.yaml").write_text(FILE)
    for more in (["--report"], ["--seeds", 1]):
        with pytest.raises(UserError, match=r"result\.json has no wer of valid, .* another metric"):
            start("--systems", "b", *more)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("sets: [one, two, three]", "sets: [one, two, one]", r"data\.sets has 'one' 2 times"),
        ("text/{set}", "text", r"data has sets, but no '\{set\}' in text"),
        (", sets: [one, two, three]", "", r"data has no sets, but '\{set\}' in text"),
        (
            "sets: [one, three]",
            "sets: [one, tree]",
            r"tuning\.sets has 'tree', which is not a d",
        ),
        ("b: 3}", "b: 4}", r"systems\.both\.ensemble has 'b', which has no run with the seed 4"),
        ("b: 3}", "c: 3}", r"ensemble has 'c', which is not a system that is trained; choose a, b"),
        ("b: 3}", "both: 1}", r"ensemble has 'both', which is not a system that is trained"),
        ("updates: 16", "updates: 1.5", r"systems\.a\.trials has updates 1\.5: it must be an int"),
        ("[0.25, 0.5, 1]", "[0.5, 0.25]", r"tuning\.updates is .*or a list of shares that incr"),
        ("metric: wer", "metric: ter", r"metric is 'ter': it must be bleu or wer"),
        ("    ensemble:", "    seeds: [1]\n    ensemble:", r"with ensemble, has an unknown key 's"),
        ("data: {", "data: {download: 'http://x/{name}.{language}', ", "both sets and download"),
    ],
)
def test_errors(start, benchmark, old, new, message):
    assert old in FILE
    (benchmark / "words.yaml").write_text(FILE.replace(old, new))
    with pytest.raises(UserError, match=message):
        start("--dry-run")


def test_a_folder_for_all_data_sets_is_refused(start, benchmark):
    with pytest.raises(UserError, match=r"data has sets, but no '\{set\}' in text"):
        start("--text", "text/one")


def test_a_smoke_run(start, benchmark):
    code, printed = start("--smoke")
    assert code == 0 and "both" in printed and "data set" not in printed


def test_trials_that_are_chosen_from_means(start, benchmark):
    text = FILE.replace("seed: 3,", "seed: 3, sampler: tpe, sample: 6,")
    text = text.replace("[0.25, 0.5, 1]", "0.25")
    listed = "trials: [{lr: 4}, {lr: 3, updates: 16}, {lr: 5}, {lr: 6}]"
    assert listed in text
    (benchmark / "words.yaml").write_text(text.replace(listed, "trials: {lr: {from: 1, to: 9}}"))
    assert start("--systems", "a", "--seeds", 3)[0] == 0
    found = results(benchmark)
    tried = [
        [found[f"{name}/a.trial{number}"]["trial_options"]["lr"] for number in range(1, 7)]
        for name in ("one", "three")
    ]
    assert tried[0] == tried[1] and len(set(tried[0])) == 6
    assert {found[f"{name}/a.3"]["options"]["lr"] for name in ("one", "two", "three")} == {
        min(tried[0])
    }
