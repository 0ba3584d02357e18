"""Prepare text: the checks before the stages, and the folder that they write to."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from ..common.errors import UserError, WorkInterrupted
from ..common.locks import is_at, lock_folder, release, shared_lock
from ..common.output_files import make_folder
from ..common.progress import show_progress
from ..common.shards import Shard
from ..common.text_files import read_sentences
from . import texts
from .binarize import binarize
from .learning import count_words, learn_subword_nmt
from .parts import read_record
from .pipeline import LEARNING, SUFFIXES, Pipeline, model_files
from .preparation import DATA, FILE_NAME, TEXT, TOKENS, check_counts, read_content
from .settings import Settings
from .sources import Languages, PairWriter, read_pairs
from .stages import FILE, check_settings
from .tokenizers import import_extra, of_sides

WORK, CHECKPOINTS = "work", "checkpoints"


def prepare(
    settings: Settings,
    out: Path,
    workers: int = 1,
    overwrite: bool = False,
    shards: int | None = None,
    shard: Shard | None = None,
) -> dict[str, Any] | None:
    """Prepare parallel text, or continue where an earlier call stopped.

    Args:
        settings: the choices.
        out: output folder; until everything is done, it has only the folder ``work``.
        workers: number of processes.
        overwrite: whether to remove an earlier preparation in ``out`` first.
        shards: number of shards, which must have cleaned and split the text; None to do it here.
        shard: do only the work of this shard; None for all the rest.
    Returns:
        The content of ``preparation.yaml``; None if shards have to work before there is one.
    Raises:
        WorkInterrupted: if the disk is full, a process ends, or the system cannot read a file; what
            is done stays.
        UserError: if the text or a setting is wrong, an earlier preparation had other settings, or
            a shard is missing.
    """
    check_inputs(settings, out)
    if out.exists() and not out.is_dir():
        raise UserError(f"--out is {out}, which is a file: choose another name.")
    with _locked(out, shared=shard is not None):
        return _prepare(settings, out, workers, overwrite, shards, shard)


@contextmanager
def _locked(out: Path, shared: bool) -> Iterator[None]:
    """Keep other processes out of the output folder, which is made if it is missing.

    Args:
        out: the folder.
        shared: whether to let in other processes that share it.
    Raises:
        UserError: if another process writes to it.
    """
    message = (
        f"Another `convs2s prepare` writes to {out}: wait until it ends, or choose another folder "
        "with --out."
    )
    while True:
        is_new = not out.exists()
        make_folder(str(out))
        try:
            descriptor = lock_folder(str(out), message, shared=shared)
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
            # It may have stayed empty.
            with suppress(OSError):
                out.rmdir()
        release(descriptor)


def _prepare(
    settings: Settings,
    out: Path,
    workers: int,
    overwrite: bool,
    shards: int | None,
    shard: Shard | None,
) -> dict[str, Any] | None:
    """The same, in a folder that no other process uses, except other shards."""
    path = out / FILE_NAME
    if overwrite:
        remove(out)
    if path.exists():
        earlier = read_content(path)
        check_settings(earlier.get("settings") or {}, settings.recorded(), out)
        check_counts(earlier, path)
        return earlier
    work = out / WORK
    if not (work / FILE).exists():
        _check_others(out, set())
    if "moses" in of_sides(settings.tokenizer):
        import_extra("sacremoses", "--tokenizer moses")
    if settings.method == "sentencepiece":
        import_extra("sentencepiece", "--bpe sentencepiece")
    pipeline = Pipeline(settings, out, work, workers)
    if shard is not None:
        lock = str(work / f"shard{shard.number}of{shard.total}.lock")
        with shared_lock(lock, f"--shard-id {shard.number} of {out}"):
            pipeline.run_shard(shard)
        return None
    try:
        content = pipeline.run(shards)
        if content is not None:
            # Folders that were incomplete when two shards made them are also removed.
            for folder in (work, *out.glob(f"{WORK}.*.partial")):
                shutil.rmtree(folder)
        return content
    except WorkInterrupted:
        raise
    except UserError as error:
        cause = error.__cause__
        # Such as a share that is not there for a moment. Damaged files have errors without a number
        # of the system. As long as nothing is done, the text may be a wrong one.
        is_of_machine = isinstance(cause, OSError) and cause.errno is not None
        if is_of_machine and any(path.name != FILE for path in work.iterdir()):
            raise WorkInterrupted(str(error)) from error
        if shards is None:
            # The corrected text or setting is another preparation, which could not continue this
            # one.
            shutil.rmtree(work)
        raise


def prepare_tokens(
    text: Path,
    languages: Languages,
    tests: Sequence[str],
    out: Path,
    merges: int,
    joined: bool,
) -> Path:
    """Sub-words and binarized data of text that is already clean and tokenized.

    Args:
        text: folder of ``SPLIT.LANGUAGE``, where the splits are train, valid and the test sets.
        languages: source and target.
        tests: names of the test sets; the data calls them test, test1, test2, ...
        out: an existing folder, which gets the folders of the sub-words and of the data.
        merges: number of BPE merges, learned on both languages; 0 for no BPE.
        joined: whether both languages share a dictionary.
    Returns:
        The folder of the binarized data.
    Raises:
        UserError: if a text cannot be read.
    """
    splits = ["train", "valid", *tests]
    method, codes = "none", None
    if merges:
        method, codes = "subword_nmt", out / SUFFIXES["subword_nmt"]
        files = [str(text / f"train.{language}") for language in languages]
        lines = chain.from_iterable(map(read_sentences, files))
        words = count_words(show_progress(lines, "lines", LEARNING))
        learn_subword_nmt(words, merges, codes)
    split_pair = texts.split(method, (codes, codes))
    tokens = out / TOKENS
    for split in splits:
        with PairWriter(tokens, split, languages) as writer:
            pairs = read_pairs(text, split, languages)
            for pair in show_progress(pairs, "pairs", f"Splitting {split} into sub-words"):
                writer.write(*split_pair(pair))
    data = out / DATA
    data.mkdir()
    names = ["train", "valid", *(f"test{number or ''}" for number in range(len(tests)))]
    binarize(languages, {name: tokens / split for name, split in zip(names, splits)}, data, joined)
    if not merges:
        # The tokens are those of the text.
        shutil.rmtree(tokens)
    return data


def check_inputs(settings: Settings, out: Path) -> None:
    """Check that nothing that is read is in a folder that a preparation writes and removes.

    Raises:
        UserError: if one is.
    """
    if settings.like is not None and settings.like.record.resolve().parent == out.resolve():
        raise UserError(
            f"--like and --out are both {out}, which would be made again: choose another --out."
        )
    folders = [(out / name).resolve() for name in (DATA, TOKENS, TEXT, WORK)]
    for text in settings.texts.values():
        for path in map(Path, text.paths):
            if any(path.resolve().is_relative_to(folder) for folder in folders):
                raise UserError(
                    f"{path} ({text.option}) is in a folder of --out, which is made again: move it "
                    "elsewhere, or choose another folder with --out."
                )


def remove(out: Path) -> None:
    """Remove what an earlier call wrote, complete or not.

    Raises:
        UserError: if models were trained on it, or other files are beside it; then all stays.
    """
    if not (out / FILE_NAME).exists() and not (out / WORK / FILE).exists():
        return
    trained = (path.parent for path in out.rglob("checkpoint*.pt"))
    for folder in chain(filter(Path.exists, [out / CHECKPOINTS]), trained):
        raise UserError(
            f"{folder} has models for the dictionaries that --overwrite would replace: move them "
            "away, or choose another folder with --out."
        )
    folders = (DATA, TOKENS, TEXT, WORK)
    # A killed call may leave a file that is not complete.
    files = (FILE_NAME, f"{FILE_NAME}.partial", *_models(out))
    _check_others(out, {*folders, *files})
    for name in files:
        (out / name).unlink(missing_ok=True)
    for name in folders:
        shutil.rmtree(out / name, ignore_errors=True)


def _models(out: Path) -> set[str]:
    """The files of sub-words that an earlier call wrote; none if its records are damaged."""
    with suppress(UserError):
        return {*(read_content(out / FILE_NAME)["subwords"].get("files") or {}).values()}
    with suppress(UserError, KeyError, TypeError):
        settings = read_record(out / WORK / FILE)["settings"]
        languages = settings["--source-lang"], settings["--target-lang"]
        names = model_files(settings["--bpe"], not settings["--separate"], languages)
        return {*filter(None, names)}
    return set()


def _check_others(out: Path, names: set[str]) -> None:
    """Check that an output folder has no files of others.

    Args:
        out: the folder.
        names: what may be there, besides the folder ``work`` and incomplete ones.
    Raises:
        UserError: if it has.
    """
    others = {path.name for path in out.iterdir() if path.name.partition(".")[0] != WORK} - names
    if others:
        raise UserError(
            f"--out is {out}, which has files that `convs2s prepare` did not write, such as "
            f"{min(others)}: move them away, or choose a new folder."
        )
