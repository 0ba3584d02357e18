"""``convs2s prepare --bpe-dropout``: several segmentations, which epochs take in turn."""

import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from convs2s.cli import main
from convs2s.text.binarize import training_data
from convs2s.text.learning import learn_subword_nmt
from convs2s.text.preparation import Preparation
from convs2s.text.subwords import make_sampler
from convs2s.text.vocabulary import Vocabulary
from tests.support.commands import CRITERION, TASK, TINY, assert_same_weights, fairseq

SEGMENTATIONS = 3
PACKAGES = {"subword_nmt": "subword_nmt", "sentencepiece": "sentencepiece"}


def write(folder):
    draw = random.Random(1)
    stems = ["wies", "haus", "hund", "renn", "spiel", "gart"]
    for language in ("de", "en"):
        lines = (
            " ".join(draw.choice(stems) + draw.choice(["e", "en", "er", ""]) for _ in range(6))
            for _ in range(400)
        )
        (folder / f"corpus.{language}").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    return [str(folder / f"corpus.{language}") for language in ("de", "en")]


def prepare(folder, out, method="subword_nmt", *more, workers=1):
    size = {"subword_nmt": "80", "sentencepiece": "60"}[method]
    options = ("--tokenizer", "none", "--bpe", method, "--bpe-size", size, "--keep-duplicates")
    sampling = ("--bpe-dropout", "0.2", "--segmentations", str(SEGMENTATIONS))
    arguments = ["--train", *write(folder), "--out", str(out), *options, *(more or sampling)]
    return main(["prepare", *arguments, "--workers", str(workers), "-q"])


def sentences(data, language):
    """The tokens of the training text in each segmentation."""
    symbols = Vocabulary.load(data / f"dict.{language}.txt")
    found = []
    for folder in training_data(data).split(os.pathsep):
        numbers = read(f"{folder}/train.de-en.{language}")
        found.append([" ".join(symbols[n] for n in each[:-1]) for each in numbers])
    return found


def read(path):
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    return [each.tolist() for each in MMapIndexedDataset(path)]


def test_other_random_numbers_stay_the_same(tmp_path):
    pytest.importorskip("subword_nmt")
    path = tmp_path / "codes.bpe"
    learn_subword_nmt(Counter("wiese wiesen wies".split()), 9, path)
    sample = make_sampler("subword_nmt", path, 0.5, 2)
    state = random.getstate()
    assert sample("wiese wiesen").replace("@@ ", "") == "wiese wiesen"
    assert random.getstate() == state


@pytest.mark.parametrize("method", PACKAGES)
def test_segmentations_are_of_the_same_text_and_repeatable(method, tmp_path):
    pytest.importorskip("fairseq")
    pytest.importorskip(PACKAGES[method])
    assert prepare(tmp_path, tmp_path / "a", method) == 0
    assert prepare(tmp_path, tmp_path / "b", method, workers=2) == 0
    preparation = Preparation.read(tmp_path / "a")
    files = {
        str(path.relative_to(tmp_path / "a")): path.read_bytes()
        for path in (tmp_path / "a" / "data-bin").rglob("*")
        if path.is_file()
    }
    assert all((tmp_path / "b" / name).read_bytes() == files[name] for name in files)
    for side, language in ((preparation.source, "de"), (preparation.target, "en")):
        plain, *sampled = sentences(tmp_path / "a" / "data-bin", language)
        tokens = (tmp_path / "a" / "tokens" / f"train.{language}").read_text("utf-8")
        assert plain == tokens.splitlines()
        assert len(sampled) == SEGMENTATIONS - 1
        for each in sampled:
            assert [*map(side.decode, each)] == [*map(side.decode, plain)]
            different = sum(a != b for a, b in zip(each, plain))
            assert different > len(plain) / 2 and "<unk>" not in " ".join(each)
        assert sampled[0] != sampled[1]
    assert not (tmp_path / "a" / "data-bin" / "segmentation4").exists()
    assert len(read(f"{tmp_path}/a/data-bin/valid.de-en.de")) > 0


def test_epochs_take_them_in_turn_and_a_training_goes_on_exactly(tmp_path):
    pytest.importorskip("fairseq")
    pytest.importorskip("subword_nmt")
    assert prepare(tmp_path, tmp_path / "out") == 0
    done = subprocess.run(
        [sys.executable, "-m", "convs2s", "train", tmp_path / "out", "--print"],
        capture_output=True,
        text=True,
    )
    data = training_data(tmp_path / "out" / "data-bin")
    assert data.count("segmentation") == SEGMENTATIONS - 1 and data in done.stdout
    from convs2s_plugin import __file__ as plugin

    arguments = (data, "--user-dir", os.path.dirname(plugin), "--cpu", "--num-workers", "0")
    options = (*TINY, *TASK, *CRITERION, "--max-tokens", "2000", "--no-epoch-checkpoints")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    log = fairseq("train", *arguments, *options, "--save-dir", whole, "--max-epoch", "4")
    loaded = [line.rsplit("/", 1)[0] for line in log.splitlines() if "train.de-en.de" in line]
    folders = data.split(os.pathsep)
    assert [line[line.index("/") :] for line in loaded][:4] == [*folders, folders[0]]
    for epochs in ("2", "4"):
        fairseq("train", *arguments, *options, "--save-dir", parts, "--max-epoch", epochs)
    last = "checkpoint_last.pt"
    assert_same_weights(whole / last, parts / last, atol=0, rtol=0)


@pytest.mark.parametrize(
    "options, words",
    [
        (("--bpe-dropout", "1.5"), "--bpe-dropout is 1.5"),
        (("--bpe-dropout", "0.1", "--segmentations", "1"), "--segmentations is 1"),
        (("--segmentations", "5"), "needs --bpe-dropout"),
        (("--bpe-dropout", "0.1", "--bpe", "none"), "--bpe none makes none"),
    ],
)
def test_options_that_are_refused(options, words, tmp_path, capsys):
    assert prepare(tmp_path, tmp_path / "out", "subword_nmt", *options) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
