"""Training data from the translations of other systems."""

from array import array
from dataclasses import replace

import pytest

from convs2s.experiments.commands import Data
from convs2s.experiments.translated import (
    back_translated_pairs,
    translated_pairs,
    write_training_data,
)
from convs2s.text.binarize import binarize
from convs2s.text.vocabulary import Vocabulary

TEXT = {"train": ["a b", "b b c"], "valid": ["c"], "test": ["a"]}
# The second sentence was too long, the first one has two translations.
FORWARD = "S-0\ta b\nT-0\tB A\nH-0\t-0.5\tA B\nH-0\t-0.7\tA\nD-0\t-0.5\tA B\nS-1\tc\nS-2\t<unk> c\n"
BACKWARD = "S-1\tC\nH-1\t-0.1\tc a\n"


@pytest.fixture
def data(tmp_path):
    """Binarized data whose targets are the sources in capitals."""
    texts = {}
    for split, lines in {**TEXT, "segmentation2": ["a b", "c"]}.items():
        texts[split] = tmp_path / split
        for language, change in (("de", str), ("en", str.upper)):
            text = "".join(change(line) + "\n" for line in lines)
            (tmp_path / f"{split}.{language}").write_text(text)
    folder = tmp_path / "data-bin"
    folder.mkdir()
    binarize(("de", "en"), texts, folder, False, segmentations=["segmentation2"])
    return Data(folder, "de", "en", {"test": "test"})


def sentences(data, path):
    """The sentences of binarized data, with its symbols."""
    language = path.name.rpartition(".")[2]
    symbols = Vocabulary.load(data.bin / f"dict.{language}.txt").symbols
    numbers = array("H", path.with_name(f"{path.name}.bin").read_bytes())
    text = " ".join(symbols[number] for number in numbers)
    return [line.strip() for line in text.split("</s>")[:-1]]


def files(folder):
    return sorted(path.name.removesuffix(".bin") for path in folder.glob("*.bin"))


@pytest.mark.parametrize("text", [True, False])
def test_the_pairs(text, data, tmp_path):
    outputs = tmp_path / "forward.out", tmp_path / "backward.out"
    for output, content in zip(outputs, (FORWARD + "H-2\t-1\tC\n", BACKWARD)):
        output.write_text(content)
    folder = tmp_path / "made"
    translated = [
        translated_pairs(outputs[0], "de", "en"),
        translated_pairs(outputs[1], "en", "de"),
    ]
    for _ in range(2):
        write_training_data(folder, data, translated, text)
    names = ["train", "train1", "train2"] if text else ["train", "train1"]
    expected = {"train": (TEXT["train"], ["A B", "B B C"])} if text else {}
    expected[names[-2]] = (["a b", "a b", "<unk> c"], ["A B", "A", "C"])
    expected[names[-1]] = (["c a"], ["C"])
    both = [f"{name}.de-en.{language}" for name in [*names, "valid"] for language in ("de", "en")]
    assert files(folder) == sorted(both)
    for name, pair in expected.items():
        found = [sentences(data, folder / f"{name}.de-en.{language}") for language in ("de", "en")]
        assert found == [*pair]
    shard = folder / "segmentation2"
    assert shard.exists() == text
    if text:
        assert files(shard) == [name for name in both if "valid" not in name]
        assert sentences(data, shard / "train.de-en.de") == ["a b", "c"]
        assert sentences(data, shard / "train2.de-en.de") == ["c a"]
        assert all((shard / f"{name}.idx").exists() for name in files(shard))


@pytest.mark.parametrize(("tag", "begin"), [(False, ""), (True, "<unk> ")])
def test_back_translations(tag, begin, data, tmp_path):
    """An empty translation is one, too."""
    (tmp_path / "monolingual.en").write_text("A B\nC\n")
    (tmp_path / "translated").write_text("b a\n\n")
    data = replace(data, monolingual=tmp_path / "monolingual.en")
    pairs = back_translated_pairs(tmp_path / "translated", data, tag)
    write_training_data(tmp_path / "made", data, [pairs], True)
    made = tmp_path / "made"
    assert sentences(data, made / "train1.de-en.en") == ["A B", "C"]
    assert sentences(data, made / "train1.de-en.de") == [f"{begin}b a", begin.strip()]
    assert sentences(data, made / "train.de-en.de") == TEXT["train"]
