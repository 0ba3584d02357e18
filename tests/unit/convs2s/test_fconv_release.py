"""Which files of a released archive are needed."""

from pathlib import PurePosixPath

import pytest

from convs2s_plugin.convs2s.fconv_release import is_wanted


@pytest.mark.parametrize(
    "name",
    [
        *("wmt14.en-de/model.pt", "a/dict.en.txt", "dict.zh_CN.txt", "data_bin/dict.src.txt"),
        *("a/bpecodes", "code", "codes.bpe", "bpe.codes", "bpe_codes.32k", "x/train.bpe.model"),
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
