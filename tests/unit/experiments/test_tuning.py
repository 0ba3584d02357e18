"""Trials, rounds of them and search options, with programs that take the place of fairseq's."""

import re
import shutil

import pytest

from convs2s.common.errors import UserError

from .words import change, commands, results


def test_the_best_trials_are_trained_in_full(start, folder):
    change(folder, "updates: 0.5,", "updates: [0.5, 1], keep: 0.6,")
    change(folder, "lr: [4, 3]", "lr: [4, 3, 5]")
    code, printed = start("--systems", "a", "d", "--seeds", 3, 2)
    assert code == 0
    found = results(folder)
    trials = [f"a.trial{number}" for number in range(1, 6)]
    assert sorted(found) == ["a.2", "a.3", *trials, "d.2", "d.3"]
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
    minutes = [found[name]["train_minutes"] for name in ("a.3", "d.3", "a.trial4")]
    assert minutes == minutes[:1] * 3
    assert "test_1" in found["a.3"]["splits"]
    rows = [line for line in printed.splitlines() if re.match(r"\| [1-5] ", line)]
    assert [row.split("|")[-2].strip() for row in rows] == ["", "", "", "yes", ""]
    # A dry run makes no link to the model of a trial.
    shutil.rmtree(runs / "a.3")
    code, printed = start("--systems", "a", "--seeds", 3, "--dry-run")
    assert code == 0 and "--gen-subset valid" in printed and "fairseq-train" not in printed
    assert not (runs / "a.3").exists()


def test_a_second_round_of_a_dry_run(start, folder):
    change(folder, "updates: 0.5,", "updates: [0.5, 1], keep: 0.5,")
    code, printed = start("--systems", "a", "--dry-run")
    assert code == 0 and "# with the options of the trial of rank 1" in printed
    assert printed.count("# with the options of the best trial") == 2


def test_trials_that_diverge(start, folder):
    change(folder, "lr: [4, 3]", "lr: [777, 4]")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 0 and "a.trial1 diverged" in printed
    found = results(folder)
    assert found["a.2"]["options"]["lr"] == 4 and found["a.trial1"]["splits"] == {}
    assert re.search(r"\| 1 .*\| +diverged \|", printed)
    before = commands(folder)
    assert start("--systems", "a", "--seeds", 2)[0] == 0 and commands(folder) == before


@pytest.mark.parametrize("kept", [False, True])
def test_the_checkpoints_of_a_trial_that_diverged(start, folder, kept):
    change(folder, "lr: [4, 3]", "lr: [777, 4]")
    start("--systems", "a", "--seeds", 2, *(["--keep-checkpoints"] if kept else []))
    assert (folder / "words_out/runs/a.trial1/checkpoints/crash.pt").exists() == kept


def test_all_trials_diverge(start, folder):
    change(folder, "lr: [4, 3]", "lr: [777]")
    change(folder, "updates: 0.5,", "updates: [0.5, 1], keep: 0.5,")
    code, printed = start("--systems", "a", "b, c", "--seeds", 2)
    assert code == 1 and "a.2 failed: All trials of a diverged" in printed
    assert "b_c.2" in results(folder)


def test_fewer_trials_are_left_than_the_next_round_takes(start, folder):
    change(folder, "updates: 0.5,", "updates: [0.5, 1], keep: 0.6,")
    change(folder, "lr: [4, 3]", "lr: [4, 777]")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 0
    found = results(folder)
    assert [found[f"a.trial{number}"].get("diverged", False) for number in range(1, 5)] == [
        False,
        True,
        False,
        True,
    ]
    assert found["a.2"]["options"]["lr"] == 4


def test_an_earlier_divergence_does_not_explain_another_failure(start, folder):
    change(folder, "lr: [4, 3]", "lr: [666, 3]")
    log = folder / "words_out/runs/a.trial1/train.log"
    log.parent.mkdir(parents=True)
    log.write_text("FloatingPointError: gradients are Nan/Inf\n")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 1 and "a.trial1 failed: the reason (fairseq-train failed" in printed


def test_a_trial_that_comes_later_and_is_better(start, folder):
    change(folder, "lr: [4, 3]", "lr: [4]")
    assert start("--systems", "a", "--seeds", 2)[0] == 0
    change(folder, "lr: [4]", "lr: [4, 3]")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 1
    assert "The run a.2 was made with train.lr 4" in printed
    assert "Failed: a.2." in printed
    # The same again, and the old run is in no table.
    code, printed = start("--systems", "d", "--seeds", 2)
    assert code == 1 and "d.2 was not started" in printed
    for text in (printed, start("--report")[1]):
        row = next(line for line in text.splitlines() if line.startswith("| a "))
        assert row.split("|")[-2].strip() == "0"


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
    change(folder, "{beam: 4}", "{beam: 3}")
    change(folder, ", {unnormalized: true}, ", ", ")
    for name in ("a.1", "a.2", "b_c.1", "b_c.2"):
        # Until the last one, a table would have a result with the other list.
        with pytest.raises(UserError, match="was made with searches"):
            start("--systems", "a", "--seeds", 1)
        for path in (folder / "words_out/runs" / name).iterdir():
            if path.name not in ("average.pt", "training.json"):
                path.unlink()
    code, _ = start("--systems", "a", "--seeds", 1)
    assert code == 0
    again = results(folder)["a.1"]
    assert again["searches"] == [{"options": {}, "bleu": 10}, {"options": {"beam": 3}, "bleu": 10}]
    assert again["splits"]["test_1"]["bleu"] == 10
    same = ("parameters_without_embeddings", "cpu_minutes", "valid_loss")
    assert [again[name] for name in same] == [found["a.1"][name] for name in same]
    assert not any("fairseq-train" in line for line in commands(folder)[before:])
