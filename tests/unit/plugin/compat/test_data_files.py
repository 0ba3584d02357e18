"""Damaged data: one sentence that names the file."""

import numpy as np
import pytest
from fairseq import utils
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.tasks import translation

from convs2s.common.errors import UserError
from convs2s.text.binarize import write_numbers
from convs2s_plugin.compat import data_sets
from convs2s_plugin.compat.data_files import check_binarized
from tests.support.adapters import dictionary


@pytest.fixture
def data(tmp_path):
    """Three sentences, the second one empty."""
    path = str(tmp_path / "train.de-en.de")
    builder = indexed_dataset.make_builder(f"{path}.bin", "mmap", vocab_size=35)
    for tokens in ([4, 5, 34], [], [6]):
        builder.add_item(np.array(tokens).view(Tokens))
    builder.finalize(f"{path}.idx")
    return path


class Tokens(np.ndarray):
    """What the builder takes: a tensor."""

    def numpy(self):
        return np.asarray(self)


def opened(path, symbols=None):
    return data_utils.load_indexed_dataset(path, symbols or dictionary(), None)


def test_whole_data_are_opened(data):
    assert [sentence.tolist() for sentence in opened(data)] == [[4, 5, 34], [], [6]]
    assert opened(f"{data}-no") is None


@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_every_length_of_a_cut_off_file_is_refused(data, suffix):
    file = f"{data}.{suffix}"
    with open(file, "rb") as whole:
        content = whole.read()
    for length in range(len(content)):
        with open(file, "wb") as cut:
            cut.write(content[:length])
        with pytest.raises(UserError, match="is damaged") as error:
            opened(data)
        assert file in str(error.value)


def test_every_changed_byte_of_an_index_is_refused_or_changes_nothing(data):
    with open(f"{data}.idx", "rb") as whole:
        content = whole.read()
    expected = [sentence.tolist() for sentence in opened(data)]
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            with open(f"{data}.idx", "wb") as file:
                file.write(changed)
            try:
                found = [sentence.tolist() for sentence in opened(data)]
            except UserError:
                continue
            assert found == expected


def test_tokens_outside_the_dictionary(data):
    check_binarized(data, 35)
    check_binarized(data, None)
    with pytest.raises(UserError, match="token 34, but its dictionary has 34"):
        check_binarized(data, 34)


@pytest.mark.parametrize("missing, kept", [("bin", "idx"), ("idx", "bin")])
def test_half_of_the_data(data, missing, kept, tmp_path):
    (tmp_path / f"train.de-en.de.{missing}").unlink()
    with pytest.raises(UserError, match=rf"no file \S+\.{missing}, which belongs to \S+\.{kept}"):
        indexed_dataset.make_dataset(data, "mmap")


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "There is no dictionary"),
        (b"\xff\xfe\x00", "is not a dictionary of fairseq"),
        (b"word\n", "is not a dictionary of fairseq"),
        (b"word many\n", "is not a dictionary of fairseq"),
        (b"word 1\nword 1\n", "is not a dictionary of fairseq"),
    ],
)
def test_dictionaries(content, message, tmp_path):
    path = tmp_path / "dict.de.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        Dictionary.load(str(path))
    assert str(path) in str(error.value)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        Dictionary.load(str(tmp_path))


def test_a_missing_folder(tmp_path):
    with pytest.raises(UserError, match="folder of the binarized data, cannot be read"):
        data_utils.infer_language_pair(str(tmp_path / "no"))


def write_pair(folder, source, target):
    """Binarized training data of two sides, and their dictionaries."""
    symbols = dictionary()
    for language, sentences in (("de", source), ("en", target)):
        write_numbers(folder / f"train.de-en.{language}", sentences, len(symbols))
    return symbols


def load(folder, symbols, impl="mmap", split="train"):
    arguments = str(folder), split, "de", symbols, "en", symbols
    options = {"combine": False, "dataset_impl": impl, "upsample_primary": 1}
    positions = {"max_source_positions": 99, "max_target_positions": 99}
    return translation.load_langpair_dataset(
        *arguments, **options, **positions, left_pad_source=True, left_pad_target=False
    )


def test_symbols_inside_sentences(tmp_path, monkeypatch):
    """fairseq-preprocess takes a word ``</s>`` of the text for the end of the sentence."""
    monkeypatch.setattr(data_sets, "PART", 2)
    good = [[4, 3, 2], [2], [5, 6, 7, 2]]
    assert len(load(tmp_path, write_pair(tmp_path, good, good))) == 3
    for symbol, name in enumerate(("<s>", "<pad>", "</s>")):
        for place, bad in (1, ([4, symbol, 2], [2])), (2, ([2], [symbol, 4, 2])):
            symbols = write_pair(tmp_path, good[:2], bad)
            message = f"Sentence {place} of the target text of train .*the special symbol {name} as"
            with pytest.raises(UserError, match=message):
                load(tmp_path, symbols)
    # A source may have several sentences.
    assert len(load(tmp_path, write_pair(tmp_path, [[4, 2, 5, 2]], [[2]]))) == 1
    with pytest.raises(UserError, match="of the source text of train .*<pad>"):
        load(tmp_path, write_pair(tmp_path, [[1, 2]], [[2]]))


def test_sides_of_different_length(tmp_path):
    with pytest.raises(UserError, match="train in .* more sentences in one language than"):
        load(tmp_path, write_pair(tmp_path, [[4, 2], [2]], [[4, 2]]))


def test_raw_text(tmp_path):
    """A carriage return ends no line, and words are no symbols."""
    (tmp_path / "train.de-en.de").write_bytes(b"a\rb\nc\r\n")
    (tmp_path / "train.de-en.en").write_bytes(b"a\nb\xe2\x80\xa8c\n")
    symbols = dictionary()
    dataset = load(tmp_path, symbols, "raw")
    assert [dataset.src.get_original_text(i) for i in (0, 1)] == ["a b", "c"]
    assert dataset.src_sizes.tolist() == [3, 2] and dataset.tgt_sizes.tolist() == [2, 3]
    (tmp_path / "train.de-en.en").write_bytes(b"a </s> b\nb\n")
    with pytest.raises(UserError, match="Sentence 1 of the target text of train"):
        load(tmp_path, symbols, "raw")


def test_colons_in_paths(tmp_path):
    folder = tmp_path / "run_12:30"
    assert utils.split_paths(str(folder)) == [str(tmp_path / "run_12"), "30"]
    folder.mkdir()
    assert utils.split_paths(str(folder)) == [str(folder)]
    assert utils.split_paths(f"{folder}:x:{folder}:{folder}/y") == [
        *(str(folder), "x", str(folder)),
        *(f"{tmp_path}/run_12", "30/y"),
    ]
    assert utils.split_paths("a\\b", "\\") == ["a", "b"]
