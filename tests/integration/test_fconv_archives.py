"""``convs2s convert-fconv`` of released archives, and of folders as MLConvGEC has them."""

import functools
import http.server
import io
import re
import shutil
import tarfile
import threading
import warnings
from argparse import Namespace

import pytest
import torch
from subword_nmt.learn_bpe import learn_bpe

from convs2s.cli import main as convs2s
from convs2s.common import progress
from convs2s.text import Preparation
from tests.support.commands import PLUGIN, fairseq, hypotheses
from tests.support.fconv import OPTIONS_OF_2018, OPTIONS_OF_2019, load, make_old


@pytest.fixture(scope="module")
def codes(corpus, tmp_path_factory):
    """BPE codes that keep each word of the corpus whole, as its models know it."""
    text = (corpus / "train.de").read_text("utf-8") + (corpus / "train.en").read_text("utf-8")
    learned = io.StringIO()
    learn_bpe(io.StringIO(text), learned, 1000)
    path = tmp_path_factory.mktemp("codes") / "bpecodes"
    path.write_text(learned.getvalue(), encoding="utf-8")
    return path


@pytest.fixture
def release(corpus, fconv, codes, tmp_path):
    """The unpacked archive of a release of 2017."""
    folder = tmp_path / "wmt.de-en.fconv-py"
    folder.mkdir()
    languages = {"source_lang": "de", "target_lang": "en"}
    make_old(fconv, folder / "model.pt", version=1, stray=True, legacy=True, changes=languages)
    shutil.copyfile(codes, folder / "bpecodes")
    for language in ("de", "en"):
        shutil.copyfile(corpus / "bin" / f"dict.{language}.txt", folder / f"dict.{language}.txt")
    (folder / "README.md").write_text("A file that is not needed.\n")
    return folder


def archive(folder, path):
    with tarfile.open(path, f"w:{path.suffix[1:]}") as file:
        file.add(folder, folder.name)
    return path


def translate(path, text, output, *arguments):
    command = ["translate", "--path", *map(str, path), "--input", str(text), "--device", "cpu"]
    assert convs2s([*command, "--output", str(output), *arguments]) == 0
    return output.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def served(tmp_path):
    """The address of a server of the files in ``tmp_path``."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_archive_of_an_address_translates_as_before(
    corpus, fconv, codes, release, served, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    packed = archive(release, tmp_path / "wmt.de-en.fconv-py.tar.bz2")
    new = tmp_path / "new"
    assert convs2s(["convert-fconv", f"{served}/{packed.name}", str(new)]) == 0
    printed = capsys.readouterr()
    assert f"{new}/model.pt: " in printed.out and "Downloading: 100%" in printed.err
    assert "de to en, tokenizer moses_fairseq, BPE codes bpecodes" in printed.out
    assert f"convs2s translate --path {new}/model.pt" in printed.out
    assert sorted(path.name for path in new.iterdir()) == [
        "bpecodes",
        "dict.de.txt",
        "dict.en.txt",
        "model.pt",
        "preparation.yaml",
    ]
    assert [path.name for path in tmp_path.glob("new*")] == ["new"]
    tokenized = Preparation.read(new).source.tokenizer.tokenize("Eins-zwei <drei>.")
    assert tokenized == "Eins @-@ zwei &lt; drei &gt; ."
    expected = fairseq(
        *("interactive", corpus / "bin", "--user-dir", PLUGIN, "--path", fconv, "--cpu"),
        *("--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", codes, "--beam", "5"),
        *("--source-lang", "de", "--target-lang", "en"),
        text=(corpus / "test.de").read_text(encoding="utf-8"),
    )
    expected = re.findall(r"^D-\d+\t\S+\t(.*)$", expected, re.MULTILINE)
    assert len(expected) == 24 and len(set(expected)) > 12
    with warnings.catch_warnings():
        # hydra warns about the way in which fairseq converts the options of an old checkpoint.
        warnings.simplefilter("error", UserWarning)
        assert translate([new / "model.pt"], corpus / "test.de", tmp_path / "out.en") == expected


def test_translate_says_how_to_convert_an_old_checkpoint(corpus, release, capsys):
    torch.save(torch.load(release / "model.pt", weights_only=True), release / "model.pt")
    command = ["translate", "--path", str(release / "model.pt"), "--input", str(corpus / "test.de")]
    assert convs2s(command) == 2
    assert "convert it with `convs2s convert-fconv`" in capsys.readouterr().err


def test_the_layout_of_mlconvgec(corpus, fconv, codes, tmp_path):
    models, new = tmp_path / "models", tmp_path / "new"
    for name in ("mlconv_embed", "data_bin", "bpe_model"):
        (models / name).mkdir(parents=True)
    for i in (1, 2, 3):
        make_old(
            fconv,
            models / "mlconv_embed" / f"model{i}.pt",
            version=1,
            legacy=True,
            meters=True,
            changes={**OPTIONS_OF_2018, **(OPTIONS_OF_2019 if i == 2 else {})},
        )
    for language, name in (("de", "src"), ("en", "trg")):
        dictionary = corpus / "bin" / f"dict.{language}.txt"
        shutil.copyfile(dictionary, models / "data_bin" / f"dict.{name}.txt")
    shutil.copyfile(codes, models / "bpe_model" / "train.bpe.model")
    chosen = ("--checkpoint", "model1.pt", "mlconv_embed/model2.pt")
    assert convs2s(["convert-fconv", str(models), str(new), *chosen]) == 0
    preparation = Preparation.read(new)
    assert preparation.content["tokenizer"] == "none"
    assert (preparation.source.language, preparation.target.language) == ("src", "trg")
    paths = [new / "mlconv_embed" / f"model{i}.pt" for i in (1, 2)]
    assert sorted(new.rglob("*.pt")) == paths
    expected = fairseq(
        *("interactive", corpus / "bin", "--user-dir", PLUGIN, "--path", fconv, "--cpu"),
        *("--beam", "12", "--source-lang", "de", "--target-lang", "en"),
        text=(corpus / "test.de").read_text(encoding="utf-8"),
    )
    expected = [text for ((_, text),) in hypotheses(expected).values()]
    assert len(expected) == 24
    assert translate(paths, corpus / "test.de", tmp_path / "out", "--beam", "12") == expected


def refused(capsys, old, new, *arguments):
    """The error message of a conversion, which writes nothing."""
    before = sorted(new.parent.rglob("*"))
    assert convs2s(["convert-fconv", str(old), str(new), *map(str, arguments)]) == 2
    assert sorted(new.parent.rglob("*")) == before
    return capsys.readouterr().err


def test_files_that_are_missing_or_do_not_fit(corpus, release, served, tmp_path, capsys):
    new = tmp_path / "new"
    whole = archive(release, tmp_path / "whole.tar.gz")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:-2000])
    page = tmp_path / "page.tar.bz2"
    page.write_text("<html>")
    for old, message in (
        (cut, "cut.tar.gz is not a complete tar archive"),
        (f"{served}/cut.tar.gz", "cut.tar.gz is not a complete tar archive"),
        (page, "page.tar.bz2 is not a complete tar archive"),
        (f"{served}/none.tar.gz", "the server answers 404 File not found"),
        (tmp_path / "none.tar.gz", "There is no file or folder"),
    ):
        assert message in refused(capsys, old, new)
    assert "--tokenizer is for archives" in refused(
        capsys, release / "model.pt", tmp_path / "new.pt", "--tokenizer", "none"
    )
    assert "it exists already" in refused(capsys, whole, release)
    assert "names 0 checkpoints" in refused(capsys, release, new, "--checkpoint", "other.pt")
    assert "has no dict.fr.txt" in refused(capsys, release, new, "--target-lang", "fr")
    assert "(--bpe-codes)" in refused(capsys, release, new, "--bpe-codes", tmp_path / "none")
    (release / "bpecodes").write_text("not two sub-words\n")
    message = "wmt.de-en.fconv-py: bpecodes is not a file of subword-nmt's codes"
    assert message in refused(capsys, release, new)
    (release / "bpecodes").unlink()
    dictionary = release / "dict.en.txt"
    text = dictionary.read_text(encoding="utf-8")
    dictionary.write_text(text.replace("eins-th", "ei@@"), encoding="utf-8")
    assert "sub-words such as 'ei@@'" in refused(capsys, release, new)
    dictionary.write_text(text + "more 1\n", encoding="utf-8")
    assert "is not the dictionary that the model was trained with" in refused(capsys, release, new)
    dictionary.write_text("no numbers\n", encoding="utf-8")
    assert "dict.en.txt, line 1: a dictionary of fairseq" in refused(capsys, release, new)
    dictionary.unlink()
    assert "has no dict.en.txt" in refused(capsys, release, new)
    (release / "model.pt").write_text("text")
    text = archive(release, tmp_path / "text.tar.gz")
    message = f"error: {text}, wmt.de-en.fconv-py/model.pt (4 bytes) is not a complete checkpoint"
    assert message in refused(capsys, text, new)
    (release / "model.pt").unlink()
    assert "has no checkpoint" in refused(capsys, release, new)


def test_languages_that_the_checkpoint_does_not_say(release, tmp_path, capsys):
    release = release.rename(tmp_path / "wmt.de-en")
    checkpoint = torch.load(release / "model.pt", weights_only=True)
    checkpoint["args"].source_lang = None
    torch.save(checkpoint, release / "model.pt")
    (release / "bpecodes").unlink()
    new = str(tmp_path / "named.de-en")
    assert convs2s(["convert-fconv", str(release), new]) == 0
    assert load(new + "/model.pt")["args"].source_lang == "de"
    release = release.rename(tmp_path / "release")
    message = "model.pt does not say its source language: give it with --source-lang"
    assert message in refused(capsys, release, tmp_path / "new")
    given = ("--source-lang", "de", "--tokenizer", "moses", "--lowercase")
    assert convs2s(["convert-fconv", str(release), str(tmp_path / "new"), *given]) == 0
    assert load(tmp_path / "new" / "model.pt")["args"].source_lang == "de"
    content = Preparation.read(tmp_path / "new").content
    assert content["tokenizer"] == "moses" and content["lowercase"] is True
    assert content["subwords"]["method"] == "none"


def test_other_models_are_refused_with_what_they_are(tmp_path, capsys):
    for arch, message in (
        ("fconv_lm_dauphin_gbw", "a language model (Dauphin et al., 2017) that fairseq itself"),
        ("fconv_self_att_wp", "a model of story generation with self-attention"),
        ("fconv_dualenc_gec_gatedaux", "with a second encoder"),
        ("fconv", "'auxencoder.fc1.weight' is not a weight of fairseq's fconv"),
    ):
        old = tmp_path / "old.pt"
        torch.save(
            {"args": Namespace(arch=arch), "model": {"auxencoder.fc1.weight": torch.zeros(1)}}, old
        )
        error = refused(capsys, old, tmp_path / "new.pt")
        assert message in error and f"--arch {arch}" in error


def test_another_residual_factor_is_refused(fconv, tmp_path, capsys):
    old = tmp_path / "old.pt"
    make_old(fconv, old, changes={**OPTIONS_OF_2019, "normalization_constant": 0.25})
    message = "trained with --normalization-constant 0.25, but only models with 0.5"
    assert message in refused(capsys, old, tmp_path / "new.pt")
