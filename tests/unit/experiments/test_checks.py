"""Where options are in the file, and what is checked; tests/integration has fairseq's answers."""

import re
import sys

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments import checks
from convs2s.experiments.commands import Data
from convs2s.experiments.reader import read_experiment, smoke_run
from convs2s.experiments.runs import all_runs

FILE = """
data: {source: de, target: en}
train: {bad-a: 1, bad-b: 1}
generate: {bad-c: 1}
searches: [{lenpen: 1}, {bad-d: 1}]
seeds: [1, 2]
smoke: {train: {bad-a: 2}, generate: {bad-e: 1}}
systems:
  a:
    updates: 4
    train: {arch: x, bad-f: 1}
    trials: {bad-g: [1, 2]}
    smoke: {train: {bad-h: 1}}
  b: {updates: 4, train: {arch: y, bad-b: 2}, searches: [{bad-i: 1}], generate: {bad-j: 1}}
  c: {runs_of: b, generate: {bad-k: 1}, searches: []}
"""
PLACES = [
    "train.bad-b: no (in a)",
    "systems.a.train.bad-f: no",
    "systems.a.trials.bad-g: no",
    "generate.bad-c: no (in a, b, c)",
    "searches.bad-d: no (in a)",
    "systems.b.train.bad-b: no",
    "systems.b.searches.bad-i: no",
    "systems.b.generate.bad-j: no",
    "systems.c.generate.bad-k: no",
]
IN_FILE = ["train.bad-a: no (in a, b)", *PLACES]
IN_SMOKE_RUN = [
    "smoke.train.bad-a: no (in a, b)",
    "smoke.generate.bad-e: no (in a, b, c)",
    "systems.a.smoke.train.bad-h: no",
    *PLACES,
]


@pytest.mark.parametrize("smoke", [False, True])
def test_places(smoke, tmp_path, monkeypatch):
    (tmp_path / "file.yaml").write_text(FILE, encoding="utf-8")
    experiment = read_experiment(tmp_path / "file.yaml")
    if smoke:
        experiment = smoke_run(experiment, tmp_path)
    checked = []

    def find_faults(commands, joined):
        checked.extend(words[0] for words in commands)
        return [
            [(word[2:], "no") for word in words if word.startswith("--bad")] for words in commands
        ]

    monkeypatch.setattr(checks, "find_faults", find_faults)
    data = Data(tmp_path, "de", "en", {})
    with pytest.raises(UserError, match=r"wrong options:\n") as error:
        checks.check_options(experiment, all_runs(experiment), {"": data}, smoke)
    assert sorted(str(error.value).split("\n  ")[1:]) == sorted(IN_SMOKE_RUN if smoke else IN_FILE)
    # Two trials of a; b once for both seeds. The search of trials, two of a, and one of b and c.
    assert checked.count("fairseq-train") == 3 and checked.count("fairseq-generate") == 5


def test_fairseq_fails(tmp_path, monkeypatch):
    fails = tmp_path / "python"
    fails.write_text("#!/bin/sh\necho Traceback >&2\necho ImportError: none >&2\nexit 1\n")
    fails.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fails))
    expected = "The options cannot be checked, because fairseq fails: ImportError: none"
    with pytest.raises(UserError, match=re.escape(expected)):
        checks.find_faults([], False)
