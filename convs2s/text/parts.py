"""Parts of a text, with a fixed number of lines: each is complete or absent, whoever writes it.

A killed stage continues with the parts that are not there. A shard has every N-th part.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ..common.data_files import read_json
from ..common.errors import UserError
from ..common.output_files import make_folder, undo_after_error
from ..common.progress import show_progress
from ..common.shards import Shard

# Lines of a part. Parts of another size belong to another version.
LINES = 100_000
COUNTS = "counts.json"
# Shards that an error names.
NAMED = 10
Counts = dict[str, Any]
Result = TypeVar("Result")


def part_sizes(lines: int) -> list[int]:
    """The number of lines in each part of a text with this many lines."""
    return [min(LINES, lines - start) for start in range(0, lines, LINES)]


def part(folder: Path, number: int) -> Path:
    """The folder of a part."""
    return folder / f"{number:06}"


def missing(folder: Path, count: int) -> list[int]:
    """The numbers of the parts that are not there.

    Args:
        folder: folder of the parts.
        count: how many parts there must be.
    """
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    return [number for number in range(count) if part(folder, number).name not in found]


def check_shards(parts: Mapping[Path, int], shards: int | None, done: str) -> None:
    """Check that shards have written all parts.

    Args:
        parts: folder of the parts -> their number.
        shards: number of shards; None if there are none.
        done: what shards do with the text, for the error.
    Raises:
        UserError: if parts of a shard are not there.
    """
    if shards is None:
        return
    absent = [number for folder, count in parts.items() for number in missing(folder, count)]
    if numbers := sorted({number % shards for number in absent}):
        named = ", ".join(map(str, numbers[:NAMED]))
        more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
        raise UserError(
            f"Text of --shard-id {named}{more} has not been {done} (--num-shards {shards}): run "
            "the same command with each of them first."
        )


def write_parts(
    folder: Path,
    sizes: Sequence[int],
    shard: Shard,
    title: str,
    results: Callable[[list[int]], Iterable[Result]],
    write: Callable[[Path, Iterator[Result]], Counts],
) -> None:
    """Write the parts of a shard that are not there.

    Args:
        folder: folder of the parts; made if it is missing.
        sizes: the number of lines of each part.
        shard: which parts to write.
        title: what is done, for the progress.
        results: from numbers of parts to the results of all of their lines.
        write: writes the results of a part to a folder, and returns counts, which must fit into
            JSON.
    Raises:
        WorkInterrupted: if files cannot be written.
        UserError: if the number of lines of a part differs from ``sizes``.
    """
    make_folder(str(folder))
    todo = [n for n in missing(folder, len(sizes)) if n % shard.total == shard.number]
    total = sum(sizes[number] for number in todo)
    stream = iter(show_progress(results(todo), "lines", title, total))
    for number in todo:
        with _new_part(folder, number) as new:
            lines = _Counted(islice(stream, sizes[number]))
            counts = write(new, lines)
            check_count(sizes[number], f"Part {number} of {folder}", lines.count)
            (new / COUNTS).write_text(json.dumps(counts), encoding="utf-8")


class _Counted:
    """An iterator that counts."""

    def __init__(self, items: Iterator[Any]):
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = next(self._items)
        self.count += 1
        return item


def read_counts(folder: Path, count: int) -> Iterator[Counts]:
    """What ``write`` returned for each of this many parts.

    Raises:
        UserError: if a part is missing or damaged.
    """
    return (read_record(part(folder, number) / COUNTS) for number in range(count))


def read_record(path: Path) -> Counts:
    """The content of a file that a stage wrote.

    Raises:
        UserError: if it is missing or damaged.
    """
    try:
        return dict(read_json(path))
    except (TypeError, ValueError) as error:
        raise damaged(path) from error


def damaged(path: Path) -> UserError:
    """An error about a file that a stage wrote."""
    return UserError(
        f"{path} is damaged: start again with --overwrite, or choose another folder with --out."
    )


def check_count(expected: int, name: str, found: int) -> None:
    """Check that a text has the sentences that it had in the stage before.

    Raises:
        UserError: if it does not: each line after the fault would belong to another one.
    """
    if found != expected:
        raise UserError(
            f"{name} has {found:,} lines instead of {expected:,}: a file was changed, or cut off, "
            "while it was in use. Prepare the text again."
        )


def join(folder: Path, count: int, name: str, path: Path) -> None:
    """Join the files of this name in each part.

    Args:
        folder: folder of the parts.
        count: number of parts.
        name: name of the files.
        path: the file to write.
    """
    with open(path, "wb") as file:
        for number in range(count):
            with open(part(folder, number) / name, "rb") as source:
                shutil.copyfileobj(source, file)


@contextmanager
def _new_part(folder: Path, number: int) -> Iterator[Path]:
    """A temporary folder, which becomes a part unless another process was faster."""
    new = folder / f"{part(folder, number).name}.{os.urandom(4).hex()}.partial"
    with undo_after_error(str(new), lambda: shutil.rmtree(new, ignore_errors=True)):
        new.mkdir()
        yield new
        try:
            new.rename(part(folder, number))
        except OSError:
            if not part(folder, number).exists():
                raise
            shutil.rmtree(new)
