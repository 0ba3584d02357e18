"""Locks of the folders of training runs: two would overwrite each other's checkpoints."""

import os

from convs2s.common import locks

# Folders that this process has locked, and what holds the locks.
_locked: dict[str, int] = {}


def lock(folder: str) -> None:
    """Keep other training runs out of a folder until ``unlock``, or the end of this process.

    The folders of earlier training runs of this process are unlocked. File systems without locks
    are not protected.

    Raises:
        UserError: if another training run uses the folder.
    """
    folder = os.path.realpath(folder)
    if locks.is_held(_locked.get(folder)) or not os.path.isdir(folder):
        return
    unlock()
    _locked[folder] = locks.lock_folder(
        folder,
        f"Another training run saves its checkpoints in {folder}: wait until it ends, or choose "
        "another folder with --save-dir.",
    )


def unlock() -> None:
    """End the locks of this process."""
    while _locked:
        locks.release(_locked.popitem()[1])
