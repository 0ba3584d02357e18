"""Results in a folder that came from somebody else: names and options in them are checked."""

import json

import pytest

from convs2s.common.errors import UserError

from .words import change


def changed(path, **entries):
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **entries}), encoding="utf-8")


@pytest.fixture
def runs(start, folder):
    """The folder of finished trials and of a run that is to be done again."""
    assert start("--systems", "a", "--seeds", 1)[0] == 0
    runs = folder / "words_out/runs"
    (runs / "a.1/result.json").unlink()
    (runs / "a.1/average.pt").unlink()
    return runs


@pytest.mark.parametrize("name", ["user-dir", "user-di", "dropout"])
def test_options_of_trials_are_those_of_the_experiment(start, runs, name):
    for trial in ("a.trial1", "a.trial2"):
        changed(runs / trial / "result.json", trial_options={name: "x"})
    with pytest.raises(
        UserError, match=r"trial\d/result.json has options of which systems.a has no trial"
    ):
        start("--systems", "a", "--seeds", 1)


@pytest.mark.parametrize(
    "entries",
    [
        {"splits": {"../x": {"bleu": 1.0}}},
        {"splits": []},
        {"splits": {"valid": 1}},
        {"seed": "../1"},
        {"trial": "../1"},
        {"system": None},
        {"trial_options": 1},
    ],
)
def test_results_that_are_damaged(start, runs, entries):
    changed(runs / "a.trial1/result.json", **entries)
    for more in ([], ["--report"]):
        with pytest.raises(UserError, match="a.trial1/result.json"):
            start("--systems", "a", *more)


@pytest.mark.parametrize("text", ["[]", "{", "1", "[" * 5000, "9" * 5000, "\\xff"])
def test_results_that_are_no_json(start, runs, text):
    (runs / "a.trial1/result.json").write_bytes(text.encode("latin1"))
    with pytest.raises(UserError, match="a.trial1/result.json"):
        start("--systems", "a", "--report")


def test_searches_are_those_of_the_experiment(start, folder):
    change(folder, "runs_of: a", "runs_of: a\n    searches: [{beam: 1}, {beam: 2}]")
    assert start("--systems", "d", "--seeds", 1)[0] == 0
    run = folder / "words_out/runs/d.1"
    (run / "result.json").unlink()
    found = [{"options": {"user-dir": "x"}, "bleu": 1.0}, {"options": {"beam": 2}, "bleu": 0.0}]
    (run / "searches.json").write_text(json.dumps(found), encoding="utf-8")
    code, printed = start("--systems", "d", "--seeds", 1)
    assert code == 1 and "searches.json has other search options than the experiment" in printed
    found = [{"options": {"beam": 1}, "bleu": 1.0}, {"options": {"beam": 2}, "wer": 1.0}]
    (run / "searches.json").write_text(json.dumps(found), encoding="utf-8")
    code, printed = start("--systems", "d", "--seeds", 1)
    assert code == 1 and "searches.json has no bleu of its search options: remove it" in printed


@pytest.mark.parametrize("tests", [{"../x": "test"}, {"x": "../test"}, [], None])
def test_names_of_test_sets(start, runs, folder, tests):
    changed(folder / "words_out/data/data.json", tests=tests)
    with pytest.raises(UserError, match="data.json"):
        start("--systems", "a")


@pytest.mark.parametrize("option", ["--source", "--target"])
def test_languages_of_the_command_line(start, option):
    with pytest.raises(UserError, match=f"{option} is '../../x': it must be a name"):
        start(option, "../../x")
