"""What is wrong with commands of fairseq, found without carrying them out."""

import shutil

import pytest

from convs2s_plugin.checks import check
from tests.support.commands import train_arguments


def faults(corpus, tmp_path, *arguments):
    words = train_arguments(corpus, tmp_path, "--source-lang", "de", "--target-lang", "en")
    (found,) = check([["fairseq-train", *map(str, words), *arguments]], joined=False)
    return found


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--optimizer", "metaadam"), "optimizer"),
        (("--encoder-layers", "[(32, 3)] * meta"), "encoder-layers"),
    ],
)
def test_a_value_may_be_called_meta(arguments, option, corpus, tmp_path):
    ((name, _),) = faults(corpus, tmp_path, *arguments)
    assert name == option


def test_the_dictionaries_of_several_folders_are_those_of_the_first(corpus, tmp_path):
    """As ``convs2s prepare --bpe-dropout`` makes them."""
    for language in ("de", "en"):
        shutil.copy(corpus / "bin" / "dict.de.txt", tmp_path / f"dict.{language}.txt")
    several = f"{tmp_path}:{tmp_path}/segmentation2"
    words = train_arguments(corpus, tmp_path, "--source-lang", "de", "--target-lang", "en")
    words = [several, *map(str, words[1:]), "--share-all-embeddings"]
    assert check([["fairseq-train", *words]], joined=False) == [[]]
