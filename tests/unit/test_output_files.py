"""Writing files: whole or not at all, through links, with the mode of the old file."""

import errno
import os
import stat

import pytest
import torch

from convs2s_plugin.checkpoints import save_checkpoint
from convs2s_plugin.errors import UserError
from convs2s_plugin.output_files import atomic_path, atomic_write


def write_text(path):
    with atomic_write(str(path)) as file:
        file.write("new\n")


def write_checkpoint(path):
    save_checkpoint({"model": {"weight": torch.zeros(3)}}, str(path))


def write_bytes(path):
    with atomic_path(str(path)) as partial, open(partial, "wb") as file:
        file.write(b"new\n")


WRITERS = pytest.mark.parametrize("write", [write_text, write_checkpoint, write_bytes])


@WRITERS
def test_a_link_stays_and_its_target_is_written(write, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and target.read_bytes() != b"old"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link"]
    assert os.listdir(target.parent) == ["target"]


@WRITERS
def test_an_existing_file_keeps_its_mode(write, tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o640)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and path.stat().st_size > 0


@WRITERS
def test_what_is_no_plain_file_is_refused_and_stays(write, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    device = tmp_path / "device"
    device.symlink_to("/dev/full")
    for path in (fifo, device, tmp_path):
        with pytest.raises(UserError, match="exists and is not a plain file"):
            write(path)
    assert stat.S_ISFIFO(fifo.stat().st_mode) and stat.S_ISCHR(os.stat("/dev/full").st_mode)


@WRITERS
def test_a_missing_folder_is_not_created(write, tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        write(tmp_path / "no" / "file")
    assert os.listdir(tmp_path) == []


def test_a_dangling_link_creates_its_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link")
    assert (tmp_path / "target").read_text() == "new\n"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_after_an_error_the_old_file_is_there_and_nothing_else(error, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    expected = UserError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected), atomic_write(str(path)) as file:
        file.write("half")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_torch_hides_the_reason_of_a_full_disk(tmp_path, monkeypatch):
    def full(checkpoint, file):
        file.write(b"PK")
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904  (as torch's writer does)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match="file cannot be written: No space left on device"):
        write_checkpoint(tmp_path / "file")
    assert not list(tmp_path.iterdir())
