"""Binarized data and dictionaries: one sentence that names a damaged or missing file."""

import logging
import os
import re
import struct
from itertools import count
from typing import Any

import numpy as np
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from fairseq.data.huffman import HuffmanMMapIndex
from fairseq.data.indexed_dataset import IndexedDataset
from fairseq.tasks import translation
from omegaconf.errors import MissingMandatoryValue

from convs2s.common.errors import UserError
from convs2s.text.binarize import HEADER, MARK
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

    fairseq reads all of it then, too. Without the check, damaged files end in an error without
    their name, or in the middle of a training run.
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


def _check_pair(path: str) -> None:
    """Check that both files are there, or none."""
    for file, other in ((f"{path}.idx", f"{path}.bin"), (f"{path}.bin", f"{path}.idx")):
        if os.path.isfile(file) and not os.path.isfile(other):
            raise UserError(f"There is no file {other}, which belongs to {file}: {AGAIN}.")


def _check_format(path: str, impl: str) -> None:
    """Check that binarized data have not the format of another --dataset-impl."""
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
    """Say what is there if it is not what --dataset-impl asks for, such as text.

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
            f"{path} is text, and not binarized: add --dataset-impl raw, or run fairseq-preprocess."
        )
    return found


@patched(translation, "load_langpair_dataset", Tier.EXTRA)
def load_langpair_dataset(original: Any, *args: Any, **options: Any) -> Any:
    """Load several training sets, such as ``train`` and ``train1``, each once.

    fairseq's default of --upsample-primary, -1, is a number of copies that cannot be.
    """
    data_path, split = (*args, None, None)[:2]
    if options.get("combine") and data_path is not None:
        _warn_of_gaps(data_path, split)
    copies = options.get("upsample_primary", 1)
    if copies < -1:
        raise UserError(f"--upsample-primary is {copies}, but must be at least 0.")
    return original(*args, **{**options, "upsample_primary": 1 if copies == -1 else copies})


def _warn_of_gaps(folder: str, split: str) -> None:
    """Warn of sets such as ``train2`` that fairseq passes over because there is no ``train1``."""
    found = [re.match(rf"{re.escape(split)}(\d+)\.", name) for name in os.listdir(folder)]
    numbers = {int(match[1]) for match in found if match}
    missing = next(number for number in count(1) if number not in numbers)
    for number in sorted(numbers - {*range(missing)}):
        logger.warning(
            f"{folder}: {split}{number} is not used: there is no {split}{missing}, and sets are "
            "counted without gaps"
        )


@patched(IndexedDataset, "__getitem__", Tier.EXTRA)
def read_sentence(original: Any, self: IndexedDataset, index: int) -> Any:
    """Open the data of ``--dataset-impl lazy`` once in each process that reads batches.

    fairseq opens them before it starts these processes, which then move one another's position in
    the file, and read sentences that are not there.
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
    with reading_errors(f):
        original(self, f)


@patched(SubwordNMTBPE, "__init__", Tier.EXTRA)
def read_codes(original: Any, self: SubwordNMTBPE, cfg: Any) -> None:
    """Name the file that has no codes of subword-nmt, such as a binary one."""
    try:
        original(self, cfg)
    except MissingMandatoryValue as error:
        raise UserError("--bpe subword_nmt needs its codes: --bpe-codes FILE.") from error
    except (OSError, ValueError, SystemExit) as error:
        raise UserError(
            f"{cfg.bpe_codes} cannot be read as codes of subword-nmt (--bpe-codes)."
        ) from error


@patched(SentencepieceBPE, "__init__", Tier.EXTRA)
def read_sentencepiece_model(original: Any, self: SentencepieceBPE, cfg: Any) -> None:
    """Name the file that is no model of sentencepiece."""
    try:
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
