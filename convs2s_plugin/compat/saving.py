"""Saving checkpoints: each is whole or absent, by one training at a time in each folder."""

import errno
import functools
import os
import re
import stat
import tempfile
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from convs2s.checkpoints.files import save_checkpoint
from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_path

# The reasons for which a file has no room.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# Files that a training writes and reads, and their names until they are complete.
CHECKPOINT = re.compile(r"(checkpoint.*|crash)\.pt")
PARTIAL = re.compile(r"(checkpoint.*|crash)\.pt\.partial")
AFTERWARDS = (
    "The checkpoints before it are whole: free some space, or save fewer of them "
    "(--no-epoch-checkpoints, --keep-last-epochs), and start the same command again, which "
    "continues from the newest."
)


def save_atomically() -> None:
    """Write each checkpoint whole or not at all, and say in one sentence why it cannot be written.

    fairseq tries three times to write a checkpoint, and leaves an incomplete file if it fails.
    """
    original = checkpoint_utils.torch_persistent_save

    @functools.wraps(original)
    def torch_persistent_save(obj: Any, filename: str, async_write: bool = False) -> Any:
        if async_write or not PathManager.supports_rename(filename):
            return original(obj, filename, async_write)
        try:
            save_checkpoint(obj, filename)
        except UserError as error:
            raise UserError(f"{error} {AFTERWARDS}") from error

    checkpoint_utils.torch_persistent_save = torch_persistent_save


def copy_atomically() -> None:
    """Copy checkpoints in one step, so that a killed training can always be resumed.

    fairseq writes a checkpoint to one file, and then copies it over ``checkpoint_last.pt`` and
    others; a process that is killed during the copy would leave an incomplete file. If there is no
    room for the new file beside the old one, the old one is removed first.
    """
    original = PathManager.copy

    @functools.wraps(original)
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not PathManager.supports_rename(dst_path):
            return original(src_path, dst_path, overwrite=overwrite)
        try:
            return copy_whole(src_path, dst_path)
        except UserError as error:
            if not _has_no_room(error) or not os.path.isfile(dst_path):
                raise
            os.remove(dst_path)
            return copy_whole(src_path, dst_path)

    def copy_whole(src_path: str, dst_path: str) -> Any:
        try:
            with atomic_path(dst_path) as partial:
                return original(src_path, partial, overwrite=True)
        except UserError as error:
            raise UserError(f"{error} {AFTERWARDS}") from error.__cause__

    PathManager.copy = staticmethod(copy)


def _has_no_room(error: UserError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_ROOM


def check_folders() -> None:
    """Say in one sentence, before the training, why checkpoints cannot be written to their folder.

    fairseq writes to a file ``dummy`` in it, which it removes even if it was there before.
    """
    original = checkpoint_utils.verify_checkpoint_directory

    @functools.wraps(original)
    def verify_checkpoint_directory(save_dir: str) -> None:
        try:
            os.makedirs(save_dir, exist_ok=True)
            with tempfile.TemporaryFile(dir=save_dir):
                pass
            names = sorted(os.listdir(save_dir))
        except OSError as error:
            raise UserError(
                f"{save_dir} cannot be written (--save-dir): {error.strerror or error}."
            ) from error
        for name in names:
            path = os.path.join(save_dir, name)
            if CHECKPOINT.fullmatch(name) and os.path.exists(path) and not os.path.isfile(path):
                raise UserError(
                    f"{path} has the name of a checkpoint, but is not a plain file: remove it, or "
                    "choose another --save-dir."
                )
            if PARTIAL.fullmatch(name) and not stat.S_ISREG(os.lstat(path).st_mode):
                raise UserError(
                    f"{path} has the name of a checkpoint that is being written, but is not a "
                    "plain file: remove it, or choose another --save-dir."
                )

    checkpoint_utils.verify_checkpoint_directory = verify_checkpoint_directory
