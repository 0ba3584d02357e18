"""A dictionary of the same size with other words is refused wherever a model is loaded."""

import shutil

import pytest
import torch

from convs2s.checkpoints.dictionaries import check_dictionaries, digests
from convs2s.common.errors import UserError
from convs2s.translation import Translator
from tests.integration.test_damaged_models import convs2s
from tests.support import faults
from tests.support.commands import PLUGIN, TASK, fairseq, refused, run
from tests.support.translation import DATA, FIXTURES, LINES

SAID = "was trained with another {} dictionary, which has as many tokens, but other words"


@pytest.fixture(scope="module", params=["source", "target"])
def other(request, corpus, tmp_path_factory):
    """The side of another dictionary, and a folder of the text and of ``bin`` with it."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(corpus / "bin", folder / "bin")
    path = folder / "bin" / f"dict.{'de' if request.param == 'source' else 'en'}.txt"
    first, second, *more = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([second, first, *more]), encoding="utf-8")
    return request.param, folder


@pytest.fixture(scope="module")
def checkpoint(trained):
    return trained / "checkpoint_last.pt"


def test_checkpoints_keep_digests(checkpoint, corpus):
    state = torch.load(checkpoint, weights_only=True)["task_state"]
    translator = Translator(checkpoint, data=corpus / "bin", device="cpu")
    ensemble = translator.ensemble
    words = ensemble.source.symbols, ensemble.target.symbols
    assert state["dictionaries"] == digests(words)
    check_dictionaries(state, words, "name")
    for older in ({}, None, [], {"dictionaries": None}, {"dictionaries": {"source": 3}}):
        check_dictionaries(older, words, "name")
    # The weights do not fit another number of words, which has a sentence of its own.
    check_dictionaries(state, [each[:-1] for each in words], "name")


@pytest.mark.parametrize("command", ["translate", "score", "export-onnx"])
def test_commands(command, other, checkpoint, corpus, tmp_path):
    side, folder = other
    given = ("--data", folder / "bin")
    if command == "export-onnx":
        given = (checkpoint, tmp_path / "new", *given)
    else:
        given = ("--path", checkpoint, "--raw", "--device", "cpu", *given)
    if command == "score":
        given += ("--input", corpus / "test.de", "--target-input", corpus / "test.en")
    assert f"{checkpoint} {SAID.format(side)}" in convs2s(command, *given)


@pytest.mark.parametrize("task", [(), TASK])
@pytest.mark.parametrize("program", ["generate", "validate"])
def test_programs_of_fairseq(program, task, other, checkpoint):
    side, folder = other
    given = (folder / "bin", "--user-dir", PLUGIN, "--cpu", "--path", checkpoint, *task)
    given += ("--max-tokens", "400")
    assert SAID.format(side) in refused(run(program, *given))


def test_from_pretrained(other, checkpoint):
    from convs2s_plugin.hub import from_pretrained

    side, folder = other
    with pytest.raises(UserError, match=f"{checkpoint} {SAID.format(side)}"):
        from_pretrained(checkpoint, data_name_or_path=str(folder / "bin"))


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_training(option, other, checkpoint, tmp_path):
    side, folder = other
    error = faults.sentence(faults.train(folder, tmp_path / "new", option, checkpoint))
    assert error.startswith(f"{checkpoint} {SAID.format(side)}")


def test_averages_and_ensembles(checkpoint, corpus, tmp_path):
    state = torch.load(checkpoint, weights_only=True)
    state["task_state"]["dictionaries"]["target"]["sha256"] = "0" * 64
    path, new = tmp_path / "other.pt", tmp_path / "new.pt"
    torch.save(state, path)
    error = convs2s("average", "--inputs", checkpoint, path, "--output", new)
    assert f"{path} was trained with other dictionaries" in error and not new.exists()
    with pytest.raises(UserError, match=f"{path} {SAID.format('target')}"):
        Translator([checkpoint, path], data=corpus / "bin", device="cpu")
    # Older checkpoints have none, also beside new ones.
    del state["task_state"]["dictionaries"]
    torch.save(state, path)
    both = Translator([checkpoint, path], data=corpus / "bin", device="cpu")
    assert both.translate(["eins zwei"])[0].text
    assert Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu").translate(LINES)


def test_a_resumed_training_run_keeps_them(checkpoint, corpus, tmp_path):
    """They are those of its own dictionaries, and generation takes what it writes."""
    done = faults.train(corpus, tmp_path, "--restore-file", checkpoint, "--max-epoch", "13")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "checkpoint_last.pt"
    states = [torch.load(each, weights_only=True)["task_state"] for each in (path, checkpoint)]
    assert states[0] == states[1]
    fairseq("generate", corpus / "bin", "--user-dir", PLUGIN, "--cpu", "--path", path, *TASK)
