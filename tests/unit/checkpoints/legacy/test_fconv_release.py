"""Which files of a released archive are needed, and what its dictionaries hold."""

from pathlib import Path, PurePosixPath

import pytest

from convs2s.checkpoints.legacy.fconv_release import (
    _named_languages,
    _read_dictionary,
    is_wanted,
)
from convs2s.common.errors import UserError


@pytest.mark.parametrize(
    "name",
    [
        "wmt14.en-de/model.pt",
        "a/dict.en.txt",
        "dict.zh_CN.txt",
        "data_bin/dict.src.txt",
        "a/bpecodes",
        "code",
        "codes.bpe",
        "bpe.codes",
        "bpe_codes.32k",
        "x/train.bpe.model",
    ],
)
def test_needed(name):
    assert is_wanted(PurePosixPath(name))


@pytest.mark.parametrize(
    "name",
    ["README.md", "code.py", "codes/README", "lm/94Bcclm.trie", "dict.txt", "wiki_model.vec"],
)
def test_not_needed(name):
    assert not is_wanted(PurePosixPath(name))


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("https://host/models/wmt14.v2.en-de.fconv-py.tar.bz2, model.pt", ("en", "de")),
        ("wmt14.en-fr.fconv-py", (None, None)),
        ("de-en/en-de", (None, None)),
        ("golden-delight", (None, None)),
        ("release", (None, None)),
    ],
)
def test_languages_in_a_name(name, languages):
    files = [Path("a/dict.de.txt"), Path("a/dict.en.txt"), Path("a/model.pt")]
    assert _named_languages(files, name) == languages


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eins 3\nzwei 2\n",
        "eins 3 \nzwei -2",
        "mit leer 1\n 1\n",
        "<pad> 1 #fairseq:overwrite\neins 1\neins 2 #fairseq:overwrite\n",
        "\u00e4 1\n\u3000\u3000 2\n",
        "eins\n",
        "eins x\n",
        "eins 1\neins 1\n",
        "</s> 1\n",
        "\n",
        b"\xff 1\n",
    ],
)
def test_dictionaries_are_read_as_fairseq_reads_them(text, tmp_path):
    dictionary = pytest.importorskip("fairseq.data").Dictionary
    path = tmp_path / "dict.de.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    try:
        expected = dictionary.load(str(path)).symbols
    except Exception:
        with pytest.raises(UserError, match="dict.de.txt is not a dictionary of fairseq: "):
            _read_dictionary(path)
    else:
        assert _read_dictionary(path) == expected
