"""Trials from ranges, with programs that take the place of fairseq's: their loss is their lr."""

import random
import shutil

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments import trials
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.runs import all_runs
from convs2s.experiments.trials import FIRST_TRIALS, Adaptive, Range, Space

from .words import change, commands, results

GRID = "trials: {lr: [4, 3], dropout: [0.1]}"
RANGES = "trials: {lr: {from: 0.001, to: 0.1, log: true}, dropout: [0.1, 0.2]}"


@pytest.fixture
def adaptive(folder):
    """The experiment with ranges, of which eight trials are made."""
    change(folder, GRID, RANGES)
    change(folder, "updates: 0.5,", "updates: 0.5, sampler: tpe, sample: 8,")
    return folder


def options(folder):
    """The options of the trials in their order."""
    found = {run["trial"]: run["trial_options"] for run in results(folder).values() if run["trial"]}
    return [found[number] for number in sorted(found)]


def trained(folder):
    """The runs that were trained."""
    lines = (line for line in commands(folder) if "fairseq-train" in line)
    return [line.partition("--save-dir ")[2].split("/")[2] for line in lines]


def test_options_are_chosen_from_results(start, adaptive):
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 0
    space = Space.of({"lr": {"from": 0.001, "to": 0.1, "log": True}, "dropout": [0.1, 0.2]})
    found = options(adaptive)
    assert len(found) == 8 and all(map(space.has, found))
    assert tuple(found[:FIRST_TRIALS]) == space.draws(FIRST_TRIALS, 3)
    rates = [each["lr"] for each in found]
    best = results(adaptive)["a.2"]["options"]
    assert best["lr"] == min(rates)
    row = next(line for line in printed.splitlines() if line.endswith(" yes |"))
    assert str(min(rates)) in row


@pytest.mark.parametrize("parallel", [1, 2])
def test_the_number_of_jobs_changes_no_choice(start, adaptive, parallel):
    change(adaptive, "sample: 8,", f"sample: 8, parallel: {parallel},")
    found = []
    for jobs in (1, 3):
        assert start("--systems", "a", "--seeds", 2, "--jobs", jobs)[0] == 0
        found.append(options(adaptive))
        shutil.rmtree(adaptive / "words_out")
    assert found[0] == found[1]


def test_a_stopped_search_goes_on_as_it_would_have(start, adaptive):
    change(adaptive, "sample: 8,", "sample: 8, parallel: 2,")
    start("--systems", "a", "--seeds", 2)
    before, runs = options(adaptive), adaptive / "words_out/runs"
    # As if the command was killed while two trials ran, one of them with a checkpoint.
    for number in (7, 8):
        shutil.rmtree(runs / f"a.trial{number}")
    shutil.rmtree(runs / "a.2")
    (runs / "a.trial6/result.json").unlink()
    (adaptive / "words_out/commands.log").unlink()
    assert start("--systems", "a", "--seeds", 2)[0] == 0
    assert options(adaptive) == before
    assert trained(adaptive) == ["a.trial7", "a.trial8", "a.2"]


@pytest.mark.parametrize("parallel", [2, 3])
def test_trials_that_run_at_the_same_time_are_known(parallel, monkeypatch):
    """Each trial is chosen again before those after it; it must come out as it did."""
    space = Space.of({"lr": {"from": 0.001, "to": 0.1, "log": True}, "dropout": [0.1, 0.2]})
    search = Adaptive(space, number=12, seed=3, parallel=parallel)
    found = dict(enumerate(space.draws(FIRST_TRIALS, 3), 1))
    again = {}
    ask = Adaptive._ask

    def record(self, trial, *arguments):
        again[trial] = ask(self, trial, *arguments)
        return again[trial]

    monkeypatch.setattr(Adaptive, "_ask", record)
    for trial in range(FIRST_TRIALS + 1, 13):
        known = range(1, search.last_known(trial) + 1)
        done = [{"trial": number, "trial_options": found[number]} for number in known]
        diverged = [result for result in done if result["trial"] == 2]
        ranked = [result for result in done if result["trial"] != 2]
        ranked.sort(key=lambda result: result["trial_options"]["lr"])
        found[trial] = search.choose(trial, ranked, diverged)
        assert again == {number: found[number] for number in again}


def test_more_trials(start, adaptive):
    start("--systems", "a", "--seeds", 2)
    before = options(adaptive)
    (adaptive / "words_out/commands.log").unlink()
    change(adaptive, "sample: 8,", "sample: 9,")
    start("--systems", "a", "--seeds", 2)
    assert options(adaptive)[:8] == before and len(options(adaptive)) == 9
    assert trained(adaptive)[0] == "a.trial9"


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("from: 0.001", "from: 0.002", "trials.lr.from 0.001, but now it is 0.002"),
        ("[0.1, 0.2]", "[0.1, 0.3]", r"trials.dropout \[0.1, 0.2\], but now it is \[0.1, 0.3\]"),
        ("seed: 3", "seed: 4", "seed 3, but now it is 4"),
        ("log: true", "log: false", "trials.log.lr True, but now it is False"),
    ],
)
def test_other_ranges_are_refused(start, adaptive, old, new, message):
    start("--systems", "a", "--seeds", 2)
    change(adaptive, old, new)
    message = message.replace("log.lr", "lr.log")
    with pytest.raises(
        UserError, match=f"The run a.trial1 was made with {message}: choose another"
    ):
        start("--systems", "a", "--seeds", 2)


def test_rounds(start, adaptive):
    change(adaptive, "updates: 0.5,", "updates: [0.5, 1], keep: 0.3,")
    assert start("--systems", "a", "--seeds", 3)[0] == 0
    found = options(adaptive)
    assert len(found) == 8 + 3
    assert found[8:] == sorted(found[:8], key=lambda each: each["lr"])[:3]


def test_trials_that_diverge(start, adaptive):
    change(adaptive, "lr: {from: 0.001, to: 0.1, log: true}", "lr: [777, 4]")
    change(adaptive, "dropout: [0.1, 0.2]", "dropout: {from: 0.1, to: 0.5}")
    assert start("--systems", "a", "--seeds", 2)[0] == 0
    found = {run["trial"]: run for run in results(adaptive).values() if run["trial"]}
    assert {run["trial_options"]["lr"] for run in found.values() if run.get("diverged")} == {777}
    assert len(found) == 8


def test_a_trial_that_fails(start, adaptive):
    change(adaptive, "lr: {from: 0.001, to: 0.1, log: true}", "lr: [666, 4]")
    change(adaptive, "dropout: [0.1, 0.2]", "dropout: {from: 0.1, to: 0.5}")
    code, printed = start("--systems", "a", "--seeds", 2)
    assert code == 1 and "failed: the reason (fairseq-train failed" in printed
    assert "a.trial6 was not started: it needs a run that failed." in printed


def test_a_dry_run(start, adaptive):
    code, printed = start("--systems", "a", "--dry-run")
    assert code == 0
    text = "# a.trial6\n# with the options of a trial that is chosen from the results of others\n"
    assert text in printed and "# a.trial8\n" in printed


def test_optuna_is_not_installed(start, adaptive, monkeypatch):
    monkeypatch.setattr(trials, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r'needs Optuna: run `pip install "convs2s-plugin\[optuna\]"'
    ):
        start()
    for number in range(1, 5):
        start("--run", f"a.trial{number}")
    # As soon as the first five are done, the next ones are chosen.
    for more in (["--run", "a.trial5"], ["--list"], ["--run", "a.trial6"]):
        with pytest.raises(UserError, match="needs Optuna"):
            start(*more)
    # What is drawn needs no Optuna.
    change(adaptive, "sampler: tpe, ", "")
    assert start("--systems", "a", "--dry-run", "--out", "other")[0] == 0


@pytest.mark.parametrize("diverges", [False, True])
def test_choices_are_near_the_best(diverges):
    space = Space.of({"lr": {"from": 0.001, "to": 1, "log": True}, "dropout": [0.1, 0.2]})
    tried = [
        {"trial": number, "trial_options": each}
        for number, each in enumerate(space.draws(20, 1), start=1)
    ]
    best = [each for each in tried if each["trial_options"]["lr"] < 0.03]
    worst = [each for each in tried if each not in best]
    assert len(best) > 5 and len(worst) > 5
    results = (best, worst) if diverges else (best + worst, [])
    chosen = [Adaptive(space, 21, seed, 1).choose(21, *results)["lr"] for seed in range(20)]
    assert sum(rate < 0.03 for rate in chosen) > 15 and len(set(chosen)) > 15


def runs_of(folder):
    """The options of the trials that are known before the first run, and the number of others."""
    runs = [run for run in all_runs(read_experiment(folder / "words.yaml")) if run.trial]
    return [run.tried for run in runs if run.tried], sum(not run.tried for run in runs)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_few_combinations_are_all_tried(adaptive, sampler):
    change(adaptive, "sampler: tpe", f"sampler: {sampler}")
    change(adaptive, "lr: {from: 0.001, to: 0.1, log: true}", "lr: {from: 2, to: 5}")
    known, others = runs_of(adaptive)
    assert others == 0 and known == [
        {"lr": rate, "dropout": dropout} for rate in (2, 3, 4, 5) for dropout in (0.1, 0.2)
    ]


def test_draws_from_ranges(adaptive):
    change(adaptive, "sampler: tpe, sample: 8", "sample: 30")
    known, others = runs_of(adaptive)
    assert len(known) == 30 and others == 0
    rates = [each["lr"] for each in known]
    assert len(set(rates)) > 20 and min(rates) < 0.005 and max(rates) > 0.02
    assert all(0.001 <= rate <= 0.1 and len(f"{rate:.9f}".strip("0.")) <= 4 for rate in rates)
    change(adaptive, "sample: 30", "sample: 40")
    assert runs_of(adaptive)[0][:30] == known


def test_combinations_of_lists_are_chosen_once(start, adaptive):
    change(adaptive, "lr: {from: 0.001, to: 0.1, log: true}", "lr: [1, 2, 3, 4, 5]")
    assert start("--systems", "a", "--seeds", 2)[0] == 0
    found = options(adaptive)
    assert len({tuple(each.values()) for each in found}) == len(found) == 8


@pytest.mark.parametrize("log", [False, True])
def test_integers_are_drawn_evenly(log):
    numbers = random.Random(1)
    drawn = [Range(1, 4, log).draw(numbers) for _ in range(2000)]
    assert {type(each) for each in drawn} == {int} and set(drawn) == {1, 2, 3, 4}
    assert (drawn.count(1) > 1.5 * drawn.count(4)) == log
    assert not Range(1, 4).has(2.5) and not Range(1, 4).has(True) and Range(0.5, 4).has(2)
