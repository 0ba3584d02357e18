"""Dictionaries and binarized data, byte by byte as fairseq-preprocess writes them."""

import os
import shutil
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path

from ..common.output_files import make_folder
from ..common.shards import WHOLE
from ..common.text_files import count_lines, read_parts
from . import parts
from .parallel import mapper
from .parts import join, part, part_sizes, read_counts, write_parts
from .sources import Languages
from .vocabulary import Vocabulary

# fairseq stores the numbers of a vocabulary of this size or more in 4 bytes instead of 2.
LARGE = 65_500
# Folders of further segmentations of the training text: this and a number, from 2 on.
SEGMENTATION = "segmentation"
# The folder of the parts until everything is written, and the name of the numbers in each.
PARTS, NUMBERS = "parts", "numbers"
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
    workers: int = 1,
    dictionaries: Sequence[Path] = (),
) -> dict[str, int]:
    """Write ``dict.LANGUAGE.txt``, and ``SPLIT.SOURCE-TARGET.LANGUAGE.bin`` and ``.idx``.

    A later call, after this one was killed, continues with the parts that are not there.

    Args:
        languages: source and target.
        texts: split -> its text, without the suffixes of the languages; "train" must be there.
        folder: the folder to write to.
        joined: whether both languages share a dictionary.
        max_words: most entries of a dictionary, the special symbols included (None: no limit).
        segmentations: names in ``texts`` of further ones of the training text. Each is written as
            "train" to its own folder of this name, and the dictionaries have its sub-words.
        workers: number of processes.
        dictionaries: those of source and target; none to make them of the training text.
    Returns:
        split or segmentation -> number of sentences.
    Raises:
        UserError: if a text cannot be read, or has different numbers of lines in the two languages.
    """
    work = folder / PARTS
    make_folder(str(work))
    sizes = {
        split: part_sizes(count_lines([f"{text}.{language}" for language in languages]))
        for split, text in texts.items()
    }

    def vocabulary(names: Sequence[str]) -> Vocabulary:
        counts: Counter[str] = Counter()
        for language in names:
            for split in ("train", *segmentations):
                words, text = work / f"words.{split}.{language}", f"{texts[split]}.{language}"
                for found in _count_words(words, text, sizes[split]):
                    counts.update(found)
        symbols = Vocabulary()
        for word, count in counts.items():
            symbols.add_symbol(word, count)
        symbols.finalize(nwords=max_words or -1)
        return symbols

    vocabularies: Iterable[Vocabulary]
    if dictionaries:
        vocabularies = map(Vocabulary.load, dictionaries)
    elif joined:
        vocabularies = repeat(vocabulary(languages))
    else:
        vocabularies = (vocabulary([language]) for language in languages)
    for number, (language, symbols) in enumerate(zip(languages, vocabularies)):
        dictionary = folder / f"dict.{language}.txt"
        if dictionaries:
            shutil.copyfile(dictionaries[number], dictionary)
        else:
            symbols.save(dictionary)
        for split in texts:
            place, name = (folder / split, "train") if split in segmentations else (folder, split)
            place.mkdir(exist_ok=True)
            path = place / f"{name}.{'-'.join(languages)}.{language}"
            numbers, text = work / f"numbers.{split}.{language}", f"{texts[split]}.{language}"
            _write_parts(numbers, text, sizes[split], dictionary, len(symbols), workers)
            _join_numbers(numbers, sizes[split], path, len(symbols))
    shutil.rmtree(work)
    return {split: sum(each) for split, each in sizes.items()}


def _count_words(folder: Path, text: str, sizes: Sequence[int]) -> Iterator[dict[str, int]]:
    """The counts of the words in each part of a text."""

    def write(_: Path, lines: Iterable[str]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line.split())
        return counts

    title = f"Counting words of {Path(text).name}"
    write_parts(folder, sizes, WHOLE, title, partial(_lines, text), write)
    return read_counts(folder, len(sizes))


def _write_parts(
    folder: Path, text: str, sizes: Sequence[int], dictionary: Path, size: int, workers: int
) -> None:
    """Write the numbers of each part of a text."""

    def write(new: Path, sentences: Iterable[Sequence[int]]) -> dict[str, int]:
        return {"sentences": write_numbers(new / NUMBERS, sentences, size)}

    with mapper(workers, partial(_encoder, dictionary)) as run:
        title = f"Binarizing {Path(text).name}"
        write_parts(folder, sizes, WHOLE, title, lambda todo: run(_lines(text, todo)), write)


def _encoder(dictionary: Path) -> Callable[[str], list[int]]:
    return Vocabulary.load(dictionary).encode_line


def _lines(text: str, numbers: Iterable[int]) -> Iterator[str]:
    return (line for _, line in read_parts(text, numbers, parts.LINES))


def _join_numbers(folder: Path, sizes: Sequence[int], path: Path, size: int) -> None:
    """Join the parts that ``write_numbers`` has written.

    Args:
        folder: folder of the parts.
        sizes: number of sentences in each.
        path: path of the files ``.bin`` and ``.idx``, without these suffixes.
        size: size of the vocabulary.
    """
    kind = number_type(size)

    def lengths(number: int) -> "array[int]":
        found = array("i")
        with open(part(folder, number) / f"{NUMBERS}.idx", "rb") as file:
            file.seek(HEADER.size)
            found.fromfile(file, sizes[number])
        return found

    join(folder, len(sizes), f"{NUMBERS}.bin", Path(f"{path}.bin"))
    start = 0
    with open(f"{path}.idx", "wb") as index:
        index.write(HEADER.pack(MARK, VERSION, CODES[kind], sum(sizes)))
        for number in range(len(sizes)):
            lengths(number).tofile(index)
        for number in range(len(sizes)):
            starts = array("q")
            for length in lengths(number):
                starts.append(start)
                start += length * array(kind).itemsize
            starts.tofile(index)


def write_numbers(path: Path, sentences: Iterable[Sequence[int]], size: int) -> int:
    """Write sentences in fairseq's format "mmap", and return their number.

    Args:
        path: path of the files ``.bin`` and ``.idx``, without these suffixes.
        sentences: the numbers of each.
        size: size of the vocabulary.
    """
    kind = number_type(size)
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


def number_type(size: int) -> str:
    """The type of ``array`` for the numbers of a vocabulary of this size."""
    return "H" if size < LARGE else "I"


def training_folders(folder: Path) -> list[Path]:
    """The folders that epochs of a training run use in turn.

    Args:
        folder: binarized data; it is the first one, those of its segmentations follow.
    """
    found = [folder / f"{SEGMENTATION}2"]
    while found[-1].is_dir():
        found.append(folder / f"{SEGMENTATION}{len(found) + 2}")
    return [folder, *found[:-1]]


def training_data(folder: Path) -> str:
    """What fairseq-train takes as its data: the folders of the training text, joined."""
    return os.pathsep.join(map(str, training_folders(folder)))


def count_sentences(path: Path) -> int | None:
    """The number of sentences in binarized data; None if there are none in the format "mmap".

    Args:
        path: path of the files ``.bin`` and ``.idx``, without these suffixes.
    """
    try:
        with open(f"{path}.idx", "rb") as index:
            mark, _, _, count = HEADER.unpack(index.read(HEADER.size))
    except (OSError, struct.error):
        return None
    return int(count) if mark == MARK else None


def count_tokens(path: Path) -> int:
    """The number of tokens that ``write_numbers`` has written."""
    return Path(f"{path}.bin").stat().st_size // array(_written_type(path)).itemsize


def count_unknown(path: Path) -> int:
    """How many of the tokens that ``write_numbers`` has written are not in the dictionary."""
    kind, unknown, count = _written_type(path), Vocabulary().unk(), 0
    with open(f"{path}.bin", "rb") as data:
        while part := data.read(2**20):
            count += array(kind, part).count(unknown)
    return count


def _written_type(path: Path) -> str:
    code = HEADER.unpack(Path(f"{path}.idx").read_bytes()[: HEADER.size])[2]
    return next(kind for kind, known in CODES.items() if known == code)
