"""Binarized data against those of fairseq-preprocess."""

import random

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset
from fairseq.options import get_preprocessing_parser
from fairseq_cli import preprocess

from convs2s.common.errors import UserError
from convs2s.text import binarize

WORDS = [*"abcdefghij", "wi@@", "é", "字", "<unk>", "</s>", "<s>", "madeupword0000", "\ufeff"]
SPACES = [" ", "  ", "\t", "\u3000", "\xa0", "\x1c", "\x85", "\u2028", "\x0b"]
SPLITS = {"train": 80, "valid": 9, "test": 5, "test1": 3}


def write_text(folder):
    """Text with odd words and spaces; some lines are empty, and the last has no line feed."""
    numbers = random.Random(1)
    for split, size in SPLITS.items():
        for language in ("de", "en"):
            words = WORDS[: 12 if split == "train" and language == "de" else None]
            lines = [
                "".join(
                    numbers.choice(words) + numbers.choice(SPACES)
                    for _ in range(numbers.randint(0, 7))
                )
                for _ in range(size)
            ]
            (folder / f"{split}.{language}").write_bytes("\n".join(["a", *lines, "b"]).encode())


@pytest.mark.parametrize("max_words", [None, 9, 3])
@pytest.mark.parametrize("joined", [False, True])
def test_files_are_those_of_fairseq_preprocess(tmp_path, joined, max_words):
    write_text(tmp_path)
    tests = f"{tmp_path}/test,{tmp_path}/test1"
    options = ["--trainpref", f"{tmp_path}/train", "--validpref", f"{tmp_path}/valid"]
    options += ["-s", "de", "-t", "en", "--testpref", tests, "--destdir", f"{tmp_path}/expected"]
    options += ["--joined-dictionary"] if joined else []
    if max_words:
        options += ["--nwordssrc", str(max_words), "--nwordstgt", str(max_words)]
    preprocess.main(get_preprocessing_parser().parse_args(options))
    preprocess.logger.handlers.clear()
    (tmp_path / "expected" / "preprocess.log").unlink()
    found = tmp_path / "found"
    found.mkdir()
    texts = {split: tmp_path / split for split in SPLITS}
    binarize.binarize(("de", "en"), texts, found, joined, max_words)
    names = {path.name for path in (tmp_path / "expected").iterdir()}
    assert {path.name for path in found.iterdir()} == names and len(names) == 18
    for name in names:
        assert (found / name).read_bytes() == (tmp_path / "expected" / name).read_bytes(), name


def test_given_dictionaries(tmp_path):
    write_text(tmp_path)
    dictionaries = [tmp_path / name for name in ("a.txt", "b.txt")]
    dictionaries[0].write_text("é 3\nc 2\na 1\n")
    # The first line of "b" is overwritten, as fairseq reads it.
    dictionaries[1].write_text("b 3\n字 2\nb 1 #fairseq:overwrite\n")
    options = ["--trainpref", f"{tmp_path}/train", "-s", "de", "-t", "en"]
    options += ["--srcdict", str(dictionaries[0]), "--tgtdict", str(dictionaries[1])]
    expected, found = tmp_path / "expected", tmp_path / "found"
    preprocess.main(get_preprocessing_parser().parse_args([*options, "--destdir", str(expected)]))
    preprocess.logger.handlers.clear()
    found.mkdir()
    texts = {"train": tmp_path / "train"}
    binarize.binarize(("de", "en"), texts, found, False, dictionaries=dictionaries)
    for language, dictionary in zip(("de", "en"), dictionaries):
        name = f"train.de-en.{language}"
        for suffix in ("bin", "idx"):
            path = f"{name}.{suffix}"
            assert (found / path).read_bytes() == (expected / path).read_bytes()
        assert (found / f"dict.{language}.txt").read_bytes() == dictionary.read_bytes()
        data = indexed_dataset.MMapIndexedDataset(str(found / name))
        unknown = sum(int((data[number] == 3).sum()) for number in range(len(data)))
        assert unknown == binarize.count_unknown(found / name) > 0


@pytest.mark.parametrize("size", [65_499, 65_500])
@pytest.mark.parametrize("sentences", [[], [[4, 65_498], [], [2]]])
def test_large_vocabularies_take_more_bytes(tmp_path, size, sentences):
    builder = indexed_dataset.make_builder(f"{tmp_path}/expected.bin", "mmap", size)
    for numbers in sentences:
        builder.add_item(torch.tensor(numbers))
    builder.finalize(f"{tmp_path}/expected.idx")
    binarize.write_numbers(tmp_path / "found", sentences, size)
    for suffix in ("bin", "idx"):
        expected = (tmp_path / f"expected.{suffix}").read_bytes()
        assert (tmp_path / f"found.{suffix}").read_bytes() == expected
    if sentences:
        opened = indexed_dataset.MMapIndexedDataset(str(tmp_path / "found"))
        assert [opened[i].tolist() for i in range(len(opened))] == sentences
        assert opened.sizes.dtype == np.int32


def test_a_text_that_is_missing(tmp_path):
    with pytest.raises(UserError, match=r"There is no file .*train\.de"):
        binarize.binarize(("de", "en"), {"train": tmp_path / "train"}, tmp_path, True)
