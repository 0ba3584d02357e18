"""Which files of a released archive are needed, and which languages its name has."""

from pathlib import Path, PurePosixPath

import pytest
import torch

from convs2s.checkpoints.legacy.releases import (
    _codes,
    _dictionary,
    _named_languages,
    convert_file,
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


def test_files_of_the_same_name(tmp_path):
    """Copies are one file; of others, none is chosen."""
    files = [tmp_path / folder / name for folder in "ab" for name in ("bpecodes", "dict.de.txt")]
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_text("same")
    assert _codes(tmp_path, files, "it") == files[0] and _codes(tmp_path, [], "it") is None
    assert _dictionary(tmp_path, files, "de", "it") == files[1]
    for path in files[2:]:
        path.write_text("other")
    with pytest.raises(UserError, match="it has several files of BPE codes: a/bpecodes, b/bpec"):
        _codes(tmp_path, files, "it")
    with pytest.raises(UserError, match="it has several dictionaries of 'de': a/dict.de.txt, b/"):
        _dictionary(tmp_path, files, "de", "it")


def test_a_checkpoint_that_contradicts_itself_is_named(tmp_path):
    torch.save({"model": {"weight": torch.zeros(3)}}, tmp_path / "old.pt")
    with pytest.raises(UserError, match="the file has options or weights that contradict"):
        convert_file(
            lambda content, name: content["model"]["weight"].view(2, 2),
            tmp_path / "old.pt",
            "the file",
        )
