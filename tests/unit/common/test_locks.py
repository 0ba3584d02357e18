"""Two processes at once: each output is whole, or one process is told of the other."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from convs2s.common import output_files
from convs2s.common.errors import UserError
from convs2s.common.locks import Locked, is_held, lock_folder, locked_file, release
from convs2s.common.output_files import atomic_folder, atomic_path, atomic_write, check_writable
from tests import ROOT


def start(code, *arguments):
    """A process that runs Python code; it writes a line as soon as it holds a lock."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


WRITER = """
    import sys
    from convs2s.common.output_files import atomic_write
    with atomic_write(sys.argv[1]) as file:
        file.write("first half, ")
        file.flush()
        print("locked", flush=True)
        sys.stdin.readline()
        file.write("second half")
"""


def test_two_writers_of_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(output_files, "PATIENCE", 0.2)
    path = tmp_path / "file"
    with start(WRITER, path) as first:
        assert first.stdout.readline() == b"locked\n"
        message = "file cannot be written: another process is writing it"
        with pytest.raises(UserError, match=message), atomic_write(str(path)):
            pass
        assert (tmp_path / "file.partial").read_text() == "first half, "
        first.communicate(b"\n")
    assert path.read_text() == "first half, second half"
    with atomic_write(str(path)) as file:
        file.write("new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_a_writer_waits_for_a_short_one(tmp_path):
    path = tmp_path / "file"
    with start(WRITER, path) as first:
        assert first.stdout.readline() == b"locked\n"
        with start(WRITER.replace("sys.stdin.readline()", "pass"), path) as second:
            time.sleep(0.3)
            first.communicate(b"\n")
            assert second.wait() == 0
    assert path.read_text() == "first half, second half" and os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_left_is_replaced(tmp_path):
    path = tmp_path / "file"
    with start(WRITER, path) as first:
        first.stdout.readline()
        first.kill()
        first.communicate()
    assert os.listdir(tmp_path) == ["file.partial"]
    with atomic_write(str(path)) as file:
        file.write("new")
    assert os.listdir(tmp_path) == ["file"]


def test_many_writers(tmp_path):
    """Each content is that of one of them."""
    code = """
        import sys
        from convs2s.common import output_files
        # This machine may be busy.
        output_files.PATIENCE = 60.0
        for number in range(100):
            with output_files.atomic_write(sys.argv[1]) as file:
                file.write(sys.argv[2] * 1000)
    """
    writers = [start(code, tmp_path / "file", letter) for letter in "abc"]
    for writer in writers:
        assert writer.communicate()[1] == b"" and writer.returncode == 0
    content = (tmp_path / "file").read_text()
    assert content in {letter * 1000 for letter in "abc"} and os.listdir(tmp_path) == ["file"]


def test_a_forked_process_holds_no_lock(tmp_path):
    descriptor = lock_folder(str(tmp_path), "taken")
    assert is_held(descriptor)
    with pytest.raises(Locked, match="taken"):
        lock_folder(str(tmp_path), "taken")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"held" if is_held(descriptor) else b"free")
        time.sleep(60)
        os._exit(0)
    assert os.read(read, 4) == b"free"
    release(descriptor)
    release(lock_folder(str(tmp_path), "taken"))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_shared_locks(tmp_path):
    both = [lock_folder(str(tmp_path), "taken", shared=True) for _ in range(2)]
    with pytest.raises(Locked, match="taken"):
        lock_folder(str(tmp_path), "taken")
    for descriptor in both:
        release(descriptor)
    descriptor = lock_folder(str(tmp_path), "taken")
    with pytest.raises(Locked, match="taken"):
        lock_folder(str(tmp_path), "taken", shared=True)
    release(descriptor)


def test_a_lock_file_stays(tmp_path):
    path = tmp_path / "lock"
    for _ in range(2):
        with locked_file(str(path), "taken"), pytest.raises(Locked, match="taken"):
            with locked_file(str(path), "taken"):
                pass
    assert path.exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o400, 0o755])
def test_a_private_file_is_private_from_its_first_byte(mode, tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    with atomic_path(str(path)) as partial:
        assert stat.S_IMODE(os.stat(partial).st_mode) == mode | stat.S_IWUSR
        with open(partial, "wb") as file:
            file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode and path.read_bytes() == b"new"


def test_new_files_follow_the_mask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(str(tmp_path / "file")), atomic_folder(str(tmp_path / "folder")):
            pass
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("file", "folder")]
    assert modes == [0o640, 0o750]


def test_a_private_folder_stays_private(tmp_path):
    (tmp_path / "new").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "new")
    with atomic_folder(str(tmp_path / "link")) as partial:
        assert stat.S_IMODE(os.stat(partial).st_mode) == 0o700
        with open(f"{partial}/file", "w"):
            pass
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "new") == ["file"]
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "out"])
def test_a_standard_stream_is_not_replaced(name, tmp_path):
    """What the command has printed before would be lost."""
    code = (
        "from convs2s.common.output_files import check_writable; import sys; "
        "print('printed', flush=True); check_writable(sys.argv[1])"
    )
    path = str(tmp_path / "out") if name == "out" else name
    with open(tmp_path / "out", "wb") as stream:
        done = subprocess.run(
            [sys.executable, "-c", code, path], cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT
        )
    text = (tmp_path / "out").read_text()
    assert done.returncode == 1 and text.startswith("printed\n")
    assert f"{path} cannot be written: it is also the standard" in text
    assert os.listdir(tmp_path) == ["out"]
    check_writable(str(tmp_path / "other"))
