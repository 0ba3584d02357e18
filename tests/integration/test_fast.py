"""``convs2s fast`` and ``convs2s translate --fast``: as good a copy of a model, and its errors."""

import os
import shlex
import shutil
from dataclasses import replace

import pytest
import torch

from convs2s.checkpoints.files import load_checkpoint, save_checkpoint
from convs2s.cli import main as convs2s
from convs2s.nn.int8 import is_supported
from convs2s.translation import fast
from convs2s.translation.ensemble import Ensemble
from convs2s.translation.shortlist import Shortlist
from convs2s.translation.translator import Translator
from tests.support.translation import FIXTURES, LINES, prepared


@pytest.fixture
def folder(tmp_path):
    """A prepared folder with a model, whose own translations are its text."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    prepared(folder)
    (folder / "checkpoints").mkdir()
    shutil.copyfile(FIXTURES / "convs2s.pt", folder / "checkpoints" / "average.pt")
    translations = Translator(folder / "checkpoints" / "average.pt", device="cpu").translate(LINES)
    texts = {"de": LINES, "en": [translation.text for translation in translations]}
    for name, split in (("tokens", "train"), ("text", "valid")):
        (folder / name).mkdir()
        for language, lines in texts.items():
            text = "".join(f"{line}\n" for line in lines) * (8 if split == "train" else 1)
            (folder / name / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder


def texts(folder, *arguments):
    output = folder / "output"
    command = ["translate", "--path", str(folder), "--input", str(folder / "text" / "valid.de")]
    assert convs2s([*command, "--device", "cpu", "--output", str(output), *arguments]) == 0
    return output.read_text(encoding="utf-8")


def test_a_fast_copy_translates_as_well(folder, capsys, monkeypatch):
    # What is fast differs by the machine: here, the last way that was tried.
    monkeypatch.setattr(fast, "fastest", lambda found: found[-1])
    assert convs2s(["fast", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "as it is" in printed and " 100.00 |" in printed
    assert f"convs2s translate --path {folder / 'checkpoints'} --fast" in printed
    content = load_checkpoint(str(folder / "checkpoints" / "fast.pt"))
    assert content["shortlist"]["by_source"].dtype == torch.int32
    is_int8 = any(weight.dtype == torch.int8 for weight in content["model"].values())
    assert is_int8 == is_supported() == ("8 bits" in printed)
    searched = []
    original = Shortlist.__call__
    monkeypatch.setattr(
        Shortlist,
        "__call__",
        lambda self, *given, **more: searched.append(self) or original(self, *given, **more),
    )
    plain = texts(folder)
    assert not searched
    assert texts(folder, "--fast") == plain
    assert searched


def test_the_printed_command_finds_the_preparation_of_a_model_elsewhere(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(fast, "fastest", lambda found: found[-1])
    shutil.move(folder / "checkpoints", tmp_path / "a model")
    search = ["--beam", "1", "--max-len-a", "2", "--unnormalized"]
    assert convs2s(["fast", str(folder), "--path", str(tmp_path / "a model"), *search]) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert " ".join(command).endswith(f" --fast {' '.join(search)} --input FILE")
    command[command.index("FILE")] = str(folder / "text" / "valid.de")
    assert command[0] == "convs2s" and convs2s([*command[1:], "--device", "cpu"]) == 0
    assert capsys.readouterr().out == (folder / "text" / "valid.en").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["checkpoint_best.pt", "my.pt"])
def test_the_printed_command_finds_a_model_of_any_name(name, folder, capsys):
    model = folder / "checkpoints" / name
    (folder / "checkpoints" / "average.pt").rename(model)
    search = ["--lenpen", "0.12345678", "--max-len-b", "1000000"]
    assert convs2s(["fast", str(folder), "--path", str(model), *search]) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert ("--fast" in command) == (name == "checkpoint_best.pt")
    assert command[-6:-2] == search
    command[command.index("FILE")] = str(folder / "text" / "valid.de")
    assert convs2s([*command[1:], "--device", "cpu"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(LINES)


def test_the_model_aligns_what_it_can_read(folder):
    path = str(folder / "checkpoints" / "average.pt")
    long = " ".join(["w1"] * 2000)
    pairs = [("w1 w2", "w3"), (long, "w3"), ("w1", long), ("w2", "w1 w4")]
    found = list(fast.align(path, folder, pairs))
    assert [(source, target) for source, target, _ in found] == [
        (["w1", "w2"], ["w3"]),
        (["w2"], ["w1", "w4"]),
    ]
    assert [{target for _, target in links} for *_, links in found] == [{0}, {0, 1}]


def test_shortlists_of_an_ensemble_are_those_of_all(folder, monkeypatch):
    monkeypatch.setattr(fast, "fastest", lambda found: found[-1])
    assert convs2s(["fast", str(folder)]) == 0
    first = folder / "checkpoints" / "fast.pt"
    second = folder / "checkpoints" / "other.pt"
    content = load_checkpoint(str(first))
    table = content["shortlist"]["by_source"]
    content["shortlist"] = {"by_source": table + table.eq(4), "frequent": 5}
    save_checkpoint(content, str(second))
    lists = [
        Translator(path, device="cpu").ensemble.shortlist
        for path in (first, second, [first, second], [first, folder / "checkpoints/average.pt"])
    ]
    one, other, both, none = lists
    assert none is None
    source = torch.arange(4, 9).unsqueeze(0)
    union = set(one(source).tolist()) | set(other(source).tolist())
    assert set(both(source).tolist()) == union > set(other(source).tolist())


def test_what_costs_quality_is_left_out(folder, capsys, monkeypatch):
    """Shortlists of hardly any token, and weights in 8 bits that are no good."""
    monkeypatch.setattr(fast, "SIZES", ((1, 0),))
    original = Ensemble.translate

    def worse(self, sentences):
        found = original(self, sentences)
        bad = self.options.int8 or self.options.lexicon
        return [[replace(each, tokens=["x"]) for each in n] for n in found] if bad else found

    monkeypatch.setattr(Ensemble, "translate", worse)
    assert convs2s(["fast", str(folder)]) == 0
    printed = capsys.readouterr().out
    path = folder / "checkpoints" / "fast.pt"
    assert f"{path}: the model as it is, since nothing is faster" in printed
    # So that what translates with a fast copy finds one.
    paths = path.with_name("average.pt"), path
    model, copy = (load_checkpoint(str(each))["model"] for each in paths)
    assert model.keys() == copy.keys()
    assert all(torch.equal(model[name], copy[name]) for name in model)
    assert "shortlist" not in load_checkpoint(str(path))


def test_bad_input(folder, capsys, tmp_path):
    def refused(*arguments):
        assert convs2s([*map(str, arguments)]) == 2
        return capsys.readouterr().err

    command = ("translate", "--path", folder, "--fast")
    model, copy = (folder / "checkpoints" / name for name in ("average.pt", "fast.pt"))
    assert "fast.pt: make it with `convs2s fast`" in refused(*command)
    shutil.copyfile(model, copy)
    os.utime(model, (2e9, 2e9))
    assert f"{copy} is older than {model}" in refused(*command)
    command = ("translate", "--path", model, "--fast")
    assert "--fast uses fast.pt in a folder" in refused(*command)
    content = load_checkpoint(str(model))
    for damaged in (
        5,
        {"by_source": torch.zeros(3, 4), "frequent": 9},
        {"by_source": torch.full((1000, 2), 7, dtype=torch.int32), "frequent": 9},
        {"frequent": "all"},
    ):
        save_checkpoint({**content, "shortlist": damaged}, str(copy))
        sentence = refused("translate", "--path", copy)
        assert f"The shortlists in {copy} do not fit its dictionaries" in sentence
    (folder / "text" / "valid.en").unlink()
    assert "There is no " in refused("fast", folder)
    assert "There is no folder" in refused("fast", tmp_path / "nothing")
