"""Translation of lines with one or several models: what ``convs2s translate`` does, in Python."""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import chain, count, islice
from pathlib import Path

from ..common.errors import UserError, check_names
from ..common.lines import as_sentence, check_text, excerpt
from ..common.memory import keep_freed_memory
from ..common.programs import available_threads
from .attention import Attention, attention_of_pair, best_translation
from .buffers import Done, Job, Report, translate_in_buffers
from .decoding import Model
from .ensemble import Ensemble
from .forced import ScoredPair, score_pairs
from .loading import load_model
from .options import BUFFER_SIZE, OF_THE_SEARCH, EnsembleOptions
from .results import Translation
from .text import find_places, find_text, given_text, target_text
from .workers import CAN_FORK, Translate, Workers, devices_of_workers, usable_gpus


class Translator:
    """Translates lines of text; each line has one translation, in the same order.

    An empty line has an empty translation. A line with more tokens than the model allows is split
    at ends of sentences, then of clauses, then between tokens, and its translations are joined. On
    a CPU, with glibc, the process then keeps memory that it frees (``common/memory.py``).

        translator = Translator("checkpoints/checkpoint_best.pt", data="data-bin", beam=5)
        for translation in translator.translate(["zwei hunde rennen .", ""]):
            print(translation.text, translation.score)

    Args:
        path: a checkpoint, or several for an ensemble.
        data: the folder of the dictionaries. By default, they are those of the preparation, or
            beside the first checkpoint, or in the folder of its training data.
        preparation: ``preparation.yaml`` of ``convs2s prepare``, or its folder. By default, it is
            looked for in the folder of the first checkpoint, in that of the dictionaries, and in
            the folders above them.
        bpe_codes: instead, segment tokenized text with these codes of subword-nmt.
        raw: instead, read the text as tokens separated by spaces. This is also done if there is no
            preparation.
        source_lang, target_lang: the languages, if neither the checkpoint nor the names of the
            binarized data give them.
        workers: number of processes that translate (1). On a CPU, they share the weights. On GPUs,
            if there are several and ``device`` is None, each has its own GPU, and ``score``
            and ``attention`` compute on the CPU. More than one needs a system that can fork
            processes. None: one for each GPU or, on a CPU, one for each thread if there are as
            many batches, otherwise one for each batch.
        buffer_size: number of lines that are sorted by length and translated together (2,000).
        load: builds models, as ``loading.load_model`` does.
        options: see ``EnsembleOptions``.
    Attributes:
        text: the preparation, or another object with ``encode`` and ``decode``.
        ensemble: the models and their dictionaries.
        languages: the source and the target language.
        max_source_tokens: the number of tokens above which a line is split.
    Raises:
        UserError: if a file cannot be read or does not fit the model, or if an option is unknown or
            has a value that is not allowed.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        data: str | Path | None = None,
        preparation: str | Path | None = None,
        bpe_codes: str | Path | None = None,
        raw: bool = False,
        source_lang: str | None = None,
        target_lang: str | None = None,
        workers: int | None = 1,
        buffer_size: int = BUFFER_SIZE,
        load: Callable[..., Model] = load_model,
        **options: object,
    ):
        check_names(options, OPTIONS, "Translator")
        paths = [str(path)] if isinstance(path, (str, Path)) else [str(one) for one in path]
        if not paths:
            raise UserError("There is no checkpoint: give at least one.")
        for name, value in (("workers", workers), ("buffer-size", buffer_size)):
            if value is not None and value < 1:
                raise UserError(f"--{name} is {value}: it must be at least 1.")
        self.buffer_size = buffer_size
        text = given_text(preparation, bpe_codes, raw)
        places = find_places(paths[0], data, (source_lang, target_lang), text)
        chosen = EnsembleOptions(**options)  # type: ignore[arg-type]
        self._devices: list[str] = []
        if workers != 1 and chosen.device is None:
            self._devices = devices_of_workers(workers, usable_gpus())
        if self._devices:
            # Code that makes tokens and batches needs no GPU, and must not use one before the
            # forks.
            here = replace(chosen, device="cpu", autocast_dtype="none", int8=False)
        else:
            here = chosen
        self.ensemble = Ensemble(paths, here, places, load)
        self._load_on = lambda device, search: Ensemble(
            paths, replace(chosen, **search, device=device), places, load
        )
        self.text = find_text(text, paths[0], self.ensemble.dictionaries)
        on_cpu = self.ensemble.device.type == "cpu"
        if on_cpu and not self._devices:
            keep_freed_memory()
        if self._devices:
            workers = len(self._devices)
        elif workers is None and not (on_cpu and CAN_FORK):
            workers = 1
        self.workers = workers
        if workers not in (None, 1) and not on_cpu:
            raise UserError(
                f"--workers {workers} needs a CPU, but the model is on {self.ensemble.device}: "
                "omit --workers or give --device cpu."
            )
        self.languages = self.ensemble.dictionaries.languages
        self.max_source_tokens = self.ensemble.max_source_tokens

    def with_options(self, **options: object) -> "Translator":
        """The same models with other options of the search; see ``Ensemble.with_options``.

        Raises:
            UserError: if an option is not one of the search, or has a value that is not allowed.
        """
        changed = copy.copy(self)
        changed.ensemble = self.ensemble.with_options(**options)
        return changed

    def translate(self, lines: Iterable[str]) -> list[Translation]:
        """Translate lines.

        Args:
            lines: text, each with or without a line break at its end.
        Returns:
            One translation for each line.
        """
        return list(self.stream(lines))

    def stream(
        self, lines: Iterable[str], report: Report = lambda count: None
    ) -> Iterator[Translation]:
        """Translate any number of lines, and return each translation as soon as possible.

        Args:
            lines: read one buffer at a time; with several workers, some buffers ahead.
            report: called after each batch with the number of further lines that are translated;
                they are returned after the last batch of their buffer.
        Returns:
            One translation for each line.
        Raises:
            WorkerError: if a worker process ends.
        """
        arguments = checked_lines(lines), self.buffer_size, self.text, self.ensemble
        workers = self.workers or available_threads()
        yield from translate_in_buffers(*arguments, self._do, report, workers)

    def attention(self, source: str, target: str | None = None) -> Attention:
        """The attention of every layer and head between a line and its translation.

            translator.attention("Zwei Hunde rennen.").plot("attention.png")

        Args:
            source: a line of text; it is not split.
            target: its translation; None for that of the models.
        Raises:
            UserError: if the line is empty, a text is too long for a model, or a model has no
                attention.
        """
        for text in (source,) if target is None else (source, target):
            if not isinstance(text, str):
                raise UserError(
                    f"Attention is for one line of text, but {excerpt(repr(text))} is not text: "
                    "give text."
                )
            check_text(text or "", "A line")
        tokens = self.text.encode(as_sentence(source)) if source.strip() else ""
        if not tokens:
            raise UserError("There is no attention to an empty line: give one with text.")
        if target is None:
            translation = best_translation(self.ensemble, tokens)
        else:
            translation = target_text(self.text).encode(as_sentence(target))
        return attention_of_pair(self.ensemble, tokens, translation)

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[ScoredPair]:
        """Score given translations: the log-probability of each token and of all.

        An empty line counts as an end of sentence alone.

        Args:
            sources: N lines of text; they are not split.
            targets: N lines, their translations.
        Returns:
            The N scores.
        Raises:
            UserError: if there are more of one than of the other, a line is too long for a model,
                or the translator has the option ``lexicon``.
        """
        texts = (self.text, target_text(self.text))
        tokens = [
            [text.encode(as_sentence(line)) for line in checked_lines(lines)]
            for text, lines in zip(texts, (sources, targets))
        ]
        if len(tokens[0]) != len(tokens[1]):
            raise UserError(
                f"There are {len(tokens[0]):,} sources and {len(tokens[1]):,} targets: each source "
                "needs one target."
            )
        return score_pairs(self.ensemble, list(zip(*tokens)))

    def _do(self, jobs: Iterator[Job]) -> Iterator[Done]:
        """Do jobs one by one, or with several processes."""
        number = self.workers
        if number is None:
            first = list(islice(jobs, available_threads()))
            number, jobs = max(1, len(first)), chain(first, jobs)
        if number > 1:
            translate = [*map(self._translate_on, self._devices)]
            with Workers(translate or [self.ensemble.translate] * number) as workers:
                yield from workers.do(jobs)
            return
        for job in jobs:
            yield job, self.ensemble.translate(job.sentences)

    def _translate_on(self, device: str) -> Translate:
        """Translates on a device, where the models are loaded for the first batch."""
        search = {name: getattr(self.ensemble.options, name) for name in OF_THE_SEARCH}
        loaded = cache(lambda: self._load_on(device, search))
        return lambda sentences: loaded().translate(sentences)


# The options that a translator takes by keyword.
OPTIONS = {field.name for field in fields(EnsembleOptions)}.union(
    inspect.signature(Translator).parameters
) - {"path", "options"}


def checked_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines one by one, each of which must be text.

    Raises:
        UserError: if they are a single text, whose characters would be lines, or no lines at all;
            while they are read, if one is not text.
    """
    if isinstance(lines, str):
        raise UserError(f"{excerpt(lines)} is one text, not a list of lines: give [text].")
    if isinstance(lines, bytes | bytearray | Mapping) or not isinstance(lines, Iterable):
        raise UserError(f"{excerpt(repr(lines))} is not a list of lines: give texts.")
    return map(_checked_line, count(1), lines)


def _checked_line(number: int, line: str) -> str:
    check_text(line, f"Line {number}")
    return line
