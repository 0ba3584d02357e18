"""Stages that are carried out once: a later call continues after the last complete one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.output_files import atomic_folder, atomic_write, make_folder, undo_after_error
from . import parts
from .parts import Counts, damaged, read_record

FILE = "stages.json"


class Stages:
    """The stages of one preparation, in the folder ``OUT/work``.

    Each has a folder there, which gets its name when the stage is complete, unless the stage writes
    parts. ``stages.json`` has the settings and the counts of the complete stages.

    Args:
        folder: the folder ``OUT/work``.
        settings: option -> value; they must equal those of an earlier call.
    Raises:
        UserError: if an earlier call had other settings.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder = folder
        self._file = folder / FILE
        self._settings = settings
        self.done: dict[str, Counts] = {}
        if not self._file.exists():
            self._create()
        content = read_record(self._file)
        if content.get("lines_of_a_part") != parts.LINES:
            raise UserError(
                f"{folder} was written by another version of `convs2s prepare`: start again with "
                "--overwrite, or choose another folder with --out."
            )
        try:
            earlier, self.done = dict(content["settings"]), dict(content["stages"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(self._file) from error
        check_settings(earlier, settings, folder.parent)

    def _create(self) -> None:
        """Make the folder, unless another shard has just made it."""
        try:
            with atomic_folder(str(self.folder)) as new:
                self._write(Path(new) / FILE)
        except UserError:
            if not self._file.exists():
                raise

    def run(self, name: str, work: Callable[[Path], Counts], in_parts: bool = False) -> Counts:
        """Carry out a stage unless it is complete, and return its counts.

        Args:
            name: name of the stage and its folder.
            work: writes to a folder and returns counts, which must fit into JSON.
            in_parts: whether what is already in the folder was written by an earlier call.
        Raises:
            WorkInterrupted: if files cannot be written.
        """
        if name not in self.done:
            folder = self.folder / name
            if in_parts:
                make_folder(str(folder))
                with undo_after_error(str(folder), lambda: None):
                    self.done[name] = work(folder)
            else:
                self.done[name] = self._run_whole(folder, work)
            self._write(self._file)
        return self.done[name]

    def _run_whole(self, folder: Path, work: Callable[[Path], Counts]) -> Counts:
        partial = folder.with_name(f"{folder.name}.partial")
        for path in (partial, folder):
            shutil.rmtree(path, ignore_errors=True)
        partial.mkdir()
        with undo_after_error(str(partial), lambda: shutil.rmtree(partial, ignore_errors=True)):
            counts = work(partial)
        partial.rename(folder)
        return counts

    def _write(self, path: Path) -> None:
        content = {
            "lines_of_a_part": parts.LINES,
            "settings": self._settings,
            "stages": self.done,
        }
        with atomic_write(str(path)) as file:
            json.dump(content, file, indent=2)


def check_settings(earlier: dict[str, Any], settings: dict[str, Any], out: Path) -> None:
    """Check that settings equal those of an earlier call.

    Args:
        earlier, settings: option -> value.
        out: the output folder, for the error.
    Raises:
        UserError: if they differ.
    """
    for option, value in json.loads(json.dumps(settings)).items():
        before = earlier.get(option)
        if before == value:
            continue
        if isinstance(before, list) and isinstance(value, list) and _paths(before) == _paths(value):
            changed = f"{' or '.join(_paths(value))} has changed since {out} was prepared"
        else:
            changed = f"{out} was prepared with {_shown(option, before)}, now with "
            changed += _shown(option, value)
        raise UserError(
            f"{changed}: choose another folder with --out, or start again with --overwrite."
        )


def _paths(files: list[dict[str, Any]]) -> list[str]:
    return [file["path"] for file in files]


def _shown(option: str, value: Any) -> str:
    """An option with its value, as on a command line."""
    if value is None or value is False:
        return f"no {option}"
    if value is True:
        return option
    return f"{option} {' '.join(_paths(value)) if isinstance(value, list) else value}"
