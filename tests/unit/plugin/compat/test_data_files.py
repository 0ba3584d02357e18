"""Damaged data: one sentence that names the file."""

import numpy as np
import pytest
from fairseq.data import Dictionary, data_utils, indexed_dataset

from convs2s.common.errors import UserError
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
