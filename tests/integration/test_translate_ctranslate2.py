"""``convs2s translate --engine ctranslate2``: the translations that torch finds, or a refusal."""

import shutil

import pytest

from convs2s.checkpoints.files import load_checkpoint, save_checkpoint
from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from convs2s.translation import Translator, ctranslate2_engine
from convs2s.translation.shortlist import ENTRY
from tests.support.transformers import MODELS, write_checkpoint
from tests.support.translation import DATA, FIXTURES, LINES, text_file, translate

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

ENGINE = ("--engine", "ctranslate2")
# One is split.
TEXT = [*LINES, "", " ".join(LINES * 2)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    encoder, decoder, options = MODELS["post-norm"]
    path = tmp_path_factory.mktemp("transformer") / "model.pt"
    return write_checkpoint(path, encoder, decoder, **options)


@pytest.mark.parametrize(
    "options",
    [
        "--scores",
        "--scores --beam 1 --min-len 3",
        "--nbest 3 --lenpen 0.6 --workers 2 --batch-size 3",
        "--nbest 2 --unnormalized --max-len-b 4",
    ],
)
def test_the_translations_and_scores_of_torch(checkpoint, options, tmp_path):
    expected, found = (
        [
            line.split("\t")
            for line in translate(checkpoint, TEXT, tmp_path, "--raw", *options.split(), *engine)
        ]
        for engine in ((), ENGINE)
    )
    assert len({row[-1] for row in found}) > 3
    for (*numbers, text), (*others, other) in zip(found, expected, strict=True):
        assert text == other
        assert list(map(float, numbers)) == pytest.approx(list(map(float, others)), abs=2e-4)


@pytest.fixture
def refusal(tmp_path, capsys):
    """Runs the command, and returns what it says."""
    source = text_file(tmp_path, LINES)

    def run(paths, *options):
        command = ["--path", *paths, "--data", DATA, "--raw", "--device", "cpu", "--input", source]
        assert convs2s(["translate", *map(str, command), *ENGINE, *map(str, options)]) == 2
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alignment", "a"], "--engine ctranslate2 has no --alignment: omit one of them."),
        (["--replace-unk"], "--engine ctranslate2 has no --replace-unk: omit one of them."),
        (["--lexicon", DATA / "test.de"], "--engine ctranslate2 has no --lexicon: omit one of"),
        (["--int8", "--autocast-dtype", "bfloat16"], "Weights in 8 bits exclude half precision"),
    ],
)
def test_options_that_are_refused(checkpoint, options, message, refusal):
    assert message in refusal([checkpoint], *options)


def test_models_that_are_refused(checkpoint, refusal, tmp_path):
    several = "--engine ctranslate2 translates with one model, but --path has 2"
    assert several in refusal([checkpoint, checkpoint])
    family = "convs2s.pt has a model of --arch convs2s_iwslt_de_en, but --engine ctranslate2 needs"
    assert family in refusal([FIXTURES / "convs2s.pt"])
    layer = "--encoder-adl, line 1, column 21: 'cnn' is in the way of --engine ctranslate2"
    assert layer in refusal([FIXTURES / "adl.pt"])
    for name in ("model.pt", "fast.pt"):
        shutil.copyfile(checkpoint, tmp_path / name)
    fast = "--engine ctranslate2 cannot translate with the shortlists of --fast: omit one"
    assert fast in refusal([tmp_path], "--fast")


def test_saved_shortlists_are_refused(checkpoint, tmp_path, refusal):
    (tmp_path / "lexicon").write_text("eins eins-th 0.5\n", encoding="utf-8")
    options = {"lexicon": str(tmp_path / "lexicon"), "frequent_candidates": 9}
    translator = Translator(checkpoint, data=DATA, raw=True, device="cpu", **options)
    content = {**load_checkpoint(str(checkpoint)), ENTRY: translator.ensemble.shortlist.saved()}
    save_checkpoint(content, str(tmp_path / "fast.pt"))
    message = "fast.pt has shortlists, with which --engine ctranslate2 cannot"
    assert message in refusal([tmp_path / "fast.pt"])


def test_without_ctranslate2(checkpoint, monkeypatch, refusal):
    monkeypatch.setattr(ctranslate2_engine, "find_spec", lambda name: None)
    message = "needs the package ctranslate2: pip install 'convs2s-plugin[export]'"
    assert message in refusal([checkpoint])


def test_in_python(checkpoint):
    options = {"data": DATA, "raw": True, "device": "cpu", "beam": 2}
    translator = Translator(checkpoint, engine="ctranslate2", **options)
    plain = Translator(checkpoint, **options)
    texts = [each.text for each in plain.translate(LINES)]
    assert [each.text for each in translator.translate(LINES)] == texts
    pairs = [each.score(LINES, texts) for each in (translator, plain)]
    assert pairs[0] == pairs[1]
    with pytest.raises(UserError, match="--engine ctranslate2 has no --temperature"):
        translator.with_options(temperature=2.0)
    with pytest.raises(UserError, match="--engine is onnx, but must be torch or ctranslate2"):
        Translator(checkpoint, engine="onnx", **options)
