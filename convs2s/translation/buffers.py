"""Buffers of lines: they become batches of similar length, and come back in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from ..common.lines import as_sentence, without_end
from .ensemble import Ensemble
from .results import Hypothesis, Translation, join
from .splitting import split


class TextProcessor(Protocol):
    """Makes source tokens from text, and text from target tokens."""

    def encode(self, line: str) -> str:
        """The tokens of a line, separated by spaces."""

    def decode(self, tokens: str) -> str:
        """The text of tokens that are separated by spaces."""


class Job(NamedTuple):
    """A batch of sentences of one buffer.

    Attributes:
        buffer: the buffer.
        numbers: the positions of the sentences in the buffer.
    """

    buffer: "Buffer"
    numbers: list[int]

    @property
    def sentences(self) -> list[list[str]]:
        """The source tokens of each sentence."""
        return [self.buffer.sentences[number] for number in self.numbers]


class Buffer:
    """Lines that are translated together.

    Args:
        lines: the lines, with or without line breaks.
        text: makes tokens from text, and text from tokens.
        ensemble: translates batches.
    Attributes:
        sentences: the source tokens of all sentences. Most lines are one sentence; an empty line
            has none, and a line that is too long has several.
    """

    def __init__(self, lines: Sequence[str], text: TextProcessor, ensemble: Ensemble):
        self.lines = [without_end(line) for line in lines]
        self.text, self.ensemble = text, ensemble
        self.parts = [self._parts(line) for line in self.lines]
        self.sentences = [part for parts in self.parts for part in parts]
        self._found: list[Sequence[Hypothesis]] = [()] * len(self.sentences)
        # The line of each sentence, and the number of sentences that each line still needs.
        self._lines = [number for number, parts in enumerate(self.parts) for _ in parts]
        self._num_missing = [len(parts) for parts in self.parts]

    def _parts(self, line: str) -> list[list[str]]:
        tokens = self.text.encode(as_sentence(line)).split() if line.strip() else []
        return split(tokens, self.ensemble.max_source_tokens) if tokens else []

    def jobs(self, workers: int) -> list[Job]:
        """The batches for some processes, the longest sentences first; one empty batch if none."""
        batches = self.ensemble.batches([len(tokens) for tokens in self.sentences], workers)
        return [Job(self, batch) for batch in batches] or [Job(self, [])]

    def add(self, job: Job, hypotheses: Sequence[Sequence[Hypothesis]]) -> int:
        """Take the hypotheses of all sentences of a job; return how many lines they complete."""
        num_complete = 0
        for number, found in zip(job.numbers, hypotheses, strict=True):
            self._found[number] = found
            line = self._lines[number]
            self._num_missing[line] -= 1
            num_complete += not self._num_missing[line]
        return num_complete

    @property
    def is_complete(self) -> bool:
        """Whether all jobs are done."""
        return not any(self._num_missing)

    def translations(self) -> Iterator[Translation]:
        """The translations of the lines, in order."""
        start = 0
        for line, parts in zip(self.lines, self.parts):
            found = self._found[start : start + len(parts)]
            start += len(parts)
            yield join(line, parts, found, self.text.decode, self.ensemble.options)


# A job, and the hypotheses of each of its sentences.
Done = tuple[Job, Sequence[Sequence[Hypothesis]]]
# Does jobs, in any order: takes them one by one, and returns each with its result.
Mapper = Callable[[Iterator[Job]], Iterator[Done]]
# Receives the number of further lines that are translated.
Report = Callable[[int], object]


def translate_in_buffers(
    lines: Iterable[str],
    size: int,
    text: TextProcessor,
    ensemble: Ensemble,
    do: Mapper,
    report: Report = lambda count: None,
    workers: int = 1,
) -> Iterator[Translation]:
    """Translate lines, and return one translation for each, in order.

    Args:
        lines: the lines; read as they are needed.
        size: number of lines in a buffer.
        text, ensemble: as for ``Buffer``.
        do: does the jobs. Buffers are read ahead only if it asks for jobs ahead.
        report: called with the number of further lines that are translated, after each job.
        workers: the number of processes that do the jobs (1).
    """
    pending: deque[Buffer] = deque()

    def jobs() -> Iterator[Job]:
        rest = iter(lines)
        while chunk := list(islice(rest, size)):
            buffer = Buffer(chunk, text, ensemble)
            pending.append(buffer)
            report(buffer.parts.count([]))
            yield from buffer.jobs(workers)

    for job, hypotheses in do(jobs()):
        report(job.buffer.add(job, hypotheses))
        while pending and pending[0].is_complete:
            yield from pending.popleft().translations()
