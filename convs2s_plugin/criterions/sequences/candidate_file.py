"""Candidates from n-best lists that fairseq-generate wrote for the training data."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.common.lines import excerpt
from convs2s.text.vocabulary import unknown_word

# The lines of one sentence follow one another: its source, and its hypotheses with their scores.
MARKED_LINE = re.compile(rb"([SH])-(\d{1,18})\t")
HOW_TO_WRITE = (
    "fairseq-generate writes it with --gen-subset train --nbest N, from the same data and without "
    "--remove-bpe"
)


class CandidateFile:
    """Reads the candidates of sentences when they are needed; only their places are in memory.

    The file is read when the first batch comes, since validation does not need it.

    Args:
        path: output of fairseq-generate with ``--nbest``.
        source, target: dictionaries.
        number: largest number of candidates of a sentence.
        keeps_reference: whether the reference will also be a candidate.
    """

    def __init__(
        self,
        path: str,
        source: Dictionary,
        target: Dictionary,
        number: int,
        keeps_reference: bool,
    ):
        self.path = path
        self.source = source
        self.target = target
        self.number = number
        self.keeps_reference = keeps_reference
        self._numbers: np.ndarray | None = None
        self._places: np.ndarray | None = None

    def __call__(self, sample: dict[str, Any]) -> list[list[Tensor]]:
        """The candidates of each sentence of a batch, in the order of the file.

        Args:
            sample: a batch of the training data.
        Raises:
            UserError: if the file cannot be read, or does not belong to the training data.
        """
        if self._places is None:
            self._numbers, self._places = self._find_sentences()
        pad = self.source.pad()
        sources = sample["net_input"]["src_tokens"].cpu()
        with open(self.path, "rb") as file:
            found = []
            for number, tokens in zip(sample["id"].tolist(), sources):
                begin, end = self._place(number)
                file.seek(begin)
                lines = file.read(end - begin).decode("utf-8", "replace").split("\n")
                found.append(self._candidates(number, lines, tokens[tokens.ne(pad)].tolist()))
        return found

    def _find_sentences(self) -> tuple[np.ndarray, np.ndarray]:
        """The sorted numbers of the N sentences, and where their lines begin and end, N x 2.

        Raises:
            UserError: if the file cannot be read, or has no lists of several hypotheses.
        """
        if not Path(self.path).is_file():
            raise UserError(f"There is no file {self.path} (--sequence-candidate-file).")
        places: dict[int, tuple[int, int]] = {}
        num_hypotheses = position = 0
        with open(self.path, "rb") as file:
            for line in file:
                match = MARKED_LINE.match(line)
                if match:
                    number = int(match[2])
                    begin, _ = places.get(number, (position, position))
                    places[number] = begin, position + len(line)
                    num_hypotheses += match[1] == b"H"
                position += len(line)
        if not num_hypotheses:
            raise UserError(f"{self.path} has no n-best lists (no line H-NUMBER): {HOW_TO_WRITE}.")
        if num_hypotheses <= len(places) and not self.keeps_reference:
            raise UserError(
                f"{self.path} has one candidate for each sentence, but the loss needs at least 2: "
                "give fairseq-generate --nbest, or add --sequence-reference."
            )
        numbers = sorted(places)
        return np.array(numbers), np.array([places[number] for number in numbers])

    def _place(self, number: int) -> tuple[int, int]:
        assert self._numbers is not None and self._places is not None
        row = int(np.searchsorted(self._numbers, number))
        if row == len(self._numbers) or self._numbers[row] != number:
            raise self._no_candidates(number)
        begin, end = self._places[row].tolist()
        return begin, end

    def _no_candidates(self, number: int) -> UserError:
        return UserError(
            f"{self.path} has no candidates for sentence {number} of the training data "
            f"(counted from 0): {HOW_TO_WRITE}, and with --skip-invalid-size-inputs-valid-test "
            "only if the training run skips the same sentences."
        )

    def _candidates(self, number: int, lines: list[str], source: list[int]) -> list[Tensor]:
        """The candidates of a sentence.

        Args:
            number: number of the sentence.
            lines: lines of the sentence.
            source: its source tokens, for a comparison with those in the file.
        Raises:
            UserError: if there is no candidate, or one that does not fit.
        """
        candidates: list[Tensor] = []
        for line in lines:
            name, _, rest = line.partition("\t")
            if name == f"S-{number}":
                self._check_source(number, rest, source)
            elif name == f"H-{number}" and len(candidates) < self.number:
                score, tab, text = rest.partition("\t")
                if not tab:
                    raise UserError(
                        f"{self.path} is damaged: a line H-{number} has {excerpt(score)}, but must "
                        f"have a score, a tab and tokens; {HOW_TO_WRITE}."
                    )
                candidates.append(self._encode(number, text))
        if not candidates:
            raise self._no_candidates(number)
        return candidates

    def _check_source(self, number: int, text: str, source: list[int]) -> None:
        own = self.source.string(source)
        if text.split() != own.split():
            raise UserError(
                f"{self.path} does not fit the training data: sentence {number} (counted from 0) "
                f"is {excerpt(text)} there, but {excerpt(own)} in the data; {HOW_TO_WRITE}."
            )

    def _encode(self, number: int, text: str) -> Tensor:
        """The tokens of a candidate, with the end of the sentence."""
        word = unknown_word(self.target, text)
        if word is not None:
            raise UserError(
                f"{self.path} does not fit the target dictionary: a candidate of sentence "
                f"{number} has the token {excerpt(word)}, which is not in it; {HOW_TO_WRITE}."
            )
        special = {self.target.bos_word, self.target.pad_word, self.target.eos_word}
        if symbols := special.intersection(text.split()):
            raise UserError(
                f"{self.path} does not fit the target dictionary: a candidate of sentence {number} "
                f"has the word {min(symbols)}, which is a special symbol; {HOW_TO_WRITE}."
            )
        return self.target.encode_line(text, add_if_not_exist=False).long()
