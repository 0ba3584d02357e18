"""Stages that are carried out once: a later call continues after the last complete one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common.data_files import read_json
from ..common.errors import UserError
from ..common.output_files import atomic_write, make_folder, undo_after_error

Counts = dict[str, Any]


class Stages:
    """The stages of one preparation, in the folder ``OUT/work``.

    Each has a folder there, which gets its name when the stage is complete. ``stages.json`` has the
    settings and the counts of the complete stages.

    Args:
        folder: the folder ``OUT/work``.
        settings: option -> value; must be those of an earlier call.
    Raises:
        UserError: if an earlier call had other settings.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder = folder
        self._file = folder / "stages.json"
        self._settings = settings
        self._done: dict[str, Counts] = {}
        if self._file.exists():
            earlier, self._done = self._read()
            check_settings(earlier, settings, folder.parent)
        else:
            make_folder(str(folder))
            self._write()

    def _read(self) -> tuple[dict[str, Any], dict[str, Counts]]:
        """The settings and the counts of an earlier call."""
        try:
            content = read_json(self._file)
            earlier, done = dict(content["settings"]), dict(content["stages"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self._file} is damaged: start again with --overwrite, or choose another folder "
                "with --out."
            ) from error
        return earlier, done

    def run(self, name: str, work: Callable[[Path], Counts]) -> Counts:
        """Carry out a stage unless it is complete, and return its counts.

        Args:
            name: of the stage and its folder.
            work: writes to a folder and returns counts, which must fit into JSON.
        Raises:
            WorkInterrupted: if files cannot be written.
        """
        if name not in self._done:
            partial = self.folder / f"{name}.partial"
            for path in (partial, self.folder / name):
                shutil.rmtree(path, ignore_errors=True)
            partial.mkdir()
            with undo_after_error(str(partial), lambda: shutil.rmtree(partial, ignore_errors=True)):
                counts = work(partial)
            partial.rename(self.folder / name)
            self._done[name] = counts
            self._write()
        return self._done[name]

    def _write(self) -> None:
        with atomic_write(str(self._file)) as file:
            json.dump({"settings": self._settings, "stages": self._done}, file, indent=2)


def check_settings(earlier: dict[str, Any], settings: dict[str, Any], out: Path) -> None:
    """Check that settings are those of an earlier call.

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
    """An option with its value, as one would write it."""
    if value is None or value is False:
        return f"no {option}"
    if value is True:
        return option
    return f"{option} {' '.join(_paths(value)) if isinstance(value, list) else value}"
