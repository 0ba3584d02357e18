"""Archives are unpacked safely, and downloads are whole."""

import contextlib
import http.server
import io
import os
import tarfile
import threading
import time
import tracemalloc
from contextlib import contextmanager

import pytest

from convs2s.common import archives, progress
from convs2s.common.archives import download, is_address, is_archive, unpack
from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_folder
from tests.support.hostile import ARCHIVES


def member(name, content=b"", **attributes):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


def archive(path, *members, mode="w:gz"):
    with tarfile.open(path, mode) as file:
        for info, content in members:
            file.addfile(info, io.BytesIO(content))
    return path


def unpacked(path, folder, is_wanted=lambda path: True):
    folder.mkdir(exist_ok=True)
    unpack(path, folder, is_wanted, path.name)
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w:"])
def test_wanted_files_are_unpacked(mode, tmp_path):
    path = archive(
        tmp_path / "archive.tar.any",
        member("a", type=tarfile.DIRTYPE),
        member("a/b.txt", b"text" * 1000),
        member("./a/c.pt", b"weights"),
        mode=mode,
    )
    assert is_archive(path, str(path))
    assert unpacked(path, tmp_path / "new", lambda name: name.suffix == ".pt") == {
        "a/c.pt": b"weights"
    }


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (member("../out.pt", b"x"), "lies outside the folder"),
        (member("a/../../out.pt", b"x"), "lies outside the folder"),
        (member("/tmp/out.pt", b"x"), "lies outside the folder"),
        (member("a\\..\\..\\out.pt", b"x"), "lies outside the folder"),
        (member("C:\\out.pt", b"x"), "lies outside the folder"),
        (member("link.pt", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link"),
        (member("link.pt", type=tarfile.LNKTYPE, linkname="good.pt"), "is a link"),
        (member("device.pt", type=tarfile.CHRTYPE), "is a device or a pipe"),
        (member("pipe.txt", type=tarfile.FIFOTYPE), "is a device or a pipe"),
    ],
)
def test_an_archive_with_a_dangerous_member_is_refused(bad, problem, tmp_path):
    path = archive(tmp_path / "bad.tar.gz", member("good.pt", b"x"), bad)
    with pytest.raises(UserError, match=problem) as caught:
        unpacked(path, tmp_path / "new", lambda name: name.suffix == ".pt")
    assert str(caught.value).startswith("bad.tar.gz is not unpacked: its member '")
    files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert files == {"bad.tar.gz", "new/good.pt"}


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_an_incomplete_archive(mode, share, tmp_path):
    path = archive(tmp_path / "cut.tar.any", member("a.pt", os.urandom(10_000)), mode=mode)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UserError, match="cut.tar.any is not a complete tar archive") as caught:
        unpacked(path, tmp_path / "new")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_becomes_large_is_refused(kind, tmp_path):
    """Its bytes are few; headers, members or their sizes would take the memory or the disk."""
    path = tmp_path / "bomb.tar.gz"
    ARCHIVES[kind](path)
    assert path.stat().st_size < 2_000_000
    (tmp_path / "new").mkdir()
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="^bomb.tar.gz is not ") as caught:
            unpack(path, tmp_path / "new", lambda name: True, path.name)
        assert tracemalloc.get_traced_memory()[1] < 5 * 10**7
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert sum(file.stat().st_size for file in (tmp_path / "new").rglob("*")) < 3 * 10**8


def test_names_and_first_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"PK\x03\x04")
    assert not is_archive(path, "model.pt")
    assert is_archive(path, "https://host/model.TAR.bz2") and is_archive(path, "model.tgz")
    path.write_bytes(b"BZh9")
    assert is_archive(path, "model")
    assert is_address("HTTPS://host/file") and not is_address("file:///etc/passwd")


@contextmanager
def server(answer):
    """The address of a server that answers each request with a function of its handler."""
    handler = type(
        "Handler",
        (http.server.BaseHTTPRequestHandler,),
        {"do_GET": answer, "log_message": lambda *_: None},
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/file"
        running.shutdown()


def send(self, length, content):
    self.send_response(200)
    if length is not None:
        self.send_header("Content-Length", str(length))
    self.end_headers()
    self.wfile.write(content)


@pytest.mark.parametrize("length", [9, None])
def test_download(length, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    with server(lambda self: send(self, length, b"something")) as address:
        download(address, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"something"
    assert ("9.00/9.00 [" if length else "9.00B [") in capsys.readouterr().err


def test_downloads_that_fail(tmp_path):
    def fetch(address):
        with pytest.raises(UserError) as caught:
            download(address, tmp_path / "file")
        assert address in str(caught.value)
        return str(caught.value)

    with server(lambda self: send(self, 100, b"something")) as address:
        assert "ended after 9 of 100 bytes" in fetch(address)
    with server(lambda self: self.send_error(403, "Forbidden")) as address:
        assert "the server answers 403 Forbidden" in fetch(address)
    assert "Connection refused" in fetch(address)
    assert "cannot be downloaded" in fetch("http://127.0.0.1:port/file")


def trickle(self, content):
    """Send a byte now and then."""
    with contextlib.suppress(OSError):
        for byte in content:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.05)


def slow_content(self):
    send(self, 10**6, b"")
    trickle(self, bytes(200))


def slow_headers(self):
    trickle(self, b"HTTP/1.0 200 OK\r\n" + b"X-A: b\r\n" * 100)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (slow_content, r"less than 1,000 bytes per second for 1 seconds"),
        (slow_headers, r"no answer for 1 seconds"),
        (lambda self: time.sleep(3), "no answer for 1 seconds|timed out"),
    ],
)
def test_a_server_that_is_too_slow(answer, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "TIMEOUT", 1)
    start = time.monotonic()
    with server(answer) as address, pytest.raises(UserError, match=reason):
        download(address, tmp_path / "file")
    assert time.monotonic() - start < 10


def test_a_download_has_a_largest_size(tmp_path):
    with server(lambda self: send(self, None, b"something")) as address:
        with pytest.raises(UserError, match="it has more than 5 bytes"):
            download(address, tmp_path / "file", most=5)


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    new = tmp_path / "new"
    with pytest.raises(KeyError), atomic_folder(str(new)) as partial:
        assert os.listdir(tmp_path) == [os.path.basename(partial)]
        raise KeyError
    assert not os.listdir(tmp_path)
    with pytest.raises(UserError, match="new cannot be written: No space"), atomic_folder(str(new)):
        raise OSError(28, "No space left on device")
    new.mkdir()
    with atomic_folder(str(new)) as partial:
        open(os.path.join(partial, "file"), "w").close()
    assert os.listdir(new) == ["file"]
    for path, problem in ((new, "exists already"), (tmp_path / "no" / "new", "there is no folder")):
        with pytest.raises(UserError, match=problem), atomic_folder(str(path)):
            pytest.fail("was opened")
