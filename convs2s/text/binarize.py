"""Dictionaries and binarized data, byte by byte as fairseq-preprocess writes them."""

import os
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ..common.errors import UserError
from ..common.progress import Progress
from ..common.text_files import read_sentences
from .sources import Languages
from .vocabulary import Vocabulary

# fairseq stores the numbers of a vocabulary of this size or more in 4 bytes instead of 2.
LARGE = 65_500
# Folders of further segmentations of the training text: this and a number, from 2 on.
SEGMENTATION = "segmentation"
# The beginning of an index: a mark, the version, the code of the numbers' type, their count.
HEADER = struct.Struct("<9sQBQ")
MARK, VERSION = b"MMIDIDX\x00\x00", 1
# Type of ``array`` -> its code.
CODES = {"H": 8, "I": 9}


def binarize(
    languages: Languages,
    texts: Mapping[str, Path],
    folder: Path,
    joined: bool,
    max_words: int | None = None,
    segmentations: Sequence[str] = (),
) -> dict[str, int]:
    """Write ``dict.LANGUAGE.txt``, and ``SPLIT.SOURCE-TARGET.LANGUAGE.bin`` and ``.idx``.

    Args:
        languages: source and target.
        texts: split -> its text, without the suffixes of the languages; "train" must be there.
        folder: the folder to write to.
        joined: one dictionary for both languages.
        max_words: most entries of a dictionary, the special symbols included (None: no limit).
        segmentations: names in ``texts`` of further ones of the training text. Each is written as
            "train" to a folder of its own, of this name, and the dictionaries have its sub-words.
    Returns:
        split or segmentation -> number of sentences.
    Raises:
        UserError: if a text cannot be read, or has other lines in one language than in the other.
    """

    def vocabulary(names: Sequence[str]) -> Vocabulary:
        splits = ["train", *segmentations]
        lines = (_lines(texts, split, name) for name in names for split in splits)
        return build(chain.from_iterable(lines), max_words)

    both = vocabulary(languages) if joined else None
    counts: dict[str, int] = {}
    for language in languages:
        symbols = both or vocabulary([language])
        symbols.save(folder / f"dict.{language}.txt")
        for split in texts:
            place, name = (folder / split, "train") if split in segmentations else (folder, split)
            place.mkdir(exist_ok=True)
            path = place / f"{name}.{'-'.join(languages)}.{language}"
            numbers = map(symbols.encode_line, _lines(texts, split, language))
            count = write_numbers(path, numbers, len(symbols))
            check_count(counts.setdefault(split, count), f"{texts[split]}.{language}", count)
    return counts


def check_count(expected: int, name: str, found: int) -> None:
    """Check that a text has the sentences that it had in the stage before.

    Raises:
        UserError: if it does not: each line after the fault would belong to another one.
    """
    if found != expected:
        raise UserError(
            f"{name} has {found:,} lines instead of {expected:,}: a file was changed, or cut off, "
            "while it was used. Prepare the text again."
        )


def build(lines: Iterable[str], max_words: int | None = None) -> Vocabulary:
    """The vocabulary of a text, as fairseq-preprocess makes it.

    Args:
        lines: the text.
        max_words: most entries, the special symbols included (None: no limit).
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    symbols = Vocabulary()
    for word, count in counts.items():
        symbols.add_symbol(word, count)
    symbols.finalize(nwords=max_words or -1)
    return symbols


def write_numbers(path: Path, sentences: Iterable[Sequence[int]], size: int) -> int:
    """Write sentences in fairseq's format "mmap", and return their number.

    Args:
        path: of ``.bin`` and ``.idx``, without these.
        sentences: the numbers of each.
        size: of the vocabulary.
    """
    kind = "H" if size < LARGE else "I"
    lengths, starts = array("i"), array("q")
    start = 0
    with open(f"{path}.bin", "wb") as data:
        for numbers in sentences:
            array(kind, numbers).tofile(data)
            lengths.append(len(numbers))
            starts.append(start)
            start += len(numbers) * array(kind).itemsize
    with open(f"{path}.idx", "wb") as index:
        index.write(HEADER.pack(MARK, VERSION, CODES[kind], len(lengths)))
        lengths.tofile(index)
        starts.tofile(index)
    return len(lengths)


def training_folders(folder: Path) -> list[Path]:
    """The folders that epochs of a training take in turn.

    Args:
        folder: binarized data; it is the first one, those of its segmentations follow.
    """
    found = [folder / f"{SEGMENTATION}2"]
    while found[-1].is_dir():
        found.append(folder / f"{SEGMENTATION}{len(found) + 2}")
    return [folder, *found[:-1]]


def training_data(folder: Path) -> str:
    """What fairseq-train takes as its data: the folders of the training, joined."""
    return os.pathsep.join(map(str, training_folders(folder)))


def count_sentences(path: Path) -> int | None:
    """The number of sentences in binarized data; None if there are none in the format "mmap".

    Args:
        path: of ``.bin`` and ``.idx``, without these.
    """
    try:
        with open(f"{path}.idx", "rb") as index:
            mark, _, _, count = HEADER.unpack(index.read(HEADER.size))
    except (OSError, struct.error):
        return None
    return int(count) if mark == MARK else None


def count_tokens(path: Path) -> int:
    """The number of tokens that ``write_numbers`` has written."""
    code = HEADER.unpack(Path(f"{path}.idx").read_bytes()[: HEADER.size])[2]
    kind = next(kind for kind, known in CODES.items() if known == code)
    return Path(f"{path}.bin").stat().st_size // array(kind).itemsize


def _lines(texts: Mapping[str, Path], split: str, language: str) -> Iterable[str]:
    lines = read_sentences(f"{texts[split]}.{language}")
    return Progress(lines, "lines", f"Binarizing {split}.{language}")
