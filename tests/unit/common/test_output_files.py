"""Writing files: whole or not at all, through links, with the mode of the old file."""

import errno
import os
import stat

import pytest
import torch

from convs2s.checkpoints.files import save_checkpoint
from convs2s.common.errors import UserError
from convs2s.common.output_files import (
    atomic_path,
    atomic_write,
    check_outputs,
    check_writable,
)


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
    with pytest.raises(UserError, match="file cannot be written: No space"):
        write_checkpoint(tmp_path / "file")
    assert not list(tmp_path.iterdir())


@WRITERS
@pytest.mark.parametrize("kind", ["link", "dangling link", "fifo", "folder"])
def test_what_has_the_name_of_the_temporary_file_stays(kind, write, tmp_path):
    """Nothing is written through a link, and a pipe is not waited for."""
    partial, other = tmp_path / "file.partial", tmp_path / "other"
    other.write_text("other")
    if kind == "fifo":
        os.mkfifo(partial)
    elif kind == "folder":
        partial.mkdir()
    else:
        partial.symlink_to(other if kind == "link" else tmp_path / "missing")
    with pytest.raises(UserError, match="file.partial, the name of the file"):
        write(tmp_path / "file")
    assert os.path.lexists(partial) and other.read_text() == "other"
    assert sorted(os.listdir(tmp_path)) == ["file.partial", "other"]


@WRITERS
def test_what_a_killed_process_left_is_replaced(write, tmp_path):
    """Not written through: it may be another name of a file."""
    other = tmp_path / "other"
    other.write_text("other")
    os.link(other, tmp_path / "file.partial")
    write(tmp_path / "file")
    assert other.read_text() == "other"
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


@pytest.mark.parametrize("name", ["input", "link", "hard link", "other/../input", "input.partial"])
def test_an_output_that_is_read_is_refused(name, tmp_path):
    path = tmp_path / "input"
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(path)
    path.write_text("text")
    os.link(path, tmp_path / "hard link")
    (tmp_path / "input.partial").write_text("text")
    with pytest.raises(UserError, match="the command also reads this file"):
        check_writable(str(path), [None, str(tmp_path / "missing"), str(tmp_path / name)])
    check_writable(str(path), [None, str(tmp_path / "missing"), str(tmp_path / "other")])


def test_two_outputs_in_one_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    check_outputs({"--output": str(tmp_path / "file"), "--report": None, "--tune": None})
    with pytest.raises(UserError, match="--report is .*/link, which --output names too"):
        check_outputs({"--output": str(tmp_path / "file"), "--report": str(tmp_path / "link")})
    with pytest.raises(UserError, match="--report is .*/file.partial, the name of .* until it is"):
        check_outputs(
            {"--output": str(tmp_path / "link"), "--report": str(tmp_path / "file.partial")}
        )
