"""The whole experiment with programs that take the place of fairseq's (see fake_programs.py)."""

import gzip
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from convs2s_plugin.cli import experiment as command
from convs2s_plugin.errors import UserError
from convs2s_plugin.experiments import collect, workflow
from convs2s_plugin.experiments.machine import Machine

FILE = """
data: {source: de, target: en, text: text, bpe_merges: 20}
train: {task: convs2s_translation, lr: 2, total-num-update: "{updates}", fp16: true}
average: 2
seeds: [1, 2]
baseline: a
tuning: {updates: 0.5, seed: 3}
systems:
  a:
    updates: 8
    train: {arch: some, fp16: false}
    trials: {lr: [4, 3], dropout: [0.1]}
  "b, c":
    title: B
    updates: 5
    average: 1
    train: {arch: other}
  d:
    runs_of: a
    generate: {unnormalized: true}
"""
ALL = ["a.trial1", "a.trial2", "a.1", "a.2", "b_c.1", "b_c.2", "d.1", "d.2"]


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    """The programs next to the interpreter are fakes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = Path(__file__).with_name("fake_programs.py").read_text(encoding="utf-8")
    for name in "fairseq-train fairseq-generate fairseq-preprocess subword-nmt convs2s".split():
        (folder / name).write_text(f"#!{sys.executable} -IS\n{fake}", encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(collect, "vocabulary_parameters", vocabulary_parameters)
    monkeypatch.setattr(
        workflow, "find_machine", lambda jobs: Machine("no device", ("--cpu",), ({},) * jobs)
    )


def vocabulary_parameters(checkpoint):
    """The parameters of the vocabulary in a checkpoint of the fakes."""
    assert checkpoint.exists()
    return 300


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with an experiment and text."""
    text = tmp_path / "text"
    text.mkdir()
    for language in ("de", "en"):
        lines = [f"this is sentence {number} in {language} .\n" for number in range(3)]
        for name in ("train", "val", "test_1", "test_2.tok"):
            (text / f"{name}.{language}").write_text("".join(lines))
        (text / f"train.{language}").unlink()
        (text / f"train.lc.{language}.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (tmp_path / "words.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder, capsys):
    """Runs the command and returns its exit code and standard output."""

    def start(*arguments):
        parser = command.argparse.ArgumentParser()
        command.add_arguments(parser)
        code = command.run(parser.parse_args(["words.yaml", *map(str, arguments)]))
        return code, capsys.readouterr().out

    return start


def change(folder, old, new):
    """Change the experiment."""
    text = (folder / "words.yaml").read_text()
    assert old in text
    (folder / "words.yaml").write_text(text.replace(old, new))


def results(folder):
    """The results by the name of the run."""
    found = (folder / "words_out" / "runs").glob("*/result.json")
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def commands(folder):
    """The commands that were started."""
    lines = (folder / "words_out" / "commands.log").read_text().splitlines()
    return [line for line in lines if not line.startswith("# ")]


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
    with pytest.raises(UserError, match=r"b_c\.1 was made with train\.arch other, but now it is"):
        start()
    change(folder, "arch: another", "arch: other")
    change(folder, "bpe_merges: 20", "bpe_merges: 30")
    with pytest.raises(UserError, match=r"was made with data\.bpe_merges 20, but now it is 30"):
        start()
    assert commands(folder) == before


def test_the_best_trials_are_trained_in_full(start, folder):
    change(folder, "seed: 3}", "seed: 3, finalists: 2}")
    change(folder, "lr: [4, 3]", "lr: [4, 3, 5]")
    code, printed = start("--systems", "a", "--seeds", 3, 2)
    assert code == 0
    found = results(folder)
    assert sorted(found) == ["a.2", "a.3", *(f"a.trial{number}" for number in range(1, 6))]
    first, second = found["a.trial4"], found["a.trial5"]
    assert [each["trial_options"]["lr"] for each in (first, second)] == [3, 4]
    assert [each["updates"] for each in (first, second)] == [8, 8]
    assert list(first["splits"]) == ["valid"]
    assert found["a.3"]["options"]["lr"] == found["a.2"]["options"]["lr"] == 3
    # The run with the seed of the trials is the winner, which is not trained again.
    trained = [line for line in commands(folder) if "fairseq-train" in line]
    assert len(trained) == 3 + 2 + 1 and "/a.3/" not in " ".join(trained)
    runs = folder / "words_out" / "runs"
    assert (runs / "a.3/average.pt").read_text() == (runs / "a.trial4/average.pt").read_text()
    assert found["a.3"]["train_minutes"] == first["train_minutes"]
    assert "test_1" in found["a.3"]["splits"]
    rows = [line for line in printed.splitlines() if re.match(r"\| [1-5] ", line)]
    assert [row.split("|")[-2].strip() for row in rows] == ["", "", "", "yes", ""]


def test_finalists_of_a_dry_run(start, folder):
    change(folder, "seed: 3}", "seed: 3, finalists: 1}")
    code, printed = start("--systems", "a", "--dry-run")
    assert code == 0 and "# with the options of the trial of rank 1" in printed
    assert printed.count("# with the options of the best trial") == 2


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
    assert "b_c.5 failed: fairseq-train failed with exit code 1" in printed
    assert "the reason" in printed and "b_c.5/train.log" in printed
    assert "d.5 was not started: it needs a run that failed." in printed
    assert sorted(results(folder)) == ["a.5", "a.trial1", "a.trial2"]
    change(folder, ", lr: 666", "")
    with pytest.raises(UserError, match=r"b_c\.5 was made with train\.lr 666, but now it is 2"):
        start("--seeds", 5)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_last_runs_need_one_that_failed(start, folder, jobs):
    change(folder, "lr: [4, 3]", "lr: [666, 3]")
    code, printed = start("--systems", "d", "--seeds", 2, "--jobs", jobs)
    assert code == 1 and sorted(results(folder)) == ["a.trial2"]
    for name in ("a.2", "d.2"):
        assert f"{name} was not started: it needs a run that failed." in printed


def test_trials_that_diverge(start, folder):
    change(folder, "lr: [4, 3]", "lr: [777, 4]")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 0 and "a.trial1 diverged" in printed
    found = results(folder)
    assert found["a.2"]["options"]["lr"] == 4 and found["a.trial1"]["splits"] == {}
    assert re.search(r"\| 1 .*\| +diverged \|", printed)
    before = commands(folder)
    assert start("--systems", "a", "--seeds", 2)[0] == 0 and commands(folder) == before

    assert not (folder / "words_out/runs/a.trial1/checkpoints").exists()


def test_all_trials_diverge(start, folder):
    change(folder, "lr: [4, 3]", "lr: [777]")
    change(folder, "seed: 3}", "seed: 3, finalists: 1}")
    code, printed = start("--systems", "a", "b, c", "--seeds", 2)
    assert code == 1 and "a.2 failed: All trials of a diverged" in printed
    assert "b_c.2" in results(folder)


def test_fewer_trials_than_finalists_are_left(start, folder):
    change(folder, "seed: 3}", "seed: 3, finalists: 2}")
    change(folder, "lr: [4, 3]", "lr: [4, 777]")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 0
    found = results(folder)
    assert [found[f"a.trial{number}"].get("diverged", False) for number in range(1, 5)] == [
        *(False, True, False, True)
    ]
    assert found["a.2"]["options"]["lr"] == 4


def test_an_earlier_divergence_does_not_explain_another_failure(start, folder):
    change(folder, "lr: [4, 3]", "lr: [666, 3]")
    log = folder / "words_out/runs/a.trial1/train.log"
    log.parent.mkdir(parents=True)
    log.write_text("FloatingPointError: gradients are Nan/Inf\n")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 1 and "a.trial1 failed: fairseq-train failed with exit code 1" in printed


def test_a_trial_that_comes_later_and_is_better(start, folder):
    change(folder, "lr: [4, 3]", "lr: [4]")
    assert start("--systems", "a", "--seeds", 2)[0] == 0
    change(folder, "lr: [4]", "lr: [4, 3]")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 1
    assert "a.2 failed: The run a.2 was made with train.lr 4, but now it is 3" in printed
    assert "Failed: a.2." in printed
    # The same again, and the old run is in no table.
    code, printed = start("--systems", "d", "--seeds", 2)
    assert code == 1 and "d.2 was not started" in printed
    for text in (printed, start("--report")[1]):
        row = next(line for line in text.splitlines() if line.startswith("| a "))
        assert row.split("|")[-2].strip() == "0"


def test_other_seeds_stay_in_the_tables(start, folder):
    start("--systems", "b, c", "--seeds", 1)
    code, printed = start("--systems", "b, c", "--seeds", 7)
    assert code == 0 and sorted(results(folder)) == ["b_c.1", "b_c.7"]
    assert re.search(r"\| B .* 2 \|", printed)
    assert "The text of an earlier start is used; test sets: test_1, test_2." in printed


def test_programs_end_with_an_error_in_the_report(start, folder, monkeypatch):
    (folder / "wait").touch()
    monkeypatch.setattr(workflow.Progress, "draw", lambda _: next(iter(())))
    with pytest.raises(StopIteration):
        start("--systems", "b, c")
    (folder / "wait").unlink()
    monkeypatch.undo()
    with workflow.locked(folder / "words_out"):
        pass


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


def test_average_of_checkpoints_within_epochs(start, folder):
    change(folder, "average: 2", "average: {checkpoints: 3, every: 0.25}")
    start("--systems", "a", "--seeds", 1)
    average = folder / "words_out/runs/a.1/average.pt"
    # After 4 updates, the interval ends with an epoch.
    assert average.read_text() == "checkpoint2.pt checkpoint_1_6.pt checkpoint_last.pt"
    (training,) = [line for line in commands(folder) if "--max-update 8" in line]
    assert "--save-interval-updates 2 --keep-interval-updates 3 --keep-last-epochs 3" in training


def test_search_options_are_chosen_on_the_validation_set(start, folder):
    change(
        folder, "seeds: [1, 2]", "seeds: [1, 2]\nsearches: [{}, {unnormalized: true}, {beam: 3}]"
    )
    change(folder, "    generate: {unnormalized: true}", "    searches: []")
    code, printed = start("--speed")
    assert code == 0
    found = results(folder)
    assert found["a.1"]["searches"] == [
        {"options": {}, "bleu": 10},
        {"options": {"unnormalized": True}, "bleu": 11},
        {"options": {"beam": 3}, "bleu": 10},
    ]
    # Trials and the system d have no choice.
    assert found["a.trial1"]["searches"] == [] and found["d.1"]["searches"] == []
    assert found["d.1"]["splits"]["test_1"]["bleu"] == 10
    assert found["a.1"]["generate"]["unnormalized"] is True
    assert found["a.1"]["splits"]["valid"]["bleu"] == found["a.1"]["splits"]["test_1"]["bleu"] == 11
    assert "| Seed | none | --unnormalized | --beam 3 | Chosen" in re.sub(" +", " ", printed)
    assert re.search(r"\| 2 *\| 10.00 *\| +11.00 *\| +10.00 *\| --unnormalized *\|", printed)
    searches = [
        line for line in commands(folder) if "--gen-subset valid" in line and "/b_c.1/" in line
    ]
    assert len(searches) == 3
    speeds = [line for line in commands(folder) if "speed/a.1" in line and "generate" in line]
    assert len(speeds) == 1 and "--unnormalized" in speeds[0]
    # Nothing is translated again, and a change is refused.
    before = len(commands(folder))
    start()
    assert len(commands(folder)) == before
    change(folder, "{beam: 3}", "{beam: 4}")
    with pytest.raises(UserError, match="searches"):
        start()
    # A trained model needs no checkpoints to choose from another list.
    folder_of_run = folder / "words_out/runs/a.1"
    for path in folder_of_run.iterdir():
        if path.name not in ("average.pt", "training.json"):
            path.unlink()
    change(folder, "{beam: 4}", "{beam: 3}")
    change(folder, ", {unnormalized: true}, ", ", ")
    code, _ = start("--systems", "a", "--seeds", 1)
    assert code == 0
    again = results(folder)["a.1"]
    assert again["searches"] == [{"options": {}, "bleu": 10}, {"options": {"beam": 3}, "bleu": 10}]
    assert again["splits"]["test_1"]["bleu"] == 10
    same = ("parameters_without_embeddings", "cpu_minutes", "valid_loss")
    assert [again[name] for name in same] == [found["a.1"][name] for name in same]
    assert not any("fairseq-train" in line for line in commands(folder)[before:])


def test_an_average_of_epochs_with_checkpoints_within_them(start, folder):
    change(folder, "fp16: true}", "fp16: true, save-interval-updates: 2}")
    start("--systems", "a", "--seeds", 1)
    average = folder / "words_out/runs/a.1/average.pt"
    assert average.read_text() == "checkpoint2.pt checkpoint_last.pt"
    (training,) = [line for line in commands(folder) if "--max-update 8" in line]
    assert "--keep-last-epochs 2 --keep-interval-updates 1" in training


def test_best_checkpoint_instead_of_an_average(start, folder):
    change(folder, "average: 2", "average: best")
    start("--systems", "a", "--seeds", 1)
    assert (folder / "words_out/runs/a.1/average.pt").read_text() == "checkpoint_best.pt"


def test_a_training_continues_that_of_another_system(start, folder):
    """Run 1 of e has no run of b with its seed; the trials of e continue it, too."""
    change(
        folder,
        "  d:\n",
        "  e: {updates: 4, continues: 'b, c', train: {arch: other},\n"
        "      seeds: [2, 5], trials: {lr: [3, 4]}}\n  d:\n",
    )
    code, _ = start("--systems", "e", "--jobs", 2)
    assert code == 0
    assert sorted(results(folder)) == ["b_c.1", "b_c.2", "e.2", "e.5", "e.trial1", "e.trial2"]
    begins = {}
    for line in commands(folder):
        if "fairseq-train" in line:
            words = line.split()
            name = Path(words[words.index("--save-dir") + 1]).parent.name
            given = "--finetune-from-model" in words
            begins[name] = words[words.index("--finetune-from-model") + 1] if given else None
    first, second = (f"words_out/runs/{name}/average.pt" for name in ("b_c.1", "b_c.2"))
    assert begins.pop("b_c.1") is None and begins.pop("b_c.2") is None
    assert begins == {"e.2": second, "e.5": first, "e.trial1": first, "e.trial2": first}
    code, printed = start("--systems", "e", "--dry-run")
    assert code == 0 and "fairseq-train" not in printed


def test_dry_run_writes_nothing(start, folder):
    code, printed = start("--dry-run", "--speed")
    assert code == 0 and not (folder / "words_out").exists()
    assert printed.count("fairseq-train") == 6 + 3 * 2
    assert "subword-nmt learn-bpe -s 20 < " in printed
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


def test_other_direction_and_few_updates(start, folder):
    code, printed = start("--source", "en", "--target", "de", "--limit-updates", 3, "--seeds", 1)
    assert code == 0 and "No run has more than 3 updates." in printed
    assert "in de" in (folder / "words_out/references/valid").read_text()
    assert results(folder)["a.1"]["options"]["total-num-update"] == "3"


def test_other_number_of_merges(start):
    assert "learn-bpe -s 7 < " in start("--bpe-merges", 7, "--dry-run")[1]
    assert "learn-bpe" not in start("--bpe-merges", 0, "--dry-run")[1]


def test_binarized_data(start, folder):
    data = folder / "bin-en"
    data.mkdir()
    for name in ("train.en-de.en.bin", "test.en-de.en.bin", "test1.en-de.en.bin"):
        (data / name).touch()
    for subset in ("valid", "test", "test1"):
        for side in ("source", "target"):
            (data / f"{subset}.{side}").write_text("one\ntwo\n")
    arguments = ("--data-bin", data, "--systems", "b, c", "--seeds", 1)
    with pytest.raises(UserError, match="has no training data from de to en; it has en-de"):
        start(*arguments)
    assert start(*arguments, "--source", "en", "--target", "de")[0] == 0
    assert list(results(folder)["b_c.1"]["splits"]) == ["valid", "test", "test1"]
    assert (folder / "words_out/references/test1").read_text() == "one\ntwo\n"
    with pytest.raises(UserError, match="was made with data.bin .*bin-en, but now it is None"):
        start("--source", "en", "--target", "de")


def test_download(start, folder):
    change(folder, "text: text", f'download: "file://{folder}/text/{{name}}.{{language}}"')
    for language in ("de", "en"):
        (folder / f"text/train.lc.{language}.gz").rename(folder / f"text/train.{language}")
        (folder / f"text/train.{language}").write_text("a\nb\n")
    change(folder, "data: {", "data: {download_names: {train: train, valid: val, test: test_1}, ")
    with pytest.raises(UserError, match="There is no text: give its folder with --text, or --down"):
        start()
    assert "apply-bpe" in start("--download", "--dry-run")[1]
    assert start("--download", "--systems", "b, c")[0] == 0
    assert list(results(folder)["b_c.1"]["splits"]) == ["valid", "test_1"]


def test_a_download_that_fails(start, folder):
    change(folder, "text: text", f'download: "file://{folder}/nowhere/{{name}}.{{language}}"')
    with pytest.raises(UserError, match=r"nowhere/train\S*\.de cannot be downloaded: No such file"):
        start("--download")
    assert not list((folder / "words_out/data/download").iterdir())


def test_two_experiments_in_one_folder(start, folder):
    out = folder / "words_out"
    out.mkdir()
    with workflow.locked(out), pytest.raises(UserError, match="Another `convs2s experiment`"):
        start()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--jobs", 0], "--jobs is 0: it must be at least 1"),
        (["--bpe-merges", -1], "--bpe-merges is -1: it must be at least 0"),
        (
            ["--bpe-merges", 7, "--data-bin", "bin"],
            "--bpe-merges cannot change binarized data, bin",
        ),
        (["--seeds", 1, 1], "--seeds is 1 1: give different integers"),
        (["--systems", "z"], "--systems has 'z', which is no system of words.yaml; choose a, b, c"),
        (["--report"], "has no results of an experiment"),
        (["--text", "nowhere"], "There is no folder nowhere"),
        (["--source", "fr"], "must have exactly one file of train in fr"),
        (["--download"], "--download needs an address"),
    ],
)
def test_wrong_arguments(start, arguments, message):
    with pytest.raises(UserError, match=message):
        start(*arguments)
