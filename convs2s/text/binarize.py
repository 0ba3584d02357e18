"""Dictionaries and binarized data, byte by byte as fairseq-preprocess writes them."""

import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..common.progress import Progress
from ..common.text_files import read_lines
from .sources import Languages
from .vocabulary import Vocabulary

# fairseq stores the numbers of a vocabulary of this size or more in 4 bytes instead of 2.
LARGE = 65_500
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
) -> None:
    """Write ``dict.LANGUAGE.txt``, and ``SPLIT.SOURCE-TARGET.LANGUAGE.bin`` and ``.idx``.

    Args:
        languages: source and target.
        texts: split -> its text, without the suffixes of the languages; "train" must be there.
        folder: the folder to write to.
        joined: one dictionary for both languages.
        max_words: most entries of a dictionary, the special symbols included (None: no limit).
    Raises:
        UserError: if a text cannot be read.
    """

    def vocabulary(names: Sequence[str]) -> Vocabulary:
        return build((line for name in names for line in _lines(texts, "train", name)), max_words)

    both = vocabulary(languages) if joined else None
    for language in languages:
        symbols = both or vocabulary([language])
        symbols.save(folder / f"dict.{language}.txt")
        for split in texts:
            path = folder / f"{split}.{'-'.join(languages)}.{language}"
            numbers = map(symbols.encode_line, _lines(texts, split, language))
            write_numbers(path, numbers, len(symbols))


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


def write_numbers(path: Path, sentences: Iterable[Sequence[int]], size: int) -> None:
    """Write sentences in fairseq's format "mmap".

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


def count_tokens(path: Path) -> int:
    """The number of tokens that ``write_numbers`` has written."""
    code = HEADER.unpack(Path(f"{path}.idx").read_bytes()[: HEADER.size])[2]
    kind = next(kind for kind, known in CODES.items() if known == code)
    return Path(f"{path}.bin").stat().st_size // array(kind).itemsize


def _lines(texts: Mapping[str, Path], split: str, language: str) -> Iterable[str]:
    lines = read_lines(f"{texts[split]}.{language}")
    return Progress(lines, "lines", f"Binarizing {split}.{language}")
