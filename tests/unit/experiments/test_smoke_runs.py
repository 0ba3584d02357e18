"""Smoke runs of systems that train on the translations of others."""

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments.data import DataFolders, prepare_data
from convs2s.experiments.reader import read_experiment, smoke_run
from convs2s.experiments.runs import all_runs, needs

FILE = """
data: {source: de, target: en, monolingual: news.en}
train: {arch: some}
systems:
  a: {updates: 8, seeds: [1, 2]}
  both: {ensemble: {a: [2, 1]}}
  student: {updates: 8, train_on: {translations: {both: 2}}}
  backward: {updates: 8, reverse: true}
  more: {updates: 8, train_on: {back_translations: {backward: 1}}}
"""


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(FILE)
    return read_experiment(path)


def smoke(experiment, folder):
    folder.mkdir()
    return smoke_run(experiment, folder)


def test_a_teacher_that_is_an_ensemble(experiment, tmp_path):
    """An ensemble has the seed of its first model, of which a smoke run has the first one."""
    runs = {run.name: run for run in all_runs(smoke(experiment, tmp_path / "text"))}
    assert runs["student.1"].translations == {"both.1": False}
    assert needs(runs["student.1"], runs["both.1"]) and runs["both.1"].translates_text


def test_generated_text_is_the_same_in_any_folder(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr("convs2s.experiments.data._binarize", lambda *_: {"test": "test"})
    folders = DataFolders(tmp_path / "out")
    for name in ("first", "second"):
        settings = smoke(experiment, tmp_path / name).data
        data = prepare_data(settings, folders, False, False, str)
        assert len(data.monolingual.read_text().splitlines()) == 60
    # Other text is not.
    with pytest.raises(UserError, match=r"data\.monolingual generated, but now it is .*news\.en"):
        given = settings.__class__("de", "en", tmp_path, monolingual=tmp_path / "news.en")
        prepare_data(given, folders, False, False, str)
