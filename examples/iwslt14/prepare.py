"""Prepare the text of IWSLT'14 German-English as fairseq's prepare-iwslt14.sh does.

Writes train, valid and test.{de,en}: tokenized, cleaned, lowercased, without sub-words.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from archive import ADDRESS, LANGUAGES, TEST_SETS, TRAIN, download, find_files

from convs2s.common.errors import UserError
from convs2s.common.output_files import undo_after_error
from convs2s.common.progress import show_progress
from convs2s.common.signals import exit_on_signals
from convs2s.common.text_files import read_lines
from convs2s.text.cleaning import Limits, fault
from convs2s.text.parallel import mapper
from convs2s.text.tokenizers import MosesTokenizer

Pair = tuple[str, str]

# Lines with these tags are dropped.
DROPPED = ("<url>", "<talkid>", "<keywords>")
# These tags are removed from their lines.
REMOVED = re.compile(r"</?(?:title|description)>")
SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')
# The limits of the script, which calls Moses' clean-corpus-n.perl.
LIMITS = Limits(length=175, ratio=1.5, duplicates=True)
# Every 23rd training pair is for validation.
VALID_EVERY = 23
# Counts of fairseq's script on the published archive.
PUBLISHED = {
    "tagged": 174_443,
    "cleaned": 167_522,
    "train": 160_239,
    "valid": 7_283,
    "test": 6_750,
}


def tagged_lines(path: Path) -> Iterator[str]:
    """The sentences, titles and descriptions of a tagged training file."""
    for line in read_lines(str(path)):
        if not any(tag in line for tag in DROPPED):
            yield REMOVED.sub("", line)


def segments(path: Path) -> Iterator[str]:
    """The sentences of a test set in XML, with straight apostrophes."""
    for line in read_lines(str(path)):
        if "<seg id" in line:
            yield SEGMENT.sub("", line).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def read_pairs(paths: list[Path], read: Callable[[Path], Iterator[str]]) -> Iterator[Pair]:
    """The pairs of two files; exit if their numbers of sentences differ."""
    counts = [0, 0]
    for pair in zip_longest(*map(read, paths)):
        for side, sentence in enumerate(pair):
            counts[side] += sentence is not None
        if None not in pair:
            yield pair
    if counts[0] != counts[1]:
        sys.exit(
            f"{paths[0].name} has {counts[0]:,} sentences, but {paths[1].name} has {counts[1]:,}: "
            "they must be translations of each other, line by line."
        )


def make_tokenizer() -> Callable[[Pair], Pair]:
    """A function that tokenizes both sides; special characters become entities, as in Moses."""
    tokenizers = [MosesTokenizer(language, escape=True) for language in LANGUAGES]

    def tokenize(pair: Pair) -> Pair:
        source, target = (
            tokenizer.tokenize(sentence.strip()) for tokenizer, sentence in zip(tokenizers, pair)
        )
        return source, target

    return tokenize


class Splits:
    """Writes lowercased pairs to SPLIT.LANGUAGE in a folder, and counts them."""

    def __init__(self, folder: Path, files: ExitStack):
        self.counts = {"train": 0, "valid": 0, "test": 0}
        self.files = {
            (split, language): files.enter_context(
                open(folder / f"{split}.{language}", "w", encoding="utf-8", newline="\n")
            )
            for split in self.counts
            for language in LANGUAGES
        }

    def add(self, split: str, pair: Pair) -> None:
        for language, sentence in zip(LANGUAGES, pair):
            line = " ".join(sentence.split()).lower()
            self.files[split, language].write(f"{line}\n")
        self.counts[split] += 1


def write_splits(files: dict[str, Path], folder: Path, jobs: int) -> dict[str, int]:
    """Write all splits to a folder and return the counts, with the keys of PUBLISHED."""
    counts = {"tagged": 0, "cleaned": 0}
    with ExitStack() as stack:
        run = stack.enter_context(mapper(jobs, make_tokenizer))
        splits = Splits(folder, stack)
        paths = [files[f"{TRAIN}.{language}"] for language in LANGUAGES]
        pairs = run(read_pairs(paths, tagged_lines))
        for pair in show_progress(pairs, "pairs", TRAIN, PUBLISHED["tagged"]):
            counts["tagged"] += 1
            if fault(*pair, LIMITS) is None:
                counts["cleaned"] += 1
                last = counts["cleaned"] % VALID_EVERY == 0
                splits.add("valid" if last else "train", pair)
        print(f"  {TRAIN}: {counts['tagged']:,} lines, {counts['cleaned']:,} after cleaning")
        for name in TEST_SETS:
            before = splits.counts["test"]
            paths = [files[f"{name}.{language}.xml"] for language in LANGUAGES]
            for pair in run(read_pairs(paths, segments)):
                splits.add("test", pair)
            print(f"  {name}: {splits.counts['test'] - before:,} pairs")
    return {**counts, **splits.counts}


def prepare(archive: Path, out: Path, jobs: int) -> dict[str, int]:
    """Prepare the text; the output folder exists only once it is complete.

    Raises:
        UserError: if the archive cannot be read, or the output folder not be written.
    """
    with undo_after_error(str(out), lambda: None):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
            unpacked, text = Path(temporary) / "unpacked", Path(temporary) / "text"
            unpacked.mkdir()
            text.mkdir()
            counts = write_splits(find_files(archive, unpacked), text, jobs)
            if out.exists():
                out.rmdir()
            text.rename(out)
    return counts


def report(counts: dict[str, int], out: Path) -> None:
    """Print the counts beside those of fairseq's script."""
    print(f"\n{'':24}{'here':>9}{'published':>11}")
    titles = {"tagged": "training lines", "cleaned": "after cleaning"}
    for name, published in PUBLISHED.items():
        print(f"{titles.get(name, f'{out.name}/{name}'):24}{counts[name]:>9,}{published:>11,}")
    if counts != PUBLISHED:
        print(
            "\nThe counts are not those that fairseq's script gives for the published archive, so "
            "scores on this text are not comparable with published ones."
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--archive", type=Path, default=Path("de-en.tgz"), metavar="PATH",
        help="the archive, or a folder with its files (default: %(default)s)")  # fmt: skip
    add("--download", action="store_true",
        help="download the archive to --archive if it is not there (20 MB)")  # fmt: skip
    add("--address", default=ADDRESS, help="address of the archive (default: %(default)s)")
    add("--out", type=Path, default=Path("iwslt14_text"),
        help="output folder, which must be new or empty (default: %(default)s)")  # fmt: skip
    add("--jobs", type=int, default=os.cpu_count() or 1,
        help="processes that tokenize (default: %(default)s)")  # fmt: skip
    args = parser.parse_args()
    if args.jobs < 1:
        parser.error(f"--jobs is {args.jobs}, but must be at least 1.")
    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        parser.error(f"{args.out} already exists: remove it, or choose a new folder with --out.")
    # The current folder has no name, and a link cannot be replaced by a folder.
    args.out = args.out.resolve()
    return args


def main() -> None:
    args = parse_arguments()
    try:
        with exit_on_signals():
            if args.download and not args.archive.exists():
                print(f"Downloading {args.address}")
                download(args.address, args.archive)
            print(f"Preparing the text of {args.archive}")
            report(prepare(args.archive, args.out, args.jobs), args.out)
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
