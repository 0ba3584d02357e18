"""Continuing what an earlier run started: with the same settings, in files that grow."""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from .data_files import read_json
from .errors import UserError
from .locks import is_at, release
from .output_files import (
    atomic_write,
    create_temporary,
    give_name,
    lock_temporary,
    partial_name,
    undo_after_error,
)

# Suffix of the file that says how far an output is written.
SUFFIX = ".resume"
KEYS = {"settings", "position", "sizes", "finished"}


def check_unchanged(earlier: dict[str, Any], now: dict[str, Any], made: str, advice: str) -> None:
    """Refuse settings that differ from those of an earlier run.

    Args:
        earlier, now: both settings.
        made: what was made with them, up to the name of a setting, for the error.
        advice: what to do.
    Raises:
        UserError: naming the first setting that differs and both values ("unset" if there is none).
    """
    for name in [*now, *earlier]:
        before, after = earlier.get(name, "unset"), now.get(name, "unset")
        if isinstance(before, dict) and isinstance(after, dict):
            check_unchanged(before, after, f"{made}{name}.", advice)
        elif before != after:
            raise UserError(f"{made}{name} {before}, but now it is {after}: {advice}.")


def record_name(path: str) -> str:
    """The file beside an output that says how far it is written."""
    return f"{os.path.realpath(path)}{SUFFIX}"


def begin_anew(path: str) -> None:
    """Forget how an output that is to be replaced was written.

    Args:
        path: the output.
    Raises:
        UserError: if it is not complete and ``--resume`` can continue it.
    """
    record = record_name(path)
    found = _read(record)
    if found is not None and not found["finished"]:
        raise UserError(
            f"{path} was started with --resume and is not complete: give --resume to continue, or "
            f"remove {record} to start again."
        )
    Path(record).unlink(missing_ok=True)


class ResumableFiles:
    """Text files that are written together and piece by piece; a context manager.

    They are named ``FILE.partial`` until all are complete, and stay after an error. A record beside
    the first one says how large they are after the last piece: what a process wrote beyond that
    before it ended is cut off.

    Args:
        paths: option -> file.
        settings: what their content depends on, as JSON data; option -> value.
        start: the position before the first piece.
    Attributes:
        files: option -> open file; none if all are complete already.
        position: the position after the last piece.
        is_finished: whether all are complete already.
    Raises:
        UserError: on entering, if the files were started with other settings, are not as the
            record says, or are being written by another process.
        WorkInterrupted: if a file cannot be written, as on a full disk.
    """

    def __init__(
        self, paths: Mapping[str, str], settings: dict[str, Any], start: Mapping[str, int]
    ):
        self._paths, self._settings = paths, settings
        self._first = next(iter(paths.values()))
        self._record = record_name(self._first)
        self._stack = ExitStack()
        self.files: dict[str, TextIO] = {}
        self.position = start
        self.is_finished = False

    def __enter__(self) -> "ResumableFiles":
        with self._stack as stack:
            stack.enter_context(undo_after_error(self._first, lambda: None))
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def save(self, position: Mapping[str, int]) -> None:
        """Record that the files are whole up to a position, where a later run will continue."""
        self._save(position, finished=False)

    def finish(self, position: Mapping[str, int]) -> None:
        """Give the files their names, since they are complete at a position."""
        self._save(position, finished=True)
        self._name_files()

    def _open(self, stack: ExitStack) -> None:
        found = self._earlier()
        descriptors = {}
        if found is None or not found["finished"]:
            for option, path in self._paths.items():
                descriptors[option] = _open_temporary(path)
                stack.callback(release, descriptors[option])
            # Until they were locked, another process may have written them.
            found = self._earlier()
        if found is not None and found["finished"]:
            self._name_files()
            self.is_finished = True
            return
        for option, descriptor in descriptors.items():
            size = found["sizes"][option] if found else 0
            partial = partial_name(self._paths[option])
            if (written := os.fstat(descriptor).st_size) < size:
                raise UserError(
                    f"{partial} has {written:,} bytes, but had {size:,} when {self._record} was "
                    "written: restore both, or remove them to start again."
                )
            os.ftruncate(descriptor, size)
            file = open(partial, "a", encoding="utf-8", newline="\n")
            self.files[option] = stack.enter_context(file)

    def _earlier(self) -> dict[str, Any] | None:
        """What an earlier run recorded, if there was one; its settings must be these."""
        found = _read(self._record)
        if found is not None:
            made = f"{self._first} was started with "
            advice = f"give the earlier value, or remove {self._record} to start again"
            check_unchanged(found["settings"], self._settings, made, advice)
            if {*found["position"]} != {*self.position} or {*found["sizes"]} != {*self._paths}:
                raise _damaged(self._record)
            self.position = found["position"]
        return found

    def _save(self, position: Mapping[str, int], finished: bool) -> None:
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
        content = {
            "settings": self._settings,
            "position": position,
            "sizes": {each: os.fstat(file.fileno()).st_size for each, file in self.files.items()},
            "finished": finished,
        }
        with atomic_write(self._record) as record:
            json.dump(content, record)
            record.flush()
            os.fsync(record.fileno())

    def _name_files(self) -> None:
        """Give the files their names, as far as an earlier run has not done so."""
        sizes = read_json(self._record)["sizes"]
        for option, path in self._paths.items():
            partial, target = partial_name(path), os.path.realpath(path)
            if _size(partial) == sizes[option]:
                # Another process may do the same.
                with suppress(FileNotFoundError):
                    give_name(partial, target)
            if _size(target) != sizes[option]:
                raise UserError(
                    f"{path} is not as it was when it was completed, with {sizes[option]:,} bytes: "
                    f"restore it, or remove {self._record} to start again."
                )
            Path(partial).unlink(missing_ok=True)


def _open_temporary(path: str) -> int:
    """Open and lock the temporary file of an output, which is created if there is none."""
    partial, target = partial_name(path), os.path.realpath(path)
    while True:
        try:
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(partial, flags)
        except FileNotFoundError:
            return create_temporary(partial, target)
        lock_temporary(descriptor, target)
        if is_at(descriptor, partial):
            return descriptor
        release(descriptor)


def _read(record: str) -> dict[str, Any] | None:
    """The content of a record; None if there is none.

    Raises:
        UserError: if it is damaged.
    """
    if not os.path.lexists(record):
        return None
    content = read_json(record)
    if not isinstance(content, dict) or content.keys() != KEYS:
        raise _damaged(record)
    numbers = [content["position"], content["sizes"]]
    if not all(isinstance(each, dict) for each in [*numbers, content["settings"]]):
        raise _damaged(record)
    for value in (value for each in numbers for value in each.values()):
        if type(value) is not int or value < 0:
            raise _damaged(record)
    return content


def _damaged(record: str) -> UserError:
    return UserError(
        f"{record} is damaged: the command did not write it. Remove it to start again."
    )


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
