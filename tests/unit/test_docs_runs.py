"""Publishing the runs of an experiment, and unpacking them into a folder of runs that are done."""

import json
import os

import pytest

from docs import runs

SPLITS = {"valid": {"bleu": 30.0}, "test": {"bleu": 29.5}}
RUNS = {
    "a.1": {"settings": {"seed": 1}, "result": {"system": "a", "title": "“A”", "splits": SPLITS}},
    "a.trial1": {
        "settings": {"seed": 1, "updates": 5},
        "result": {"system": "a", "splits": {"valid": {"bleu": 0.1 + 0.2}}},
    },
    # A finalist for which no trial was left.
    "a.trial2": {"result": {"system": "a", "diverged": True, "splits": {}}},
}
KEPT = {
    *(f"runs/{run}/{part}.json" for run, parts in RUNS.items() for part in parts),
    "runs/a.1/test.hyp",
    "references/test",
    "speed.json",
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def out(tmp_path, monkeypatch):
    """The output folder of an experiment; what is published goes to a folder beside it."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    out = tmp_path / "out"
    for run, parts in RUNS.items():
        for part, content in parts.items():
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            write(out / "runs" / run / f"{part}.json", text)
    for name in ("valid.hyp", "test.hyp", "test.log", "times.json", "average.pt"):
        write(out / "runs" / "a.1" / name, f"Ein {name}.\n")
    write(out / "runs" / "b.1" / "settings.json", "{}")
    for name in ("references/valid", "references/test", "speed.json", "table.md"):
        write(out / name, f"Ein {name}.\n")
    return out


def published(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_unpacked_folder_has_the_finished_runs(out, tmp_path):
    runs.publish("words", out)
    assert runs.read("words") == RUNS
    lines = (tmp_path / "results" / "words.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["run"] for line in lines] == list(RUNS)
    runs.unpack("words", tmp_path / "new")
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / "new").as_posix() for path in files} == KEPT
    for path in files:
        assert path.read_bytes() == (out / path.relative_to(tmp_path / "new")).read_bytes()


def test_the_same_runs_are_the_same_bytes(out, tmp_path):
    runs.publish("words", out)
    before = published(tmp_path / "results")
    assert set(before) == {"words.jsonl", "words.hypotheses.tar.xz", "words.speed.json"}
    for path in out.rglob("*.hyp"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    runs.publish("words", out)
    assert published(tmp_path / "results") == before
    runs.unpack("words", tmp_path / "new")
    runs.publish("words", tmp_path / "new")
    assert published(tmp_path / "results") == before


def test_nothing_of_earlier_runs_is_left(out, tmp_path):
    runs.publish("words", out)
    (out / "speed.json").unlink()
    (out / "runs" / "a.1" / "result.json").unlink()
    runs.publish("words", out)
    assert list(published(tmp_path / "results")) == ["words.jsonl"]
    assert set(runs.read("words")) == {"a.trial1", "a.trial2"}
    runs.unpack("words", tmp_path / "new")
    assert not (tmp_path / "new" / "references").exists()


@pytest.mark.parametrize(
    "action, name, folder, message",
    [
        ("publish", "words", "empty", "empty has no finished runs: name a folder"),
        ("unpack", "letters", "empty", "There are no runs called letters .*: choose words."),
        ("unpack", "words", "out", "out has runs, which are not overwritten"),
    ],
)
def test_refusals(action, name, folder, message, out, tmp_path, monkeypatch):
    runs.publish("words", out)
    monkeypatch.setattr("sys.argv", ["runs.py", action, name, str(tmp_path / folder)])
    before = published(tmp_path / "results")
    with pytest.raises(SystemExit, match=message):
        runs.main()
    assert published(tmp_path / "results") == before and not (tmp_path / "empty").exists()


def test_the_name_is_the_path_of_the_file():
    assert runs.name_of("papers/convs2s/multi30k.yaml") == "papers_convs2s_multi30k"
