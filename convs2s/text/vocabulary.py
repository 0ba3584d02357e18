"""The words of one language and their numbers, in the files ``dict.txt`` that fairseq writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import SupportsIndex

from ..common.errors import UserError
from ..common.output_files import atomic_write
from ..common.plain_files import check_plain
from ..common.text_files import line_error

OVERWRITE = "#fairseq:overwrite"


class Vocabulary:
    """Words and consecutive numbers, with the names of fairseq's ``Dictionary``.

    Attributes:
        symbols: the word of each number; the first four are <s>, <pad>, </s>, <unk>.
        count: how often each word occurs in the training text.
        indices: word -> number.
        nspecial: the number of special symbols at the beginning.
    """

    bos_word, pad_word, eos_word, unk_word = "<s>", "<pad>", "</s>", "<unk>"
    nspecial = 4

    def __init__(self) -> None:
        self.symbols = [self.bos_word, self.pad_word, self.eos_word, self.unk_word]
        self.count = [1] * self.nspecial
        self.indices = {word: index for index, word in enumerate(self.symbols)}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Vocabulary":
        """Read a file that has a word and its count on each line.

        A word occurs once, unless its line ends in ``#fairseq:overwrite``: then the later line
        takes its place, and the number of the earlier one stays unused.

        Raises:
            UserError: if it cannot be read, or if a line has another form or repeats a word.
        """
        vocabulary = cls()
        check_plain(path, "a dictionary")
        with reading_errors(path), open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                vocabulary._add_line(line, str(path), number)
        return vocabulary

    def _add_line(self, line: str, path: str, number: int) -> None:
        text = line.rstrip()
        entry = text.removesuffix(f" {OVERWRITE}")
        word, space, count = entry.rpartition(" ")
        try:
            # Whatever ``int`` reads is a count for fairseq, too.
            found = int(count)
        except ValueError:
            space = ""
        if not space:
            raise line_error(
                path,
                number,
                f"a dictionary of fairseq has a word and its count on each line, not '{text}'",
            )
        overwrite = entry != text
        if word in self and not overwrite:
            raise line_error(
                path,
                number,
                f"the word '{word}' occurs a second time in this dictionary; if the later line is "
                f"to take the place of the earlier one, write {OVERWRITE} at its end",
            )
        self.add_symbol(word, found, overwrite)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all words but the special ones, as ``load`` reads them.

        Raises:
            UserError: if the file cannot be written.
        """
        with atomic_write(str(path)) as file:
            for word, count in zip(self.symbols[self.nspecial :], self.count[self.nspecial :]):
                file.write(f"{word} {count}\n")

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, word: object) -> bool:
        return word in self.indices

    def __eq__(self, other: object) -> bool:
        return self.indices == getattr(other, "indices", None)

    def __getitem__(self, index: SupportsIndex) -> str:
        """The word of a number; that of unknown words for a number beyond the last."""
        index = index.__index__()
        return self.symbols[index] if index < len(self) else self.unk_word

    def index(self, word: str) -> int:
        """The number of a word; that of unknown words for a word that is not here."""
        return self.indices.get(word, self.unk())

    def bos(self) -> int:
        """The number of the symbol at the beginning of a sentence."""
        return 0

    def pad(self) -> int:
        """The number of padding."""
        return 1

    def eos(self) -> int:
        """The number of the symbol at the end of a sentence."""
        return 2

    def unk(self) -> int:
        """The number of unknown words."""
        return 3

    def encode_line(self, line: str) -> list[int]:
        """The numbers of the words, which whitespace separates, and that of the end."""
        return [*map(self.index, line.split()), self.eos()]

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """Add a word, or increase its count.

        Args:
            word: the word.
            n: how often it was found.
            overwrite: whether to give it a new number even if it is already here.
        Returns:
            Its number.
        """
        if word in self and not overwrite:
            index = self.indices[word]
            self.count[index] += n
            return index
        self.indices[word] = len(self)
        self.symbols.append(word)
        self.count.append(n)
        return self.indices[word]

    def finalize(self, nwords: int = -1) -> None:
        """Sort the words by descending count, those with the same count by their characters.

        Made-up words fill the vocabulary up to a multiple of 8.

        Args:
            nwords: the most words that stay, the special ones included (0 or less: all).
        """
        special = self.symbols[: self.nspecial], self.count[: self.nspecial]
        # A dictionary: the last count of a word that was overwritten is used.
        counts = dict(sorted(zip(self.symbols[self.nspecial :], self.count[self.nspecial :])))
        kept = max(0, (nwords if nwords > 0 else len(self)) - self.nspecial)
        ordered = sorted(counts.items(), key=lambda item: -item[1])[:kept]
        self.symbols = special[0] + [word for word, _ in ordered]
        self.count = special[1] + [count for _, count in ordered]
        self.indices = {word: index for index, word in enumerate(self.symbols)}
        number = 0
        while len(self) % 8:
            self.add_symbol(f"madeupword{number:04d}", n=0)
            number += 1


@contextmanager
def reading_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Name the dictionary in the errors of reading it.

    Raises:
        UserError: if there is no such file, it cannot be read, or it is not a dictionary.
    """
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(
            f"There is no dictionary {path}: give the folder of the binarized data."
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        raise UserError(
            f"{path} is not a dictionary of fairseq, with a word and its count on each line: "
            f"{error}; preprocess the data again."
        ) from error


def unknown_word(symbols: Vocabulary, text: str) -> str | None:
    """The first word of a text that the vocabulary does not have; ``<unk>`` is one it has."""
    for word in text.split():
        if symbols.index(word) == symbols.unk() and word != symbols[symbols.unk()]:
            return word
    return None
