"""``--right-to-left``: models that predict the last token first, alone and beside others."""

import math
import shutil

import pytest

from convs2s.checkpoints.files import load_checkpoint, save_checkpoint
from convs2s.cli import main as convs2s
from convs2s.translation import Translator
from convs2s.translation.compiled import CompiledModel
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    TINY,
    fairseq,
    generate,
    hypotheses,
    refused,
    run,
    train,
    train_arguments,
    validation_losses,
)
from tests.support.translation import DATA, FIXTURES

# Without dropout, whose masks would meet other tokens.
OPTIONS = (*TINY, *TASK, *CRITERION, "--dropout", "0", "--max-epoch", "6", "--no-epoch-checkpoints")
SEARCH = (*TASK, "--beam", 4, "--nbest", 3, "--max-len-b", 20)


@pytest.fixture(scope="module")
def backwards(tmp_path_factory, corpus):
    """The same corpus with the words of each target from right to left."""
    folder = tmp_path_factory.mktemp("backwards")
    for path in corpus.glob("*.*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.suffix == ".en":
            lines = [" ".join(line.split()[::-1]) for line in lines]
        (folder / path.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    fairseq(
        "preprocess",
        *("--source-lang", "de", "--target-lang", "en", "--destdir", folder / "bin"),
        *("--srcdict", corpus / "bin" / "dict.de.txt", "--tgtdict", corpus / "bin" / "dict.en.txt"),
        *(f"--{name}pref={folder / name}" for name in ("train", "valid", "test")),
    )
    return folder


@pytest.fixture(scope="module")
def model(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("right_to_left")
    log = train(corpus, folder, "--right-to-left", options=OPTIONS)
    return folder / "checkpoint_last.pt", validation_losses(log)


@pytest.fixture(scope="module")
def forward(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("left_to_right")
    train(corpus, folder, "--seed", "2", options=OPTIONS)
    return folder / "checkpoint_last.pt"


def test_a_model_of_text_that_is_turned_around_is_the_same(corpus, backwards, model, tmp_path):
    path, losses = model
    expected = validation_losses(train(backwards, tmp_path, options=OPTIONS))
    assert losses == pytest.approx(expected, abs=2e-3) and losses[-1] < losses[0]
    found = hypotheses(generate(corpus, path, *SEARCH))
    turned = hypotheses(generate(backwards, tmp_path / "checkpoint_last.pt", *SEARCH))
    assert found.keys() == turned.keys()
    for number, best in found.items():
        assert best[0][1] == " ".join(turned[number][0][1].split()[::-1])
        assert best[0][0] == pytest.approx(turned[number][0][0], abs=2e-3)


def test_the_library_and_given_translations(corpus, model, tmp_path, capsys):
    path, _ = model
    found = hypotheses(generate(corpus, path, *SEARCH))
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    translator = Translator(path, data=corpus / "bin", device="cpu", beam=4, max_len_b=20, raw=True)
    for number, translation in enumerate(translator.translate(lines)):
        assert translation.text == found[number][0][1]
        assert translation.score == pytest.approx(found[number][0][0], abs=1e-4)
    targets = [found[number][0][1] for number in range(len(lines))]
    for number, scored in enumerate(translator.score(lines, targets)):
        assert scored.score == pytest.approx(found[number][0][0], abs=1e-4)
        token_scores = translator.translate([lines[number]])[0].hypotheses[0].token_scores
        assert scored.token_scores == pytest.approx(token_scores, abs=1e-4)


def test_an_ensemble_of_both_directions(corpus, model, forward):
    path, _ = model
    found = hypotheses(generate(corpus, f"{forward}:{path}", *SEARCH))
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    options = dict(data=corpus / "bin", device="cpu", beam=4, max_len_b=20, raw=True)
    together = Translator([forward, path], nbest=3, **options)
    alone = [Translator(each, nbest=4, **options) for each in (forward, path)]
    for number, (line, translation) in enumerate(zip(lines, together.translate(lines))):
        given = {
            hypothesis.text for each in alone for hypothesis in each.translate([line])[0].hypotheses
        }
        means = {}
        for text in given:
            scores = [each.score([line], [text])[0].score for each in alone]
            means[text] = sum(scores) / 2
        best = sorted(means.values(), reverse=True)[:3]
        assert [one.score for one in translation.hypotheses] == pytest.approx(best, abs=1e-4)
        assert means[translation.text] == pytest.approx(best[0], abs=1e-4)
        assert [score for score, _ in found[number]] == pytest.approx(best, abs=1e-3)
        assert math.isfinite(best[0])


def test_a_run_continues_in_its_direction(corpus, model, forward, tmp_path):
    for path, given, message in (
        (model[0], (), "was trained with --right-to-left: add it, or add --reset-optimizer"),
        (forward, ("--right-to-left",), "was trained without --right-to-left: omit it, or add"),
    ):
        arguments = train_arguments(
            corpus, tmp_path, "--restore-file", path, *given, options=OPTIONS
        )
        assert message in refused(run("train", *arguments))
    log = train(
        corpus,
        tmp_path,
        *("--restore-file", forward, "--right-to-left", "--reset-optimizer", "--max-epoch", "7"),
        *("--reset-dataloader", "--reset-meters"),
        options=OPTIONS,
    )
    assert "epoch 001 | valid on" in log


def test_graphs_of_onnx_runtime(corpus, model, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra export is not installed")
    path = shutil.copyfile(model[0], tmp_path / "model.pt")
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    options = dict(data=corpus / "bin", device="cpu", beam=4, max_len_b=20, raw=True)
    expected = Translator(path, **options).translate(lines)
    assert convs2s(["compile", str(path), "--data", str(corpus / "bin")]) == 0
    compiled = Translator(path, **options)
    (loaded,) = compiled.ensemble.search_models
    loaded._missing = 0
    assert [each.text for each in compiled.translate(lines)] == [each.text for each in expected]
    assert isinstance(loaded, CompiledModel) and loaded._graphs is not None


def test_transformers_of_other_programs_are_refused(tmp_path, capsys):
    checkpoint = load_checkpoint(str(FIXTURES / "adl.pt"))
    checkpoint["cfg"]["model"]["right_to_left"] = True
    path = tmp_path / "model.pt"
    save_checkpoint(checkpoint, str(path))
    given = ["--data", str(DATA), "--device", "cpu", "--input", str(DATA / "test.de")]
    for command, other in (
        (["export-transformer", str(path), str(tmp_path / "c.pt")], "fairseq's transformer"),
        (["translate", "--path", str(path), *given, "--engine", "ctranslate2"], "CTranslate2"),
    ):
        assert convs2s(command) == 2
        error = capsys.readouterr().err
        assert f"(--right-to-left), but {other} would write its translations backwards" in error


def test_what_is_refused(corpus, model, forward, tmp_path, capsys):
    path, _ = model
    given = ("generate", corpus / "bin", "--path", path, "--cpu", "--source-lang", "de")
    given += ("--target-lang", "en", "--user-dir")
    for options, message in (
        (("--task", "translation"), "fairseq's search does not know: use --task convs2s_transl"),
        ((*TASK, "--prefix-size", "1"), "--right-to-left): omit --prefix-size"),
        ((*TASK, "--sampling", "--nbest", "5"), "only beam search knows: omit options"),
    ):
        done = run(*given, PLUGIN, *options)
        assert message in refused(done)
    for command, other in (
        (["export-onnx", str(path), str(tmp_path / "a")], "other programs"),
        (["export", str(path), str(tmp_path / "b")], "transformers"),
    ):
        assert convs2s([*command, "--data", str(corpus / "bin")]) == 2
        error = capsys.readouterr().err
        assert f"(--right-to-left), but {other} would write its translations backwards" in error
