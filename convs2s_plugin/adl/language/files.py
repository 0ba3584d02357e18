"""Files that a definition names with ``@``. Knows neither torch nor fairseq."""

import os

from .tree import Place

MAX_LENGTH = 20000
MAX_NAME = 400


def find(name: str, beside: str | None, place: Place) -> str:
    """The path that a file's name stands for.

    Args:
        name: as written after ``@``.
        beside: path of the file that names it, or None for the current folder.
        place: where it is named.
    Raises:
        TextError: where the name is too long to be one.
    """
    if len(name) > MAX_NAME:
        raise place.refuse(f"the name of a file has more than {MAX_NAME} characters")
    folder = os.path.dirname(beside) if beside else "."
    return os.path.realpath(os.path.join(folder, os.path.expanduser(name)))


def read(path: str, name: str, place: Place) -> str:
    """The text of a file.

    Args:
        path: where it lies.
        name: what the definition calls it, for messages.
        place: where it is named.
    Raises:
        TextError: where it is missing, is no plain file, is too long, or is not UTF-8.
    """
    if not os.path.isfile(path):
        raise place.refuse(f"there is no file '{name}' (sought as {path})")
    try:
        with open(path, encoding="utf-8-sig") as lines:
            text = lines.read(MAX_LENGTH + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise place.refuse(f"the file '{name}' cannot be read: {why}") from None
    if len(text) > MAX_LENGTH:
        raise place.refuse(f"the file '{name}' is longer than {MAX_LENGTH} characters")
    return text
