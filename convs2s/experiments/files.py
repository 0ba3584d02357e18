"""Files in the folder of a run: JSON, lines of text, and the time of a training."""

import json
from pathlib import Path
from typing import Any

from ..common import text_files
from ..common.output_files import atomic_write


class TrainingTimes:
    """The time of a training, summed over the parts between interruptions.

    Args:
        path: the file that keeps it.
    """

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> dict[str, float]:
        """Seconds: "wall", and "cpu" of all processes."""
        return read_json(self.path) or {"wall": 0.0, "cpu": 0.0}

    def add(self, wall: float, cpu: float) -> None:
        """Add a part."""
        before = self.read()
        write_json(self.path, {"wall": before["wall"] + wall, "cpu": before["cpu"] + cpu})


def read_json(path: Path) -> Any:
    """The content of a file; None if there is no file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def write_json(path: Path, content: object) -> None:
    """Write a file atomically."""
    with atomic_write(str(path)) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[str]:
    """The lines of a text without line ends; see ``text_files.read_lines``."""
    return [line.removesuffix("\n") for line in text_files.read_lines(str(path))]


def write_lines(path: Path, lines: list[str]) -> None:
    """Write lines of text atomically."""
    with atomic_write(str(path)) as file:
        file.writelines(f"{line}\n" for line in lines)
