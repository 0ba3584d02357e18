"""Unpacking archives, whole or not at all. Needs neither torch nor fairseq."""

import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from .errors import UserError

# What tarfile raises if an archive is damaged.
DAMAGED = (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive, compressed or not, into a new folder.

    Nothing is written outside of the folder, and only files and folders are made. After an error,
    there is no folder.

    Args:
        archive: the file.
        folder: the folder to make; the one above it must exist.
    Raises:
        UserError: if the file is no archive, is damaged, or holds anything but files and folders.
    """
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                _write(opened, member, archive, partial)
        # mkdtemp makes folders that nobody else can read.
        partial.chmod(0o755)
        os.replace(partial, folder)
    except DAMAGED as error:
        raise UserError(f"{archive} cannot be unpacked: {error}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(opened: tarfile.TarFile, member: tarfile.TarInfo, archive: Path, folder: Path) -> None:
    """Write one member of an archive."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
        raise UserError(
            f"{archive} is not unpacked: '{member.name}' is not a file or folder inside of it."
        )
    path = folder.joinpath(*name.parts)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    source = opened.extractfile(member)
    assert source is not None
    with source, path.open("xb") as file:
        shutil.copyfileobj(source, file)


def only_folder(folder: Path) -> Path:
    """The single folder in a folder, where an archive has its content; otherwise the folder."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
