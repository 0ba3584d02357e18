"""Vocabularies of the 2018 code for pervasive attention, and fairseq's dictionaries from them."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..common.errors import UserError
from ..common.text_files import read_lines
from . import inert_pickle

# The 2018 code's special tokens in the order of fairseq's, which are <s>, <pad>, </s>, <unk>.
SPECIAL = ("<BOS>", "<PAD>", "<EOS>", "<UNK>")
OF_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
# The order in which the 2018 code puts those in front that a text file does not have.
INSERTED = ("<BOS>", "<EOS>", "<UNK>", "<PAD>")
PICKLE = b"\x80"


def read_vocabulary(path: str) -> list[str]:
    """The tokens of a vocabulary, in the order of their embeddings.

    Args:
        path: the file ``LANGUAGE.infos`` that the code's ``preprocess.py`` wrote, or the text file
            ``vocab.LANGUAGE`` that it read or wrote, with one token a line. Nothing in it is
            executed.
    Raises:
        UserError: if it cannot be read, or has no special tokens.
    """
    try:
        with open(path, "rb") as file:
            is_pickle = file.read(1) == PICKLE
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    if is_pickle:
        tokens = list(_tokens(_unpickle(path), path))
        missing = [token for token in SPECIAL if token not in tokens]
        if missing:
            raise UserError(f"{path} has no {', '.join(missing)}, which the 2018 code adds.")
        return tokens
    tokens = [line.strip() for line in read_lines(path)]
    for token in INSERTED:
        if token not in tokens:
            tokens.insert(0, token)
    return tokens


def _unpickle(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return inert_pickle.load(file)
    except Exception as error:
        raise UserError(f"{path} is not a vocabulary of the 2018 code: it is damaged.") from error


def _tokens(content: Any, path: str) -> Iterator[str]:
    """The tokens in ``itow``, which maps indices to them."""
    words = content.get("itow") if isinstance(content, dict) else None
    if not isinstance(words, dict):
        raise UserError(f"{path} is not a vocabulary of the 2018 code: it has no entry itow.")
    for index in range(len(words)):
        word = words.get(index)
        if not isinstance(word, str):
            raise UserError(f"{path} has no token {index} of {len(words):,} in its entry itow.")
        yield word


def dictionary_rows(tokens: Sequence[str]) -> list[int]:
    """The index in the vocabulary of each token of fairseq's dictionary."""
    # As in the 2018 code, the last of several equal tokens counts.
    indices = {token: index for index, token in enumerate(tokens)}
    special = [indices[token] for token in SPECIAL]
    return [*special, *(index for index in range(len(tokens)) if index not in special)]


def dictionary_text(tokens: Sequence[str]) -> str:
    """The file ``dict.LANGUAGE.txt``; the vocabulary has no counts, so that each is 1."""
    seen = set(OF_FAIRSEQ)
    lines = []
    for index in dictionary_rows(tokens)[len(SPECIAL) :]:
        repeated = " #fairseq:overwrite" if tokens[index] in seen else ""
        seen.add(tokens[index])
        lines.append(f"{tokens[index]} 1{repeated}\n")
    return "".join(lines)
