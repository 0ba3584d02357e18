"""Carry out the stages of a preparation."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.errors import UserError, WorkInterrupted
from ..common.locks import is_at, lock_folder, release
from ..common.output_files import make_folder
from . import texts
from .binarize import SEGMENTATION, binarize, check_count
from .preparation import DATA, FILE_NAME, TEXT, TOKENS, check_counts, read_content, write_record
from .settings import SPLITS, Settings, coverage, default_size, dictionary_limit
from .sources import Languages
from .stages import Stages, check_settings
from .subwords import learn_sentencepiece, learn_subword_nmt
from .texts import TOKENIZED
from .tokenizers import import_extra, of_sides

WORK, CHECKPOINTS = "work", "checkpoints"
# Files of models of sub-words.
SUFFIXES = {"subword_nmt": "codes.bpe", "sentencepiece": "sentencepiece.model"}


def prepare(
    settings: Settings, out: Path, workers: int = 1, overwrite: bool = False
) -> dict[str, Any]:
    """Prepare parallel text, or continue after the last complete stage.

    Args:
        settings: the choices.
        out: output folder; until all is done, it has the folder ``work`` only.
        workers: number of processes.
        overwrite: remove an earlier preparation in ``out`` first.
    Returns:
        The content of ``preparation.yaml``.
    Raises:
        WorkInterrupted: if the disk is full or a process ends; what is done stays.
        UserError: if the text or a setting is wrong, or an earlier preparation had other settings.
    """
    check_inputs(settings, out)
    if out.exists() and not out.is_dir():
        raise UserError(f"--out is {out}, which is a file: choose another name.")
    with _locked(out):
        return _prepare(settings, out, workers, overwrite)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Keep other processes out of the output folder, which is made if it is missing.

    Raises:
        UserError: if another process writes to it.
    """
    message = (
        f"Another `convs2s prepare` writes to {out}: wait for its end, or choose another folder "
        "with --out."
    )
    while True:
        is_new = not out.exists()
        make_folder(str(out))
        try:
            descriptor = lock_folder(str(out), message)
        except FileNotFoundError:
            continue
        if is_at(descriptor, os.path.realpath(out)):
            break
        # It was empty, and the process that made it has removed it.
        release(descriptor)
    try:
        yield
    finally:
        if is_new:
            # Nothing may have come of it.
            with suppress(OSError):
                out.rmdir()
        release(descriptor)


def _prepare(settings: Settings, out: Path, workers: int, overwrite: bool) -> dict[str, Any]:
    """The same, in a folder that no other process uses."""
    path = out / FILE_NAME
    if overwrite:
        remove(out)
    if path.exists():
        content = read_content(path)
        check_settings(content.get("settings") or {}, settings.recorded(), out)
        check_counts(content, path)
        return content
    if any(out.iterdir()) and not (out / WORK / "stages.json").exists():
        raise UserError(
            f"--out is {out}, which has files that `convs2s prepare` did not write: choose a new "
            "folder."
        )
    if "moses" in of_sides(settings.tokenizer):
        import_extra("sacremoses", "--tokenizer moses")
    if settings.method == "sentencepiece":
        import_extra("sentencepiece", "--bpe sentencepiece")
    workflow = Workflow(settings, out, workers)
    try:
        return workflow.run()
    except WorkInterrupted:
        raise
    except UserError:
        # The corrected text or setting is another preparation, which could not continue this one.
        shutil.rmtree(out / WORK)
        raise


def prepare_tokens(
    text: Path,
    languages: Languages,
    tests: Sequence[str],
    out: Path,
    merges: int,
    joined: bool,
) -> Path:
    """Sub-words and binarized data of text that is clean and tokenized already.

    Args:
        text: folder of ``SPLIT.LANGUAGE``, where the splits are train, valid and the test sets.
        languages: source and target.
        tests: names of the test sets; the data calls them test, test1, test2, ...
        out: an existing folder, which gets the folders of the sub-words and of the data.
        merges: number of BPE merges, learned on both languages; 0 for no BPE.
        joined: one dictionary for both languages.
    Returns:
        The folder of the binarized data.
    Raises:
        UserError: if a text cannot be read.
    """
    splits = ["train", "valid", *tests]
    method, codes = "none", None
    if merges:
        method, codes = "subword_nmt", out / SUFFIXES["subword_nmt"]
        learn_subword_nmt([text / f"train.{language}" for language in languages], merges, codes)
    sources = dict.fromkeys(splits, text)
    text = out / TOKENS
    texts.encode(text, sources, languages, method, [codes, codes])
    data = out / DATA
    data.mkdir()
    names = ["train", "valid", *(f"test{number or ''}" for number in range(len(tests)))]
    binarize(languages, {name: text / split for name, split in zip(names, splits)}, data, joined)
    if not merges:
        # The tokens are those of the text.
        shutil.rmtree(text)
    return data


def check_inputs(settings: Settings, out: Path) -> None:
    """Check that no text is in a folder that a preparation writes and removes.

    Raises:
        UserError: if one is.
    """
    folders = [(out / name).resolve() for name in (DATA, TOKENS, TEXT, WORK)]
    for text in settings.texts.values():
        for path in map(Path, text.paths):
            if any(path.resolve().is_relative_to(folder) for folder in folders):
                raise UserError(
                    f"{path} ({text.option}) is in a folder of --out, which is made anew: move it "
                    "elsewhere, or choose another folder with --out."
                )


def remove(out: Path) -> None:
    """Remove what an earlier call wrote, complete or not.

    Raises:
        UserError: if models were trained on it.
    """
    if not (out / FILE_NAME).exists() and not (out / WORK / "stages.json").exists():
        return
    if (out / CHECKPOINTS).exists():
        raise UserError(
            f"{out / CHECKPOINTS} has models for the dictionaries that --overwrite would replace: "
            "move it away, or choose another folder with --out."
        )
    (out / FILE_NAME).unlink(missing_ok=True)
    for name in (DATA, TOKENS, TEXT, WORK):
        shutil.rmtree(out / name, ignore_errors=True)
    for path in out.iterdir():
        if path.name.endswith(tuple(SUFFIXES.values())):
            path.unlink()


@dataclass
class Workflow:
    """The stages of one preparation; see ``prepare`` for the attributes."""

    settings: Settings
    out: Path
    workers: int

    def __post_init__(self) -> None:
        self.work = self.out / WORK
        self.stages = Stages(self.work, self.settings.recorded())

    def run(self) -> dict[str, Any]:
        """Carry out all stages and return the content of ``preparation.yaml``."""
        settings, cleaned = self.settings, self.work / "clean"
        counts = self.stages.run(
            "clean", lambda folder: texts.clean(folder, settings, self.workers)
        )
        read, left_out = counts["read"], counts["left_out"]
        pairs = {**read, "train": read["train"] - sum(left_out.values())}
        folders = dict.fromkeys(pairs, cleaned)
        if settings.cut:
            found = self.stages.run(
                "cut", lambda folder: texts.cut(folder, cleaned, settings, pairs["train"])
            )
            left_out = {**left_out, "held_out": left_out["held_out"] + found["also_held_out"]}
            for name in ("train", *settings.cut):
                pairs[name], folders[name] = found[name], self.work / "cut"
        pairs = {name: pairs[name] for name in SPLITS if name in pairs}
        size, models = self.learn(folders["train"] / TOKENIZED, pairs["train"])
        encoded = self.stages.run(
            "encode",
            lambda folder: texts.encode(
                folder,
                {name: folders[name] / TOKENIZED for name in pairs},
                settings.languages,
                settings.method,
                [self.work / "learn" / path if path else None for path in models],
                self.workers,
            ),
        )
        if settings.dropout is not None:
            self.stages.run(
                "sample", lambda folder: self.sample(folder, folders["train"] / TOKENIZED, models)
            )
        self.stages.run("binarize", lambda folder: self.binarize(folder, pairs))
        self.move(folders)
        counts = {"pairs": pairs, "read": read, "left_out": left_out, **encoded}
        content = write_record(self.out, settings, size, models, counts)
        shutil.rmtree(self.work)
        return content

    def learn(self, folder: Path, pairs: int) -> tuple[int | None, list[str | None]]:
        """Learn sub-words on the training text; their size and the file of each language."""
        settings = self.settings
        if settings.method == "none":
            return dictionary_limit(settings), [None, None]
        size = settings.size or default_size(pairs)
        name = SUFFIXES[settings.method]
        if settings.joint:
            models = [name, name]
        else:
            models = [f"{language}.{name}" for language in settings.languages]
        train = [folder / f"train.{language}" for language in settings.languages]

        def work(new: Path) -> dict[str, Any]:
            sources = [train] if settings.joint else [[path] for path in train]
            for model, files in zip(dict.fromkeys(models), sources):
                if settings.method == "subword_nmt":
                    learn_subword_nmt(files, size, new / model)
                else:
                    share = coverage(settings.languages)
                    learn_sentencepiece(files, size, new / model, share, pairs * len(files))
            return {}

        self.stages.run("learn", work)
        return size, [*models]

    @property
    def segmentations(self) -> list[str]:
        """The names of the segmentations that are sampled."""
        if self.settings.dropout is None:
            return []
        return [f"{SEGMENTATION}{number}" for number in range(2, self.settings.segmentations + 1)]

    def sample(self, folder: Path, text: Path, models: Sequence[str | None]) -> dict[str, Any]:
        """Sample the sub-words of the training text."""
        settings = self.settings
        assert settings.dropout is not None
        files = [self.work / "learn" / model for model in models if model]
        return texts.sample(
            folder,
            text,
            settings.languages,
            settings.method,
            files,
            settings.dropout,
            self.segmentations,
            self.workers,
        )

    def binarize(self, folder: Path, pairs: dict[str, int]) -> dict[str, Any]:
        """Write the dictionaries and the binarized data, which must have all pairs."""
        settings, sampled = self.settings, self.segmentations
        encoded = {
            **{name: self.work / "encode" / name for name in pairs},
            **{name: self.work / "sample" / name for name in sampled},
        }
        limit = dictionary_limit(settings)
        found = binarize(settings.languages, encoded, folder, settings.joint, limit, sampled)
        for name, count in found.items():
            check_count(pairs.get(name, pairs["train"]), str(encoded[name]), count)
        return {}

    def move(self, folders: dict[str, Path]) -> None:
        """Move the results from ``work`` to their places; those that are there stay."""
        places = {"encode": TOKENS, "binarize": DATA}
        moves = [(self.work / name, self.out / place) for name, place in places.items()]
        (self.out / TEXT).mkdir(exist_ok=True)
        for name, folder in folders.items():
            if name != "train":
                for language in self.settings.languages:
                    file = f"{name}.{language}"
                    moves.append((folder / TEXT / file, self.out / TEXT / file))
        if self.settings.method != "none":
            models = (self.work / "learn").iterdir()
            moves += [(path, self.out / path.name) for path in models]
        for path, place in moves:
            if path.exists():
                path.rename(place)
