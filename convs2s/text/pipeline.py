"""The stages of a preparation in their order, for one process or several shards."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product, starmap
from pathlib import Path
from typing import Any

from ..common.output_files import atomic_write, make_folder
from ..common.progress import show_progress
from ..common.shards import WHOLE, Shard
from . import texts
from .binarize import SEGMENTATION, binarize
from .learning import TooFewSubwords, count_words, learn_sentencepiece, learn_subword_nmt
from .parts import (
    Counts,
    check_count,
    check_shards,
    join,
    part_sizes,
    read_counts,
    read_record,
)
from .preparation import DATA, TEXT, TOKENS, write_record
from .settings import SPLITS, Settings, coverage, default_size, dictionary_limit
from .sources import Languages
from .stages import Stages
from .texts import DECISIONS, Tokens

# Files of models of sub-words.
SUFFIXES = {"subword_nmt": "codes.bpe", "sentencepiece": "sentencepiece.model"}
LEARNING = "Learning sub-words"
# Folder of the segmentations that are sampled, until they are binarized.
SAMPLED = "sampled"
# Parts after which the counts of words are saved.
SAVED = 50


def model_files(method: str, joint: bool, languages: Languages) -> list[str | None]:
    """The file of the sub-words of each language.

    Args:
        method, joint, languages: as in ``Settings``.
    """
    if method == "none":
        return [None, None]
    return [SUFFIXES[method] if joint else f"{each}.{SUFFIXES[method]}" for each in languages]


@dataclass
class Pipeline:
    """The stages of one preparation.

    ``clean``, ``encode`` and ``sample`` work on parts of the text, which shards may share; the
    others need all of it.

    Args:
        settings: the choices.
        out: output folder.
        work: folder of the stages, in ``out``.
        workers: number of processes.
    """

    settings: Settings
    out: Path
    work: Path
    workers: int

    def __post_init__(self) -> None:
        self.stages = Stages(self.work, self.settings.recorded())

    @cached_property
    def lines(self) -> dict[str, int]:
        """The number of lines of each text that is given."""
        path = self.work / "lines.json"
        if not path.exists():
            given = [name for name in reversed(SPLITS) if name in self.settings.texts]
            lines = {name: self.settings.texts[name].count() for name in given}
            with atomic_write(str(path)) as file:
                json.dump(lines, file)
        return read_record(path)

    def run_shard(self, shard: Shard) -> None:
        """Carry out the next stage that shards share, for one of them."""
        if "learn" not in self.stages.done:
            folder = self.work / "clean"
            make_folder(str(folder))
            self.clean(folder, shard)
        elif "encode" not in self.stages.done:
            for name, work in (("encode", self.encode), ("sample", self.sample)):
                folder = self.work / name
                make_folder(str(folder))
                work(folder, shard)

    def run(self, shards: int | None) -> dict[str, Any] | None:
        """Carry out all stages.

        Args:
            shards: number of shards, whose work must be there; None to do it here.
        Returns:
            The content of ``preparation.yaml``; None if the shards must split the text first.
        """
        stages, is_first = self.stages, "learn" not in self.stages.done
        if "clean" not in stages.done:
            clean = self.work / "clean"
            sizes = {clean / name: len(part_sizes(count)) for name, count in self.lines.items()}
            check_shards(sizes, shards, "cleaned")
        stages.run("clean", lambda folder: self.clean(folder, WHOLE), in_parts=True)
        stages.run("select", self.select)
        size, models = self.learn()
        if "encode" not in stages.done:
            if is_first and shards is not None:
                return None
            check_shards(self._encoded_parts(), shards, "split into sub-words")
        encoded = stages.run("encode", lambda folder: self.encode(folder, WHOLE), in_parts=True)
        if self.segmentations:
            stages.run("sample", lambda folder: self.sample(folder, WHOLE), in_parts=True)
        stages.run("join", self.join)
        for name in ("clean", "select", "encode", "sample"):
            shutil.rmtree(self.work / name, ignore_errors=True)
        stages.run("binarize", self.binarize, in_parts=True)
        self.move()
        counts = {
            "pairs": self.pairs,
            "read": self.lines,
            "left_out": stages.done["select"]["left_out"],
            **encoded,
        }
        return write_record(self.out, self.settings, size, models, counts)

    @property
    def pairs(self) -> dict[str, int]:
        """Split -> its number of pairs."""
        return {name: sum(sizes) for name, sizes in self.sizes.items()}

    @property
    def sizes(self) -> dict[str, list[int]]:
        """Split -> the number of pairs in each part."""
        selected = self.stages.done["select"]
        found = {
            **{name: part_sizes(count) for name, count in self.lines.items()},
            **{name: [count] for name, count in selected["cut"].items()},
            "train": selected["sizes"],
        }
        return {name: found[name] for name in SPLITS if name in found}

    def tokens(self, name: str) -> Tokens:
        """The tokenized text of a split."""
        folder = self.work / ("clean" if name in self.lines else "select") / name
        decisions = self.work / "select" / DECISIONS if name == "train" else None
        return Tokens(folder, self.settings.languages, self.sizes[name], decisions)

    def clean(self, folder: Path, shard: Shard) -> Counts:
        """Clean all text that is given."""
        # Held-out text comes first: its errors are found before the long work.
        for name, count in self.lines.items():
            texts.clean(folder / name, name, self.settings, count, self.workers, shard)
        return {}

    def select(self, folder: Path) -> Counts:
        """Drop duplicates and pairs of held-out text, and cut the held-out sets."""
        # Commands that do not come here start faster without numpy.
        from .selection import select

        found = select(folder, self.work / "clean", self.settings, self.lines)
        chosen = found.pop("chosen")
        for name, lines in chosen.items():
            texts.hold_out(folder / name, self.settings, lines)
        return {**found, "cut": {name: len(lines) for name, lines in chosen.items()}}

    def learn(self) -> tuple[int | None, list[str | None]]:
        """Learn sub-words on the training text, or copy those of the earlier preparation.

        Returns:
            Their size, and the file of each language.
        """
        settings, models = self.settings, self.models
        size = settings.size or default_size(self.pairs["train"])
        groups = [settings.languages] if settings.joint else [(one,) for one in settings.languages]

        def work(folder: Path) -> Counts:
            if settings.like is not None:
                for name, path in zip(models, settings.like.subwords):
                    if name is not None and path is not None:
                        shutil.copyfile(path, folder / name)
                return {"size": settings.size}
            sizes = [size]
            for name, languages in zip(dict.fromkeys(filter(None, models)), groups):
                if settings.method == "subword_nmt":
                    learn_subword_nmt(self.count_words(languages), size, folder / name)
                else:
                    sizes.append(self.learn_sentencepiece(languages, size, folder / name))
            return {"size": max(sizes)}

        # Earlier versions did not record the size, which was this one.
        learned = self.stages.run("learn", work).get("size", size)
        return dictionary_limit(settings) if settings.method == "none" else learned, models

    def learn_sentencepiece(self, languages: Sequence[str], size: int, path: Path) -> int:
        """Learn sub-words of these languages with sentencepiece, and return their size.

        It is larger than a default size that has no room for the characters of the text: these then
        come in addition, as they do with the merges of subword_nmt.
        """
        text, total = self.tokens("train"), self.pairs["train"] * len(languages)
        share = coverage(self.settings.languages)

        def learn(size: int) -> int:
            parts = product(languages, range(len(text.sizes)))
            lines = chain.from_iterable(starmap(text.lines, parts))
            shown = show_progress(lines, "lines", LEARNING, total)
            learn_sentencepiece(shown, size, path, share, total)
            return size

        try:
            return learn(size)
        except TooFewSubwords as error:
            if self.settings.size is not None:
                raise
            return learn(size + error.least)

    @property
    def models(self) -> list[str | None]:
        """The file of the sub-words of each language."""
        return model_files(self.settings.method, self.settings.joint, self.settings.languages)

    def _model_files(self) -> list[Path | None]:
        return [self.work / "learn" / name if name else None for name in self.models]

    def count_words(self, languages: Sequence[str]) -> Counter[str]:
        """Count the words of training text; a later call continues if this one was killed."""
        text, path = self.tokens("train"), self.work / f"words.{'-'.join(languages)}.json"
        parts = [*product(languages, range(len(text.sizes)))]
        counts: Counter[str] = Counter()
        done = 0
        if path.exists():
            saved = read_record(path)
            counts, done = Counter(saved["counts"]), saved["parts"]
        shown = show_progress(parts[done:], "parts", LEARNING, len(parts), initial=done)
        for index, (language, number) in enumerate(shown, done + 1):
            counts = count_words(text.lines(language, number), counts)
            if index % SAVED == 0:
                with atomic_write(str(path)) as file:
                    json.dump({"parts": index, "counts": counts}, file)
        return counts

    def encode(self, folder: Path, shard: Shard) -> Counts:
        """Split all text into sub-words."""
        tokens, longest = {}, {}
        for name, sizes in self.sizes.items():
            parts, method, models = folder / name, self.settings.method, self._model_files()
            texts.encode(parts, self.tokens(name), name, method, models, self.workers, shard)
            if shard == WHOLE:
                counts = [*read_counts(parts, len(sizes))]
                sides = zip(*(each["tokens"] for each in counts))
                tokens[name] = [sum(side) for side in sides]
                longest[name] = max(each["longest"] for each in counts)
        return {"tokens": tokens, "longest": longest}

    @property
    def segmentations(self) -> list[str]:
        """The names of the segmentations that are sampled."""
        if self.settings.dropout is None:
            return []
        return [f"{SEGMENTATION}{number}" for number in range(2, self.settings.segmentations + 1)]

    def sample(self, folder: Path, shard: Shard) -> Counts:
        """Sample the sub-words of the training text."""
        settings, files = self.settings, [path for path in self._model_files() if path]
        for number, name in enumerate(self.segmentations):
            assert settings.dropout is not None
            texts.sample(
                folder / name,
                self.tokens("train"),
                number,
                settings.method,
                files,
                settings.dropout,
                self.workers,
                shard,
            )
        return {}

    def _encoded_parts(self) -> dict[Path, int]:
        """Folders of all parts that are split into sub-words -> their number."""
        found = {self.work / "encode" / name: len(sizes) for name, sizes in self.sizes.items()}
        for name in self.segmentations:
            found[self.work / "sample" / name] = len(self.sizes["train"])
        return found

    def join(self, folder: Path) -> Counts:
        """Join the parts of all text that is needed as a whole."""
        for name in (TOKENS, TEXT, SAMPLED):
            (folder / name).mkdir()
        for language in self.settings.languages:
            file = f"{texts.TOKENS}.{language}"
            for parts, count in self._encoded_parts().items():
                place = TOKENS if parts.parent.name == "encode" else SAMPLED
                join(parts, count, file, folder / place / f"{parts.name}.{language}")
            for name, sizes in self.sizes.items():
                if name != "train":
                    path = folder / TEXT / f"{name}.{language}"
                    join(self.tokens(name).folder, len(sizes), f"{texts.TEXT}.{language}", path)
        return {}

    def binarize(self, folder: Path) -> Counts:
        """Write the dictionaries and the binarized data, which must have all pairs."""
        settings, sampled = self.settings, self.segmentations
        joined = self.work / "join"
        encoded = {
            **{name: joined / TOKENS / name for name in self.sizes},
            **{name: joined / SAMPLED / name for name in sampled},
        }
        limit, languages = dictionary_limit(settings), settings.languages
        given = () if settings.like is None else settings.like.dictionaries
        found = binarize(
            languages, encoded, folder, settings.joint, limit, sampled, self.workers, given
        )
        for name, count in found.items():
            check_count(self.pairs.get(name, self.pairs["train"]), str(encoded[name]), count)
        return {}

    def move(self) -> None:
        """Move the results from ``work`` to their places; those that are already there stay."""
        moves = [
            (self.work / "join" / TOKENS, self.out / TOKENS),
            (self.work / "join" / TEXT, self.out / TEXT),
            (self.work / "binarize", self.out / DATA),
            *((path, self.out / path.name) for path in (self.work / "learn").iterdir()),
        ]
        for path, place in moves:
            if path.exists():
                path.rename(place)
