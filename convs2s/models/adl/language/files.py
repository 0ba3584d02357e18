"""Files that a definition includes with ``@``. Needs neither torch nor fairseq."""

import os

from .tree import Place

MAX_LENGTH = 20000
MAX_NAME = 400


def resolve_path(name: str, included_from: str | None, place: Place) -> str:
    """The path of an included file.

    Args:
        name: the name after ``@``.
        included_from: path of the file that includes it; None for the current folder.
        place: the place of the name, for errors.
    Raises:
        TextError: the name is too long.
    """
    if len(name) > MAX_NAME:
        raise place.error(f"the name of a file has more than {MAX_NAME} characters")
    folder = os.path.dirname(included_from) if included_from else "."
    return os.path.realpath(os.path.join(folder, os.path.expanduser(name)))


def read_text(path: str, name: str, place: Place) -> str:
    """The text of an included file.

    Args:
        path: the path of the file.
        name: the name after ``@``, for errors.
        place: the place of the name, for errors.
    Raises:
        TextError: the file is missing, is not a regular file, is too long, or is not UTF-8.
    """
    if not os.path.isfile(path):
        raise place.error(f"there is no file '{name}' (looked for {path})")
    try:
        with open(path, encoding="utf-8-sig") as lines:
            text = lines.read(MAX_LENGTH + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise place.error(f"the file '{name}' cannot be read: {why}") from None
    if len(text) > MAX_LENGTH:
        raise place.error(f"the file '{name}' is longer than {MAX_LENGTH} characters")
    return text
