"""Finding text in a folder."""

import bz2
import lzma

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments.data import TextFolder, unpack_pair


@pytest.fixture
def folder(tmp_path):
    """Makes a folder with files of both languages."""

    def make(*names):
        for name in names:
            (tmp_path / name).touch()
        return TextFolder(tmp_path, ("de", "en"))

    return make


def test_first_name_that_exists(folder):
    text = folder("val.de", "val.tok.en", "other.fr")
    name, pair = text.first(["valid", "val"])
    assert name == "val" and [path.name for path in pair] == ["val.de", "val.tok.en"]


@pytest.mark.parametrize(
    "files, patterns, names",
    [
        (("test_2", "test_1", "train"), ["test*"], ["test_1", "test_2"]),
        (("test_2.tok", "test_1.tok"), ["test_2", "test*"], ["test_2", "test_1"]),
        (("tst.2012", "tst.2013"), ["tst*"], ["tst.2012", "tst.2013"]),
        (("tst.2012", "tst.2013"), ["tst.2013"], ["tst.2013"]),
    ],
)
def test_names_of_test_sets(folder, files, patterns, names):
    text = folder(*(f"{file}.{language}" for file in files for language in ("de", "en")))
    assert list(text.all(patterns, [])) == names


def test_errors(folder, tmp_path):
    text = folder("a.de", "a.x.de", "a.en", "b.de")
    with pytest.raises(UserError, match=r"one file of a in de .* a.de, a.x.de"):
        text.first(["a"])
    with pytest.raises(UserError, match="one file of b in en .* b.de"):
        text.first(["b"])
    with pytest.raises(UserError, match="no file c or d .* c.de.gz"):
        text.first(["c", "d"])
    with pytest.raises(UserError, match="no test set b or c"):
        text.all(["b", "c"], [])


def test_unpack(tmp_path):
    languages, out = ("de", "en"), tmp_path / "out"
    pair = (tmp_path / "a.de.bz2", tmp_path / "a.en.xz")
    pair[0].write_bytes(bz2.compress("ä\u2028b\nc".encode()))
    pair[1].write_bytes(lzma.compress(b"d\ne\n"))
    assert unpack_pair(pair, out, "b", languages) == 2
    assert (out / "b.de").read_bytes() == "ä b\nc\n".encode()
    pair[1].write_bytes(lzma.compress(b"d\n"))
    with pytest.raises(UserError, match=r"a.de.bz2, line 2: .*a.en.xz has no such line"):
        unpack_pair(pair, out, "b", languages)
    pair[1].write_bytes(b"d\n")
    with pytest.raises(UserError, match="a.en.xz cannot be read beyond line 0"):
        unpack_pair(pair, out, "b", languages)
