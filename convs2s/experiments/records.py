"""What earlier runs have recorded, as JSON."""

import json
from pathlib import Path
from typing import Any

from ..common import data_files
from ..common.errors import UserError
from ..common.output_files import atomic_write


def read_json(path: Path, kind: type = dict) -> Any:
    """The content of a file; None if there is no file.

    Args:
        path: the file.
        kind: the type of its content.
    Raises:
        UserError: if it is damaged.
    """
    if not path.exists():
        return None
    content = data_files.read_json(path)
    if not isinstance(content, kind):
        raise UserError(f"{path} is damaged: `convs2s` did not write it. Remove it.")
    return content


def write_json(path: Path, content: object) -> None:
    """Write a file atomically."""
    with atomic_write(str(path)) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def as_json(content: Any) -> Any:
    """Data as it would be written and read again: tuples become lists."""
    return json.loads(json.dumps(content))
