"""Runs that use the models or translations of others notice that those were trained again."""

import json
import shutil

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments import run

from .words import change, results

MORE = """
  e: {updates: 4, continues: "b, c", train: {arch: other}}
  f: {updates: 4, train: {arch: other}, train_on: {translations: {"b, c": 1}}}
  both: {ensemble: {e: [1], "b, c": [2]}}
"""


@pytest.fixture
def runs(start, folder, monkeypatch):
    """The folder of finished runs, of which those of four systems use others."""
    translate = run.Job.translate_training_text

    def with_text(self):
        for side in ("source", "target"):
            (folder / f"words_out/data/data-bin/train.{side}").write_text("one\n")
        translate(self)

    monkeypatch.setattr(run.Job, "translate_training_text", with_text)
    monkeypatch.setattr(run, "write_training_data", lambda folder, *_: folder.mkdir())
    change(folder, "{unnormalized: true}\n", "{unnormalized: true}" + MORE)
    assert start()[0] == 0
    return folder / "words_out/runs"


def test_settings_of_all_runs_that_were_used(runs):
    paths = runs.glob("*/made_from.json")
    found = {path.parent.name: json.loads(path.read_text()) for path in paths}
    assert {name: sorted(each) for name, each in found.items()} == {
        "d.1": ["a.1"],
        "d.2": ["a.2"],
        "e.1": ["b_c.1"],
        "e.2": ["b_c.2"],
        "f.1": ["b_c.1"],
        "f.2": ["b_c.1"],
        "both.1": ["b_c.1", "b_c.2", "e.1"],
    }
    assert "generate" in found["f.1"]["b_c.1"] and "generate" not in found["e.1"]["b_c.1"]


def test_the_log_of_a_translation_is_not_that_of_the_training_run(runs):
    log = (runs / "b_c.1/train.log").read_text()
    assert log.endswith("done training in 1.0 seconds\n") and "Translated" not in log
    assert (runs / "b_c.1/training_text.log").exists()


def test_a_run_of_models_that_were_trained_again_is_refused(start, folder, runs):
    change(folder, "updates: 5", "updates: 6")
    for number in (1, 2):
        shutil.rmtree(runs / f"b_c.{number}")
    # The tables have none of them as soon as it was trained again.
    assert start("--systems", "b, c")[0] == 0
    table = json.loads((folder / "words_out/results.json").read_text())["results"]
    assert {row["system"] for row in table} == {"a", "b, c", "d"}
    for number in (1, 2):
        shutil.rmtree(runs / f"b_c.{number}")
    code, printed = start()
    message = "The run {} was made from {} with updates 5, but now it is 6: choose another folder"
    assert code == 1 and results(folder)["b_c.1"]["updates"] == 6
    for name in ("e.1", "e.2", "f.1", "f.2"):
        used = "b_c.2" if name == "e.2" else "b_c.1"
        assert f"{name} failed: {message.format(name, used)}" in printed
    # Nothing starts, and no table has them.
    for more in ((), ("--report",), ("--systems", "d"), ("--systems", "d", "--dry-run")):
        with pytest.raises(UserError, match=message.format(r"(e|f)\.\d", r"b_c\.\d")):
            start(*more)
    assert start("--systems", "a", "--report")[0] == 0
    for name in ("e.1", "e.2", "f.1", "f.2"):
        shutil.rmtree(runs / name)
    # It used b_c.2, and e.1, which used b_c.1.
    with pytest.raises(UserError, match=message.format("both.1", r"b_c\.1")):
        start()
    shutil.rmtree(runs / "both.1")
    assert start()[0] == 0 and start()[0] == 0


def test_another_search_changes_translations_and_no_models(start, folder, runs):
    change(folder, "average: 1\n", "average: 1\n    generate: {beam: 3}\n")
    for number in (1, 2):
        shutil.rmtree(runs / f"b_c.{number}")
    code, printed = start("--systems", "e", "both")
    assert code == 0, printed
    with pytest.raises(UserError, match=r"f\.1 was made from b_c\.1 with generate\.beam unset"):
        start("--systems", "f")


def test_results_that_do_not_say_what_they_were_made_from(start, folder, runs):
    """As those of earlier versions, and those that were published."""
    change(folder, "updates: 5", "updates: 6")
    for path in runs.glob("*/made_from.json"):
        path.unlink()
    for number in (1, 2):
        shutil.rmtree(runs / f"b_c.{number}")
    assert start()[0] == 0 and start("--report")[0] == 0
