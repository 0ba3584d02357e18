"""Binarized data and dictionaries: one sentence that names a damaged or missing file."""

import logging
import os
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from fairseq.data.huffman import HuffmanMMapIndex
from fairseq.data.indexed_dataset import IndexedDataset, IndexedRawTextDataset
from omegaconf.errors import MissingMandatoryValue

from convs2s.checkpoints.folders import split_names
from convs2s.common.errors import UserError
from convs2s.common.plain_files import check_plain
from convs2s.common.text_files import read_lines, read_sentences
from convs2s.text.binarize import HEADER, MARK
from convs2s.text.subwords import check_codes
from convs2s.text.vocabulary import reading_errors

from .patches import Tier, patched

logger = logging.getLogger(__name__)

AGAIN = "run fairseq-preprocess again, or copy it again if that was interrupted"
# The types of numbers, by their code in an index.
TYPES = {
    **{1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64},
    **{8: np.uint16, 9: np.uint32, 10: np.uint64},
}
# The first bytes of an index, by --dataset-impl.
MARKS = {
    "mmap": MARK[:8],
    "cached": IndexedDataset._HDR_MAGIC,
    "lazy": IndexedDataset._HDR_MAGIC,
    "huffman": HuffmanMMapIndex._HDR_MAGIC[:8],
}


@patched(indexed_dataset, "make_dataset", Tier.EXTRA)
def make_dataset(
    original: Any, path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None
) -> Any:
    """Check the sizes and the tokens of binarized data before fairseq opens it.

    fairseq then also reads all of it. Without the check, damaged files cause an error without
    their names, or end a training run in the middle.
    """
    if impl != "raw":
        _check_pair(path)
    if impl in MARKS:
        _check_format(path, impl)
    if impl == "mmap" and os.path.isfile(f"{path}.idx"):
        check_binarized(path, None if dictionary is None else len(dictionary))
    try:
        # fairseq's cache lacks the sentences of the first batch.
        opened = "lazy" if impl == "cached" else impl
        return original(path, opened, fix_lua_indexing, dictionary)
    except (AssertionError, struct.error, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise _damaged(f"{path}.idx", "it is not an index of binarized data") from error


def check_binarized(path: str, vocab_size: int | None) -> None:
    """Check the index and the tokens of a data set.

    Args:
        path: path of the files ``.idx`` and ``.bin``, without these suffixes.
        vocab_size: number of tokens in the dictionary; None to check only the sizes.
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
            raise _damaged(index, "it is not an index of binarized data")
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


@patched(IndexedRawTextDataset, "read_data", Tier.EXTRA)
def read_data(
    original: Any, self: IndexedRawTextDataset, path: str, dictionary: Dictionary
) -> None:
    """Let lines of raw text end only at line feeds.

    fairseq also ends a line at a carriage return, so all further sentences of one language would
    be paired with the wrong translations.
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
    """Let the name of a file or folder contain a colon, like names with a time.

    Raises:
        UserError: if there is no name at all.
    """
    if paths is None:
        raise UserError(
            "A path is missing: give the folder of the data, and a checkpoint with --path where a "
            "model is used."
        )
    if "://" in paths or separator != os.pathsep:
        return original(paths, separator)
    return split_names(paths)


def _check_pair(path: str) -> None:
    """Check that both files are there, or none."""
    for file, other in ((f"{path}.idx", f"{path}.bin"), (f"{path}.bin", f"{path}.idx")):
        if os.path.isfile(file) and not os.path.isfile(other):
            raise UserError(f"There is no file {other}, which belongs to {file}: {AGAIN}.")


def _check_format(path: str, impl: str) -> None:
    """Check that binarized data do not have the format of another --dataset-impl."""
    index = f"{path}.idx"
    if not os.path.isfile(index):
        return
    with open(index, "rb") as file:
        mark = file.read(8)
    for other, known in MARKS.items():
        if mark == known != MARKS[impl]:
            raise UserError(
                f"{index} was written with --dataset-impl {other}, not {impl}: omit the option, or "
                f"run fairseq-preprocess with --dataset-impl {impl}."
            )


def _damaged(path: str, reason: str) -> UserError:
    return UserError(f"{path} is damaged: {reason}; {AGAIN}.")


@patched(indexed_dataset, "dataset_exists", Tier.EXTRA)
def dataset_exists(original: Any, path: str, impl: str) -> bool:
    """Report what is there if it is not what --dataset-impl asks for, such as text.

    fairseq says only that there is no data set.
    """
    found = original(path, impl)
    binarized = os.path.isfile(f"{path}.idx")
    if not found and impl == "raw" and binarized:
        raise UserError(
            f"--dataset-impl raw needs the text {path}, but there is only {path}.idx, which is "
            "binarized: omit the option."
        )
    if not found and impl == "huffman" and binarized:
        _check_format(path, impl)
    if not found and impl != "raw" and os.path.isfile(path):
        raise UserError(
            f"{path} is text, not binarized data: add --dataset-impl raw, or run "
            "fairseq-preprocess."
        )
    return found


@patched(IndexedDataset, "__getitem__", Tier.EXTRA)
def read_sentence(original: Any, self: IndexedDataset, index: int) -> Any:
    """Open the data of ``--dataset-impl lazy`` once in each process that reads batches.

    fairseq opens them before it starts these processes, which then move each other's position in
    the file, and read sentences that do not exist.
    """
    if getattr(self, "_convs2s_process", None) != os.getpid():
        self._convs2s_process, self.data_file = os.getpid(), None
    return original(self, index)


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
    """Name the file that has no codes of subword-nmt, such as a binary file."""
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
    """Name the file that is not a model of sentencepiece."""
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
    """Read embeddings from a plain file, and name it if it has no embeddings."""
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
