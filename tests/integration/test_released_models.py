"""``--model``: a released model is fetched once, checked, and needs no network afterwards."""

import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time

import pytest

from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from convs2s.translation import released
from convs2s.translation.pretrained import load_translator
from models import build
from tests import ROOT
from tests.integration.test_no_network import new_interpreter
from tests.support.translation import FIXTURES, LINES, copied, export, text_file, translate

NAME = "tiny"
ARCHIVE = f"{NAME}.tar.xz"
MODEL = build.Recipe("a tiny model", ("de", "en"), "MIT", "It is random.", [], "text", "run")


def write_release(folder, archive=ARCHIVE, **changes):
    """Write the manifest of a release whose model is in an archive that is there."""
    model = build.described(MODEL, folder / archive).model_copy(update=changes)
    address = "https://example.org/models/"
    manifest = released.Manifest(format=1, address=address, models={NAME: model})
    build.write_manifest(manifest, folder / released.MANIFEST)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("exported")
    export(copied("convs2s", folder / "prepared"), folder / NAME)
    return folder / NAME


@pytest.fixture
def release(exported, tmp_path):
    """The folder of a release."""
    folder = tmp_path / "release"
    folder.mkdir()
    build.pack(exported, folder / ARCHIVE)
    write_release(folder)
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The user's cache, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "convs2s"


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder; ``requests`` has the paths that were asked for.

    Attributes:
        answers: the name of a file -> what answers for it, a function of the handler.
    """

    daemon_threads = True

    def __init__(self, folder):
        self.requests, self.answers = [], {}
        requests, answers = self.requests, self.answers

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(folder))

            def do_GET(self):
                requests.append(self.path)
                answers.get(self.path.rpartition("/")[2], type(self).answer)(self)

            answer = http.server.SimpleHTTPRequestHandler.do_GET

            def log_message(self, *unused):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *unused):
        """Say nothing of a client that does not wait for the end."""


@pytest.fixture
def server(release, monkeypatch, cache):
    """A server of the release, which CONVS2S_MODELS names."""
    monkeypatch.setenv("no_proxy", "*")
    with Server(release) as running:
        monkeypatch.setenv(released.VARIABLE, running.address)
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def expected(tmp_path):
    """What the model translates."""
    return translate(FIXTURES / "convs2s.pt", LINES, tmp_path)


def translated(tmp_path, *arguments):
    """The lines that the released model writes."""
    output = tmp_path / "output"
    command = ["translate", "--model", NAME, "--input", str(text_file(tmp_path, LINES))]
    assert convs2s([*command, "--output", str(output), *arguments]) == 0
    return output.read_text(encoding="utf-8").splitlines()


def refusal(capsys, name=NAME):
    """The line that the command prints, and nothing that counts as a model is left."""
    capsys.readouterr()
    assert convs2s(["translate", "--model", name, "--input", os.devnull]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("convs2s translate: error: ")


def files_of(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_first_use_downloads(server, cache, tmp_path, expected):
    """Later ones need no server."""
    assert not cache.exists()
    assert translated(tmp_path) == expected
    assert server.requests == [f"/{released.MANIFEST}", f"/{ARCHIVE}"]
    server.answers |= dict.fromkeys((released.MANIFEST, ARCHIVE), lambda self: self.send_error(500))
    assert translated(tmp_path) == expected
    assert len(server.requests) == 2
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    assert files_of(folder) == [released.SUMS, NAME]
    done = subprocess.run(["sha256sum", "--check", "--quiet", released.SUMS], cwd=folder)
    assert done.returncode == 0


def test_the_network_is_not_used_again(server, release, tmp_path):
    arguments = ["translate", "--model", NAME]
    code = f"from convs2s.cli import main; sys.exit(main({arguments!r}))"
    assert new_interpreter(code, "eins\n").returncode == 99
    translated(tmp_path)
    done = new_interpreter(code, "eins\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr


def test_nothing_is_fetched_without_the_option(server, cache, tmp_path, expected):
    assert translate(FIXTURES / "convs2s.pt", LINES, tmp_path) == expected
    assert not server.requests and not cache.exists()


def test_in_python(server, expected):
    translator = load_translator(released.fetch(NAME))
    assert [each.text for each in translator.translate(LINES)] == expected


def test_other_commands(server, tmp_path):
    source, target = text_file(tmp_path, ["eins zwei"]), text_file(tmp_path, ["x"], "target")
    pair = ["--input", str(source), "--target-input", str(target)]
    assert convs2s(["score", "--model", NAME, *pair, "--output", str(tmp_path / "scores")]) == 0
    page = str(tmp_path / "attention.json")
    assert convs2s(["plot-attention", "eins zwei", "--model", NAME, "--output", page]) == 0
    assert server.requests.count(f"/{ARCHIVE}") == 1


def test_a_folder_in_place_of_an_address(release, cache, tmp_path, monkeypatch, expected):
    monkeypatch.setenv(released.VARIABLE, str(release))
    assert translated(tmp_path) == expected
    shutil.rmtree(cache)
    monkeypatch.setenv(released.VARIABLE, release.as_uri())
    assert translated(tmp_path) == expected


def test_a_model_of_the_package_needs_no_place_once_it_is_there(
    release, cache, tmp_path, monkeypatch, expected
):
    """The archive may have come from a disk that is not there any more."""
    monkeypatch.setattr(released, "RELEASED", tmp_path / "released.json")
    shutil.copyfile(release / released.MANIFEST, released.RELEASED)
    monkeypatch.setenv(released.VARIABLE, str(release))
    assert translated(tmp_path) == expected
    shutil.rmtree(release)
    assert translated(tmp_path) == expected


def test_a_redirect(server, tmp_path, expected):
    def elsewhere(self):
        self.send_response(302)
        self.send_header("Location", f"{server.address}/elsewhere/{ARCHIVE}?token=1")
        self.end_headers()

    def there(self):
        self.path = f"/{ARCHIVE}"
        self.answer()

    server.answers[ARCHIVE] = elsewhere
    server.answers[f"{ARCHIVE}?token=1"] = there
    assert translated(tmp_path) == expected
    assert server.requests[-2:] == [f"/{ARCHIVE}", f"/elsewhere/{ARCHIVE}?token=1"]


def cut(length):
    """Answers with a part of the archive, as if it had so many bytes; None does not say."""

    def answer(self):
        with open(self.translate_path(self.path), "rb") as file:
            content = file.read()
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length(content)))
        self.end_headers()
        self.wfile.write(content[:1000])

    return answer


def changed(self):
    with open(self.translate_path(self.path), "rb") as file:
        content = bytearray(file.read())
    content[-1] ^= 1
    self.send_response(200)
    self.end_headers()
    self.wfile.write(content)


def larger(self):
    self.send_response(200)
    self.end_headers()
    self.wfile.write(bytes(10**7))


ANSWERS = {
    "cut off": (cut(len), "ended after 1,000 of [0-9,]+ bytes"),
    "truncated": (cut(None), r"tiny.tar.xz has 1,000 of [0-9,]+ bytes: it is incomplete"),
    "truncated on the server": (cut(lambda _: 1000), "has 1,000 of [0-9,]+ bytes"),
    "too large": (larger, "is not downloaded: it has more than [0-9,]+ bytes"),
    "changed": (changed, "is not the file that was released: its SHA-256 is [0-9a-f]{64}, but"),
    "missing": (
        lambda self: self.send_error(404),
        "the server answers 404 Not Found. .* get tiny.tar.xz in another way and set CONVS2S_MODE",
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_that_are_no_model(kind, server, cache, tmp_path, capsys, expected):
    """Nothing is left of them, and the next use fetches the model."""
    answer, message = ANSWERS[kind]
    server.answers[ARCHIVE] = answer
    line = refusal(capsys)
    assert line.startswith(("http://127.0.0.1:", "The download of http://127.0.0.1:"))
    assert re.search(message, line)
    assert [name for name in files_of(cache) if not name.endswith(".json")] == []
    del server.answers[ARCHIVE]
    assert translated(tmp_path) == expected


def unused_address():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_no_network(cache, tmp_path, monkeypatch, capsys):
    """An address of the user, and that of the package."""
    monkeypatch.setenv("no_proxy", "*")
    address = unused_address()
    monkeypatch.setenv(released.VARIABLE, address)
    name = next(iter(build.RECIPES))
    line = refusal(capsys, name)
    assert line.startswith(f"{address}/{name}.tar.xz cannot be downloaded: Connection refused. ")
    assert line.endswith(
        f"or get {name}.tar.xz in another way and set CONVS2S_MODELS to its folder."
    )
    line = refusal(capsys, "other")
    assert line.startswith(f"There is no released model 'other'; without a manifest of {address}/")
    assert name in line and "Connection refused" in line
    assert files_of(cache) == []
    monkeypatch.delenv(released.VARIABLE)
    monkeypatch.setattr(released, "CHECKOUT", tmp_path)
    own = released.read_manifest(released.RELEASED)
    moved = own.model_copy(update={"address": f"{address}/"})
    monkeypatch.setattr(released, "read_manifest", lambda path: moved)
    assert refusal(capsys, name).startswith(f"{address}/{name}.tar.xz cannot be downloaded: ")


def test_a_name_that_there_is_not(server, release, cache, monkeypatch, capsys):
    """The manifest of an address is read again, in case the model is new."""
    names = ", ".join([*released.read_manifest(released.RELEASED).models, NAME])
    expected = f"There is no released model 'tinny' (did you mean 'tiny'?); allowed: {names}."
    assert refusal(capsys, "tinny") == refusal(capsys, "tinny") == expected
    assert server.requests == [f"/{released.MANIFEST}"] * 2
    monkeypatch.setenv(released.VARIABLE, str(release))
    assert refusal(capsys, "tinny") == expected
    (release / released.MANIFEST).unlink()
    assert "'tiny'; allowed: multi30k-de-en," in refusal(capsys)
    monkeypatch.delenv(released.VARIABLE)
    assert "'tiny'; allowed: multi30k-de-en," in refusal(capsys)


@pytest.mark.parametrize(
    "place, message",
    [
        ("nothing", r"There is no folder nothing \(CONVS2S_MODELS\)"),
        ("file:///nothing", r"There is no folder /nothing \(CONVS2S_MODELS\)"),
        ("ftp://example.org/models", "CONVS2S_MODELS is ftp://example.org/models: it must be a"),
    ],
)
def test_places_that_there_are_not(place, message, cache, monkeypatch, capsys):
    monkeypatch.setenv(released.VARIABLE, place)
    assert re.match(message, refusal(capsys))


def test_an_archive_that_leads_out_of_its_folder(release, cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(released.VARIABLE, str(release))
    member = tarfile.TarInfo(f"{NAME}/../../../outside")
    with tarfile.open(release / ARCHIVE, "w:xz") as archive:
        archive.addfile(member)
    write_release(release)
    line = refusal(capsys)
    assert "is not unpacked: its member 'tiny/../../../outside' lies outside the folder" in line
    assert files_of(cache) == [] and not list(tmp_path.rglob("outside"))


def test_an_archive_of_something_else(release, cache, monkeypatch, capsys):
    monkeypatch.setenv(released.VARIABLE, str(release))
    with tarfile.open(release / ARCHIVE, "w:xz") as archive:
        archive.add(release / released.MANIFEST, "other/file")
    write_release(release)
    assert refusal(capsys).endswith(
        "tiny.tar.xz has no folder tiny, as the archive of this model must."
    )
    (release / ARCHIVE).write_bytes(b"text")
    write_release(release)
    assert "tiny.tar.xz is not a complete tar archive" in refusal(capsys)
    (release / ARCHIVE).unlink()
    assert re.match("There is no tiny.tar.xz in .* put it there", refusal(capsys))
    assert files_of(cache) == []


MANIFESTS = {
    "no dictionary": ([], "its format is None, but this version reads 1"),
    "newer": ({"format": 2}, "its format is 2, but this version reads 1"),
    "no models": ({"format": 1, "address": "https://example.org/"}, "models: Field required"),
    "no address": ({"format": 1, "address": "x", "models": {}}, "address: is not an address that"),
    "a path": ({"file": "../x.tar"}, "models.tiny.file: is not a name of a file"),
    "a digest": ({"sha256": "0"}, "models.tiny.sha256: String should match"),
    "a size": ({"size": 0}, "models.tiny.size: Input should be greater than 0"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_manifests_that_are_wrong(kind, release, cache, monkeypatch, capsys):
    content, message = MANIFESTS[kind]
    path = release / released.MANIFEST
    if isinstance(content, dict) and "format" not in content:
        whole = json.loads(path.read_text(encoding="utf-8"))
        whole["models"][NAME] |= content
        content = whole
    path.write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv(released.VARIABLE, str(release))
    assert message in refusal(capsys)


@pytest.mark.parametrize("damage", ["changed", "missing", "empty"])
def test_a_damaged_cache(damage, server, cache, tmp_path, capsys, expected):
    folder = released.fetch(NAME)
    weights = folder / "model.safetensors"
    if damage == "changed":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "missing":
        weights.unlink()
    else:
        shutil.rmtree(folder.parent)
        folder.parent.mkdir()
    line = refusal(capsys)
    assert line.startswith(f"{folder.parent} is damaged: ")
    assert line.endswith(" Remove the folder, and the model is fetched again.")
    shutil.rmtree(folder.parent)
    assert translated(tmp_path) == expected


def test_a_cache_that_cannot_be_made(release, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(released.VARIABLE, str(release))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    line = refusal(capsys)
    assert line.startswith(
        f"{tmp_path}/file/convs2s cannot be made: Not a directory. Set XDG_CACHE"
    )


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True) if os.geteuid() == 0 else None
    if done is None or done.returncode:
        pytest.skip("only root may mount a small disk, and not in every container")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(server, release, small_disk, tmp_path, monkeypatch, capsys, expected):
    """While the archive is written, and while it is unpacked; the next use succeeds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_disk))
    cache = small_disk / "convs2s"
    for place in (server.address, str(release)):
        monkeypatch.setenv(released.VARIABLE, place)
        line = refusal(capsys)
        assert line.startswith(f"{cache}/{NAME}-")
        assert line.endswith(" cannot be written: No space left on device.")
        assert [name for name in files_of(cache) if not name.endswith(".json")] == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert translated(tmp_path) == expected


def start():
    code = f"from convs2s.translation.released import fetch; print(fetch({NAME!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        **{"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
    )


def test_two_processes_at_once(server, cache):
    """One fetches, and the other one waits for it."""
    waiting = threading.Barrier(2)

    def slow(self):
        waiting.wait(60)
        self.answer()

    server.answers[ARCHIVE] = slow
    first = start()
    while f"/{ARCHIVE}" not in server.requests:
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    second = start()
    # Whatever the second one does in this time, the archive is asked for once.
    time.sleep(1)
    waiting.wait(60)
    answers = [process.communicate(timeout=60) for process in (first, second)]
    assert answers[0] == answers[1] and answers[0][1] == ""
    assert server.requests.count(f"/{ARCHIVE}") == 1


def test_a_killed_download(server, cache, tmp_path, expected):
    """It leaves no model, and the next use removes what it has left."""
    stop = threading.Event()

    def stuck(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(1000))
        self.wfile.flush()
        stop.wait(60)

    server.answers[ARCHIVE] = stuck
    process = start()
    while not list(cache.glob("*.partial/*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    stop.set()
    assert list(cache.glob("*.partial"))
    del server.answers[ARCHIVE]
    assert translated(tmp_path) == expected
    assert not list(cache.glob("*.partial"))


def test_the_error_in_python(cache, monkeypatch):
    monkeypatch.delenv(released.VARIABLE, raising=False)
    with pytest.raises(UserError, match="There is no released model 'nothing'; allowed: multi30k"):
        released.fetch("nothing")


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("multi30k-de-en", "Zwei Hunde rennen über eine Wiese.", "dogs run"),
        ("multi30k-en-de", "A man reads a book.", "ein mann liest"),
        ("pronunciation", "kor 가감", "k a̠ ɡ a̠ m"),
    ],
)
def test_the_models_of_a_checkout_need_no_network(name, line, expected, cache, monkeypatch):
    pytest.importorskip("sacremoses", reason="the extra text is not installed")
    monkeypatch.delenv(released.VARIABLE, raising=False)
    monkeypatch.setattr(socket.socket, "connect", lambda *unused: pytest.fail("a connection"))
    (found,) = load_translator(released.fetch(name)).translate([line])
    assert expected in found.text


def test_a_release_that_has_changed(server, release, cache, exported, tmp_path):
    """The model in the cache stays; where there is none, the manifest is read again."""
    first = released.fetch(NAME)
    (exported / "note").write_text("new", encoding="utf-8")
    build.pack(exported, release / ARCHIVE)
    (exported / "note").unlink()
    write_release(release)
    assert released.fetch(NAME) == first
    shutil.rmtree(first.parent)
    second = released.fetch(NAME)
    assert second != first and (second / "note").read_text(encoding="utf-8") == "new"


def test_no_home(monkeypatch, capsys):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(released.Path, "home", home)
    assert "no home folder for the cache of models: set XDG_CACHE_HOME" in refusal(capsys, "x")


def test_no_fast_copy(cache, capsys):
    assert convs2s(["translate", "--model", NAME, "--fast"]) == 2
    assert "--fast needs --path" in capsys.readouterr().err
