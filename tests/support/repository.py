"""The files of the repository, without what git ignores."""

import shutil
import subprocess

import pytest

from tests import ROOT


def repository_files():
    """The names of committed and of new files; without git, the test is skipped."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout with git")
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in filter(None, done.stdout.split("\0")) if (ROOT / name).is_file()]


def copy_repository(folder):
    """Copy them to a new folder."""
    for name in repository_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
