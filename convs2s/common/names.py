"""Names and paths in the content of files, which must not lead out of a folder.

Files come from others: experiments, preparations, archives, options in checkpoints. What they give
as a name becomes part of a path, and must not lead to another folder.
"""

import re
import reprlib
from pathlib import Path, PureWindowsPath

from .errors import UserError

MAX_BYTES = 200
# Slashes of both kinds, control characters, and the halves of characters.
_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f\ud800-\udfff]")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a file or a part of it.

    It has no slashes and no control characters, and does not begin with a hyphen, which would make
    it an option of a program.
    """
    return (
        text.strip() not in ("", ".", "..")
        and not text.startswith("-")
        and not _FORBIDDEN.search(text)
        and len(text.encode()) <= MAX_BYTES
    )


def check_name(name: str, what: str) -> str:
    """Check that a text from a file, or an option, is a name.

    Args:
        name: the text.
        what: what it is, for the error.
    Returns:
        The name.
    Raises:
        UserError: if it is not; see ``is_name``.
    """
    if not is_name(name):
        raise UserError(f"{what} is {reprlib.repr(name)}: it must be {NAME}.")
    return name


NAME = (
    f"a name of at most {MAX_BYTES} bytes, without slashes and control characters, that does not "
    "begin with a hyphen"
)


def stays_inside(path: str) -> bool:
    """Whether a relative path stays in its folder, on any system."""
    # A path of Windows is split at both kinds of slashes.
    parts = PureWindowsPath(path)
    return not parts.anchor and ".." not in parts.parts and "\0" not in path


def inside(folder: Path, path: str, what: str) -> Path:
    """The place of a file that the content of another file names.

    Args:
        folder: the folder that it must be in.
        path: the path in the folder.
        what: what names it, for the error.
    Raises:
        UserError: if the path leads out of the folder.
    """
    if not path or not stays_inside(path):
        raise UserError(f"{what} is {reprlib.repr(path)[1:-1]}, which is not in its folder.")
    return folder / path
