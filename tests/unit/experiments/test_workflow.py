"""The whole experiment with programs that take the place of fairseq's (see fake_programs.py)."""

import json
import os
import re
import signal
import threading
import time

import pytest

from convs2s.common import locks, programs
from convs2s.common.energy import EnergyMeter
from convs2s.common.errors import UserError
from convs2s.experiments import run, workflow

from .words import ALL, change, commands, results


def test_from_text_to_tables(start, folder):
    code, printed = start("--jobs", 2)
    assert code == 0 and "| B " in printed
    out = folder / "words_out"
    found = results(folder)
    assert sorted(found) == sorted(ALL)
    # A training of 8 updates ends with an epoch, one of 5 does not.
    assert (out / "runs/a.1/average.pt").read_text() == "checkpoint3.pt checkpoint_last.pt"
    assert (out / "runs/b_c.1/average.pt").read_text() == "checkpoint_last.pt"
    assert not (out / "runs/a.1/checkpoints").exists()
    # Both trials have the same BLEU; the second one has the lower loss.
    assert found["a.1"]["options"]["lr"] == 3 and found["a.1"]["valid_loss"] == 3
    assert found["a.1"]["options"]["total-num-update"] == "8"
    assert "fp16" not in found["a.1"]["options"] and found["b_c.1"]["options"]["fp16"] is True
    trial = found["a.trial2"]
    assert (trial["updates"], trial["seed"], list(trial["splits"])) == (4, 3, ["valid"])
    assert found["d.2"]["splits"]["test_1"]["bleu"] == 11
    assert found["a.2"]["splits"]["test_1"]["bleu"] == 10
    assert found["d.2"]["parameters_without_embeddings"] == 700
    assert found["a.1"]["tokens_per_second"] == 450
    assert found["a.1"]["sentences_per_second"] == 30
    hypotheses = (out / "runs/a.1/test_2.hyp").read_text().splitlines()
    assert hypotheses == ["this is sentence 0 in de .", "", "this is sentence 2 in de ."]
    assert (out / "references/test_2").read_text() == (folder / "text/test_2.tok.en").read_text()
    trained = [line for line in commands(folder) if "fairseq-train" in line]
    assert len(trained) == 6 and "--seed 3" in trained[0] and "--task convs2s" in trained[0]

    # Nothing is repeated.
    before = commands(folder)
    code, printed = start()
    assert code == 0 and "8 of 8 runs were finished before." in printed
    code, reported = start("--report")
    assert reported in printed and commands(folder) == before

    # Changed options are refused before anything starts.
    change(folder, "arch: other", "arch: another")
    with pytest.raises(UserError, match=r"b_c\.1 was made with train\.arch other"):
        start()
    change(folder, "arch: another", "arch: other")
    change(folder, "bpe_merges: 20", "bpe_merges: 30")
    with pytest.raises(UserError, match=r"made with data\.bpe_merges 20"):
        start()
    assert commands(folder) == before


def test_a_smoke_run_needs_no_text_and_has_tiny_models(start, folder):
    change(folder, "{arch: other}", "{arch: other}\n    smoke: {train: {width: 3}}")
    change(
        folder,
        "average: 2",
        "average: 2\nsmoke: {train: {width: 2, fp16: null}, generate: {beam: 1}}",
    )
    (folder / "text" / "train.lc.de.gz").unlink()
    code, printed = start("--smoke")
    assert code == 0 and "generated text, tiny models" in printed
    out = folder / "words_smoke"
    paths = (out / "runs").glob("*/result.json")
    found = {path.parent.name: json.loads(path.read_text()) for path in paths}
    assert sorted(found) == [name for name in sorted(ALL) if not name.endswith(".2")]
    assert {result["updates"] for result in found.values()} == {2}
    assert found["a.1"]["options"]["width"] == 2 and found["b_c.1"]["options"]["width"] == 3
    assert "fp16" not in found["b_c.1"]["options"]
    assert found["d.1"]["generate"]["beam"] == 1 and found["d.1"]["generate"]["unnormalized"]
    assert len((out / "data/text/train.de").read_text().splitlines()) == 60


def test_a_failure_loses_no_other_run(start, folder):
    change(folder, "{arch: other}", "{arch: other, lr: 666}")
    change(folder, "runs_of: a", 'runs_of: "b, c"')
    code, printed = start("--jobs", 2, "--seeds", 5)
    assert code == 1
    failed = "b_c.5 failed: the reason (fairseq-train failed with exit code 1; its log is "
    assert printed.count(failed) == 2 and "b_c.5/train.log)\n  | num. shared" in printed
    assert "d.5 was not started: it needs" in printed
    assert sorted(results(folder)) == ["a.5", "a.trial1", "a.trial2"]
    # It never trained, so its options can be corrected.
    change(folder, ", lr: 666", "")
    assert start("--seeds", 5, "--dry-run")[0] == 0
    log = folder / "words_out/runs/b_c.5/train.log"
    assert "the reason" in log.read_text()
    assert start("--seeds", 5)[0] == 0 and "the reason" not in log.read_text()
    assert {"b_c.5", "d.5"} < results(folder).keys()


def test_a_run_that_has_trained_keeps_its_options(start, folder):
    """Its last checkpoint is there, and the run has failed later."""
    (folder / "bin/fairseq-generate").write_text("#!/bin/sh\nexit 3\n")
    assert start("--systems", "b, c", "--seeds", 1)[0] == 1
    change(folder, "{arch: other}", "{arch: other, dropout: 0.1}")
    with pytest.raises(UserError, match=r"b_c\.1 was made with train\.dropout unset"):
        start("--systems", "b, c", "--seeds", 1)
    (folder / "words_out/runs/b_c.1/average.pt").unlink()
    with pytest.raises(UserError, match=r"b_c\.1 was made with train\.dropout unset"):
        start("--systems", "b, c", "--seeds", 1)


def test_the_report_has_the_systems_that_were_asked_for(start, folder):

    def rows(printed):
        """The first words in the rows of both tables."""
        return re.findall(r"^\| ([a-zB]) ", printed, re.MULTILINE)

    code, printed = start("--systems", "b, c", "--seeds", 1)
    assert code == 0 and rows(printed) == ["B"] * 2 and "Unfinished" not in printed
    # The baseline has no results.
    assert "Difference" not in printed
    printed = start("--systems", "d", "--report")[1]
    assert rows(printed) == ["d"] * 2 and "Unfinished: d.1, d.2." in printed
    # A run keeps the others that were finished.
    printed = start("--systems", "d", "--seeds", 1)[1]
    assert rows(printed)[:3] == ["a", "B", "d"] and "Unfinished" not in printed
    printed = start("--report")[1]
    assert "Unfinished: a.2, b_c.2, d.2." in printed.replace("\\", "")


def test_no_table_has_results_of_other_settings(start, folder):
    assert start("--systems", "b, c", "d", "--seeds", 1)[0] == 0
    change(folder, "arch: other", "arch: another")
    before = commands(folder)
    for more in (["--report"], ["--systems", "a"], ["--run", "a.2", "--systems", "a"]):
        with pytest.raises(UserError, match=r"b_c\.1 was made with train\.arch other"):
            start(*more)
    # These have no line for it.
    assert start("--report", "--systems", "a")[0] == 0 and commands(folder) == before


def test_options_are_checked_before_anything_starts(start, folder, monkeypatch):
    checked = []

    def refuse(experiment, runs, data, smoke):
        checked.append((sorted(run.name for run in runs), data[""].bin, smoke))
        raise UserError("wrong options:\n  systems.a.train: no")

    monkeypatch.setattr(workflow, "check_options", refuse)
    for more in ([], ["--dry-run"]):
        with pytest.raises(UserError, match=r"words.yaml: wrong options:\n  systems.a.train: no"):
            start("--systems", "a", *more)
    with pytest.raises(UserError):
        start("--systems", "b, c", "--smoke")
    out = folder / "words_out"
    bin = out / "data/data-bin"
    assert checked[:2] == [(["a.1", "a.2", "a.trial1", "a.trial2"], bin, False)] * 2
    assert checked[2][0] == ["b_c.1"] and checked[2][2] is True
    assert not (out / "runs").exists() and not (out / "data").exists()


def test_options_are_not_checked_without_fairseq(start, folder, monkeypatch):
    monkeypatch.setattr(workflow, "missing_fairseq", lambda: "fairseq is missing")
    unchecked = "# The options are not checked, because fairseq is not installed.\n"
    assert unchecked in start("--dry-run")[1]
    # It may be there all the same, in another environment.
    assert unchecked in start("--systems", "b, c")[1]
    assert unchecked not in start("--systems", "b, c")[1]
    (folder / "bin/fairseq-train").unlink()
    monkeypatch.setattr(programs, "MODULES", {})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="no program fairseq-train: run `pip install"):
        start("--systems", "a")


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_last_runs_need_one_that_failed(start, folder, jobs):
    change(folder, "lr: [4, 3]", "lr: [666, 3]")
    code, printed = start("--systems", "d", "--seeds", 2, "--jobs", jobs)
    assert code == 1 and sorted(results(folder)) == ["a.trial2"]
    for name in ("a.2", "d.2"):
        assert f"{name} was not started: it needs" in printed


def test_other_seeds_stay_in_the_tables(start, folder):
    start("--systems", "b, c", "--seeds", 1)
    code, printed = start("--systems", "b, c", "--seeds", 7)
    assert code == 0 and sorted(results(folder)) == ["b_c.1", "b_c.7"]
    assert re.search(r"\| B .* 2 \|", printed)
    assert "The text of an earlier run is used; test sets: test_1, test_2." in printed


def test_programs_end_with_an_error_in_the_report(start, folder, monkeypatch):
    (folder / "wait").touch()
    monkeypatch.setattr(workflow.Progress, "draw", lambda _: next(iter(())))
    with pytest.raises(StopIteration):
        start("--systems", "b, c")
    # A training that still ran would wait, and hold the lock.
    with locks.shared_lock(str(folder / "words_out/locks/runs/b_c.1"), "The run"):
        assert not results(folder)


def test_a_stopped_training_resumes(start, folder):
    """SIGTERM ends all programs; the same command goes on from the last checkpoint."""
    log = folder / "words_out/runs/b_c.1/train.log"
    (folder / "wait").touch()

    def interrupt():
        while not (log.exists() and "valid" in log.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, _ = start("--systems", "b, c", "--jobs", 2)
    thread.join()
    assert code == workflow.INTERRUPTED and not results(folder)
    (folder / "wait").unlink()
    assert start("--systems", "b, c")[0] == 0
    text = log.read_text()
    assert text.count("Loaded checkpoint") == 1 and "@ 2 updates" in text
    updates = re.findall(r'"num_updates": "(\d)"', text)
    assert updates == ["1", "2", "3", "4", "5"]
    assert results(folder)["b_c.1"]["train_minutes"] > 0


def test_dry_run_writes_nothing(start, folder):
    code, printed = start("--dry-run", "--speed")
    assert code == 0 and not (folder / "words_out").exists()
    assert printed.count("fairseq-train") == 6 + 3 * 2
    assert "# makes words_out/data with text, sub-words and binarized data" in printed
    assert "# with the options of the best trial" in printed
    assert "--inputs words_out/runs/a.1/checkpoints/checkpoint<NUMBER>.pt" in printed.replace(
        "'", ""
    )


def test_speed(start, folder):
    (folder / "words_out").mkdir()
    (folder / "words_out/speed.json").write_text('{"old": {}, "a": {}}')
    code, printed = start("--speed", "--seeds", 1)
    assert code == 0
    speeds = json.loads((folder / "words_out/speed.json").read_text())
    assert speeds["b, c"]["sentences_per_second"] == {"median": 30, "min": 30, "max": 30}
    assert speeds["a"]["tokens_per_second"]["median"] == 2100
    assert list(speeds["d"]) == ["sentences_per_second"] and speeds["old"] == {}
    # Without its model, a system is not measured.
    (folder / "words_out/runs/b_c.1/average.pt").unlink()
    code, printed = start("--speed", "--seeds", 1)
    assert code == 0 and "Speed of a," in printed and "Speed of b, c," not in printed


def test_a_measurement_that_fails_loses_no_report(start, folder):
    start("--systems", "b, c", "--seeds", 1)
    (folder / "bin/fairseq-generate").write_text("#!/bin/sh\nexit 3\n")
    code, printed = start("--systems", "b, c", "--seeds", 1, "--speed")
    assert code == 1 and "| B " in printed
    assert not (folder / "words_out/speed.json").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--jobs", 0], "--jobs is 0"),
        (["--bpe-merges", -1], "--bpe-merges is -1"),
        (
            ["--bpe-merges", 7, "--data-bin", "bin"],
            "--bpe-merges cannot change binarized data, bin",
        ),
        (["--seeds", 1, 1], "--seeds is 1 1: give different integers"),
        (["--systems", "z"], "--systems has 'z'"),
        (["--report"], "has no results of an experiment"),
        (["--text", "nowhere"], "There is no folder nowhere"),
        (["--source", "fr"], "one file of train in fr"),
        (["--download"], "--download needs an address"),
    ],
)
def test_wrong_arguments(start, arguments, message):
    with pytest.raises(UserError, match=message):
        start(*arguments)


@pytest.mark.parametrize("readable", [False, True])
def test_the_energy_of_a_training(start, folder, monkeypatch, readable):
    counter = folder / "counters/intel-rapl:0/energy_uj"
    counter.parent.mkdir(parents=True)
    counter.write_text("1" if readable else "")
    monkeypatch.setattr(run, "EnergyMeter", lambda: EnergyMeter(folder / "counters"))
    assert start("--systems", "b, c", "--seeds", 1)[0] == 0
    training = json.loads((folder / "words_out/runs/b_c.1/training.json").read_text())
    assert training.get("energy_wh") == (0 if readable else None)
    head = (folder / "words_out/runs.csv").read_text().splitlines()[0].split(",")
    assert ("energy_wh" in head) == readable


COMET = """
import json, sys
arguments = dict(zip(sys.argv[1:], sys.argv[2:]))
texts = [[line.strip() for line in open(arguments[name])] for name in ("-s", "-t", "-r")]
# The translations of the fakes are the source, or missing.
scores = [{"COMET": 0.75 if found == source else 0.0} for source, found, right in zip(*texts)]
json.dump({"t": scores}, open(arguments["--to_json"], "w"))
"""


def test_comet_is_a_column_of_the_tables(start, folder):
    (folder / "wmt/checkpoints").mkdir(parents=True)
    for name in ("hparams.yaml", "checkpoints/model.ckpt"):
        (folder / "wmt" / name).touch()
    options = ("--systems", "a", "--seeds", 2, "--comet", "wmt/checkpoints/model.ckpt")
    with pytest.raises(UserError, match="--comet needs the program comet-score"):
        start(*options)
    program = folder / "bin/comet-score"
    first_line = (folder / "bin/convs2s").read_text().splitlines()[0]
    program.write_text(f"{first_line}\n{COMET}")
    program.chmod(0o755)
    code, printed = start(*options)
    assert code == 0 and "COMET test_1" in printed and "COMET: `comet-score, wmt`." in printed
    assert "test_1.comet.mean" in (folder / "words_out/table.csv").read_text()
    splits = results(folder)["a.2"]["splits"]
    assert [splits[split]["comet"] for split in ("valid", "test_1")] == [50, 50]
    assert "comet" not in results(folder)["a.trial1"]["splits"]["valid"]
    # A later option is for finished runs whose result is removed.
    (folder / "words_out/runs/a.2/result.json").unlink()
    before = commands(folder)
    assert "COMET" not in start(*options[:-2])[1] and commands(folder) == before
