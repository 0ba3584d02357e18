"""Binarized data and dictionaries: one sentence that names a damaged or missing file."""

import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from fairseq.data.indexed_dataset import IndexedRawTextDataset
from fairseq.tasks import translation
from omegaconf.errors import MissingMandatoryValue

from convs2s.checkpoints.folders import split_names
from convs2s.common.errors import UserError
from convs2s.common.plain_files import check_plain
from convs2s.common.text_files import read_lines, read_sentences
from convs2s.text.binarize import HEADER, MARK
from convs2s.text.subwords import check_codes
from convs2s.text.vocabulary import reading_errors

from .patches import Tier, patched

AGAIN = "run fairseq-preprocess again, or copy it again if that was interrupted"
# So many tokens are looked at together.
PART = 1 << 24
# The types of numbers, by their code in an index.
TYPES = {
    **{1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64},
    **{8: np.uint16, 9: np.uint32, 10: np.uint64},
}


@patched(indexed_dataset, "make_dataset", Tier.EXTRA)
def make_dataset(
    original: Any, path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None
) -> Any:
    """Check the sizes and the tokens of binarized data before fairseq opens it.

    fairseq reads all of it then, too. Without the check, damaged files end in an error without
    their name, or in the middle of a training run.
    """
    if impl != "raw":
        _check_pair(path)
    if impl == "mmap" and os.path.isfile(f"{path}.idx"):
        check_binarized(path, None if dictionary is None else len(dictionary))
    try:
        return original(path, impl, fix_lua_indexing, dictionary)
    except (AssertionError, struct.error, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise _damaged(f"{path}.idx", "it is no index of binarized data") from error


def check_binarized(path: str, vocab_size: int | None) -> None:
    """Check the index and the tokens of a data set.

    Args:
        path: of ``.idx`` and ``.bin``, without these.
        vocab_size: number of tokens in the dictionary; None to check the sizes only.
    Raises:
        UserError: if a file has another size than it should have, or if a token is not in the
            dictionary.
    """
    index, data = f"{path}.idx", f"{path}.bin"
    with open(index, "rb") as file:
        header = file.read(HEADER.size)
        if len(header) < HEADER.size:
            raise _damaged(index, f"it has {len(header)} bytes")
        mark, _, code, count = HEADER.unpack(header)
        if mark != MARK or code not in TYPES:
            raise _damaged(index, "it is no index of binarized data")
        expected = HEADER.size + 12 * count
        if os.path.getsize(index) != expected:
            raise _damaged(
                index,
                f"it has {os.path.getsize(index):,} bytes, but {count:,} sentences take "
                f"{expected:,}",
            )
        sizes = np.fromfile(file, np.int32, count).astype(np.int64)
        starts = np.fromfile(file, np.int64, count)
    item = np.dtype(TYPES[code]).itemsize
    if count and (sizes.min() < 0 or not np.array_equal(starts, (sizes.cumsum() - sizes) * item)):
        raise _damaged(index, "its sizes and positions disagree")
    expected = int(sizes.sum()) * item
    if os.path.getsize(data) != expected:
        raise _damaged(
            data, f"it has {os.path.getsize(data):,} bytes, but its index describes {expected:,}"
        )
    if vocab_size is not None and expected:
        _check_tokens(data, np.memmap(data, TYPES[code], "r"), vocab_size)


def _check_tokens(path: str, tokens: np.ndarray, vocab_size: int) -> None:
    for token in (int(tokens.max()), int(tokens.min())):
        if not 0 <= token < vocab_size:
            raise _damaged(
                path,
                f"it has the token {token}, but its dictionary has {vocab_size:,}; or it was "
                "binarized with another dictionary",
            )


@patched(translation, "load_langpair_dataset", Tier.EXTRA)
def load_langpair_dataset(
    original: Any, data_path: str, split: str, src: str, src_dict: Any, *args: Any, **kwargs: Any
) -> Any:
    """Refuse parallel text whose sides differ in length, and words that became special symbols.

    A sentence of the training text cannot have the symbol of the end in its middle: the model would
    learn to end its translations there.
    """
    try:
        dataset = original(data_path, split, src, src_dict, *args, **kwargs)
    except AssertionError as error:
        if "same number" not in str(error):
            raise
        raise UserError(
            f"{split} in {data_path} has more sentences in one language than in the other, so "
            f"that they do not belong together: prepare the text again."
        ) from error
    for side, symbols in ((dataset.src, dataset.src_dict), (dataset.tgt, dataset.tgt_dict)):
        if side is not None and symbols is not None:
            what = "source" if side is dataset.src else "target"
            _check_symbols(side, symbols, f"the {what} text of {split} in {data_path}")
    return dataset


def _check_symbols(dataset: Any, symbols: Dictionary, name: str) -> None:
    """Check that special symbols stand at the ends of sentences only.

    Args:
        dataset: the sentences of one language; wrappers of fairseq are looked into.
        symbols: its dictionary.
        name: of the text, for the error.
    """
    for part in getattr(dataset, "datasets", [dataset]):
        while hasattr(part, "dataset"):
            part = part.dataset
        found = _symbol_inside(part, (symbols.bos(), symbols.pad(), symbols.eos()))
        if found is not None:
            number, token = found
            raise UserError(
                f"Sentence {number + 1:,} of {name} has the special symbol {symbols[token]} as a "
                "word, and a model would learn to end or to fill sentences there: remove it from "
                "the text, or prepare that with `convs2s prepare`, which keeps such words apart."
            )


def _symbol_inside(dataset: Any, special: Iterable[int]) -> tuple[int, int] | None:
    """The number of the first sentence with a special symbol before its end, and the symbol."""
    lowest = max(special)
    if isinstance(dataset, indexed_dataset.MMapIndexedDataset):
        sizes = dataset.sizes.astype(np.int64)
        tokens = np.frombuffer(dataset._bin_buffer, dataset._index.dtype)
        ends = sizes.cumsum() - 1
        # Parts, so that little memory is used.
        for start in range(0, len(tokens), PART):
            places = start + np.flatnonzero(tokens[start : start + PART] <= lowest)
            sentences = np.searchsorted(ends, places)
            inside = np.flatnonzero(ends[sentences] != places)
            if len(inside):
                return int(sentences[inside[0]]), int(tokens[places[inside[0]]])
        return None
    for number in range(0 if getattr(dataset, "supports_prefetch", False) else len(dataset)):
        sentence = dataset[number][:-1]
        if len(sentence) and int(sentence.min()) <= lowest:
            return number, int(sentence.min())
    return None


@patched(IndexedRawTextDataset, "read_data", Tier.EXTRA)
def read_data(
    original: Any, self: IndexedRawTextDataset, path: str, dictionary: Dictionary
) -> None:
    """Let lines of raw text end at line feeds only.

    fairseq ends a line at a carriage return too, so that all further sentences of one language are
    translations of others.
    """
    self.lines = [*read_sentences(path)]
    options = {"append_eos": self.append_eos, "reverse_order": self.reverse_order}
    self.tokens_list = [
        dictionary.encode_line(line, add_if_not_exist=False, **options).long()
        for line in self.lines
    ]
    self.sizes = np.array([*map(len, self.tokens_list)])


@patched(utils, "split_paths", Tier.EXTRA)
def split_paths(original: Any, paths: str, separator: str = os.pathsep) -> list[str]:
    """Let a file or folder have a colon in its name, as those named after a time have."""
    if "://" in paths or separator != os.pathsep:
        return original(paths, separator)
    return split_names(paths)


def _check_pair(path: str) -> None:
    """Check that both files are there, or none."""
    for file, other in ((f"{path}.idx", f"{path}.bin"), (f"{path}.bin", f"{path}.idx")):
        if os.path.isfile(file) and not os.path.isfile(other):
            raise UserError(f"There is no file {other}, which belongs to {file}: {AGAIN}.")


def _damaged(path: str, reason: str) -> UserError:
    return UserError(f"{path} is damaged: {reason}; {AGAIN}.")


@patched(data_utils, "infer_language_pair", Tier.EXTRA)
def infer_language_pair(original: Any, path: str) -> Any:
    """Name a folder of binarized data that is missing."""
    try:
        return original(path)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise UserError(
            f"{path}, the folder of the binarized data, {reason}. Give the folder that "
            "fairseq-preprocess wrote (--destdir)."
        ) from error


@patched(Dictionary, "add_from_file", Tier.EXTRA)
def add_from_file(original: Any, self: Dictionary, f: Any) -> None:
    """Name the dictionary that is missing or damaged."""
    if not isinstance(f, str):
        return original(self, f)
    check_plain(f, "a dictionary")
    with reading_errors(f):
        original(self, f)


@patched(SubwordNMTBPE, "__init__", Tier.EXTRA)
def read_codes(original: Any, self: SubwordNMTBPE, cfg: Any) -> None:
    """Name the file that has no codes of subword-nmt, such as a binary one."""
    try:
        check_plain(cfg.bpe_codes)
        original(self, cfg)
    except MissingMandatoryValue as error:
        raise UserError("--bpe subword_nmt needs its codes: --bpe-codes FILE.") from error
    except (OSError, ValueError, SystemExit) as error:
        raise UserError(
            f"{cfg.bpe_codes} cannot be read as codes of subword-nmt (--bpe-codes)."
        ) from error
    check_codes(self.bpe, cfg.bpe_codes)


@patched(SentencepieceBPE, "__init__", Tier.EXTRA)
def read_sentencepiece_model(original: Any, self: SentencepieceBPE, cfg: Any) -> None:
    """Name the file that is no model of sentencepiece."""
    try:
        check_plain(cfg.sentencepiece_model)
        original(self, cfg)
    except MissingMandatoryValue as error:
        raise UserError(
            "--bpe sentencepiece needs its model: --sentencepiece-model FILE."
        ) from error
    except ImportError as error:
        raise UserError(
            "--bpe sentencepiece needs sentencepiece: run `pip install sentencepiece`."
        ) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{cfg.sentencepiece_model} cannot be read as a model of sentencepiece "
            "(--sentencepiece-model)."
        ) from error


@patched(utils, "parse_embedding", Tier.EXTRA)
def parse_embedding(original: Any, embed_path: str) -> dict[str, torch.Tensor]:
    """Read embeddings from a plain file, and name it if it has none."""
    return dict(read_embeddings(embed_path))


def read_embeddings(path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The words in a file of embeddings, each with its vector.

    Args:
        path: a plain file: a header, then a word and its numbers on each line.
    Raises:
        UserError: if it cannot be read.
    """
    number = 0
    try:
        check_plain(path, "a file of embeddings")
        for number, line in enumerate(read_lines(path), start=1):
            word, *numbers = line.rstrip().split(" ")
            if number > 1:
                yield word, torch.tensor([float(each) for each in numbers])
    except ValueError as error:
        reason = error if isinstance(error, UserError) else f"line {number} has {error}"
        raise UserError(
            f"The embeddings in {path} cannot be read: {str(reason).removesuffix('.')}."
        ) from error
    if not number:
        raise UserError(f"The embeddings in {path} cannot be read: it is empty.")
