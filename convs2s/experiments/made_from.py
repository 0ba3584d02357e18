"""What a run was made from: the settings of the runs whose models or translations it uses."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.resuming import check_unchanged
from .records import read_json, write_json

if TYPE_CHECKING:
    from .results import Workplace
    from .runs import Run

FILE = "made_from.json"
# The settings of a run that its translations depend on, and its model does not.
OF_TRANSLATION = ("generate", "searches")


def write_made_from(place: "Workplace", run: "Run") -> None:
    """Record the settings of the runs that a run uses, and of those that they were made from."""
    found: dict[str, Any] = {}
    for name in run.used:
        settings = place.settings(name)
        if settings is None:
            continue
        if name not in run.teachers:
            settings = _of_model(settings)
        # A run whose translations are used as well has all of its settings here.
        for other, each in {name: settings, **_read(place.folder(name))}.items():
            found[other] = {**found.get(other, {}), **each}
    if found:
        write_json(place.folder(run.name) / FILE, found)


def check_made_from(place: "Workplace", run: "Run", advice: str) -> None:
    """Refuse a run that was made from runs with other settings than they have now.

    Runs that are missing now, and results that say nothing about them, are accepted.

    Raises:
        UserError: naming both runs, the option and both values.
    """
    for name, earlier in _read(place.folder(run.name)).items():
        now = place.settings(name)
        if now is not None:
            whole = any(key in earlier for key in OF_TRANSLATION)
            made = f"The run {run.name} was made from {name} with "
            check_unchanged(earlier, now if whole else _of_model(now), made, advice)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    return read_json(folder / FILE) or {}


def _of_model(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in OF_TRANSLATION}
