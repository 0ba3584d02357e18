"""Files that grow piece by piece, and that a later start goes on with."""

import json
import os

import pytest

from convs2s.common.errors import UserError, WorkInterrupted
from convs2s.common.resuming import ResumableFiles, begin_anew

SETTINGS = {"--beam": 5, "--path": "SHA-256 12"}


def resumable(folder, settings=SETTINGS):
    paths = {"--output": str(folder / "out"), "--report": str(folder / "report")}
    return ResumableFiles(paths, settings, {"lines": 0})


def write(files, *lines):
    for line in lines:
        files.files["--output"].write(f"{line}\n")
        files.files["--report"].write(f"{line} is here\n")


def interrupt(folder):
    """Two pieces, and something that is not one yet."""
    with pytest.raises(KeyboardInterrupt), resumable(folder) as files:
        write(files, "a")
        files.save({"lines": 1})
        write(files, "b")
        files.save({"lines": 2})
        write(files, "c")
        raise KeyboardInterrupt


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".resume"}


def test_a_later_start_goes_on_after_the_last_piece(tmp_path):
    (tmp_path / "out").write_text("earlier")
    interrupt(tmp_path)
    assert content(tmp_path) == {
        "out": "earlier",
        "out.partial": "a\nb\nc\n",
        "report.partial": "a is here\nb is here\nc is here\n",
    }
    with resumable(tmp_path) as files:
        assert files.position == {"lines": 2} and not files.is_finished
        assert content(tmp_path)["out.partial"] == "a\nb\n"
        write(files, "d")
        files.finish({"lines": 3})
    whole = {"out": "a\nb\nd\n", "report": "a is here\nb is here\nd is here\n"}
    assert content(tmp_path) == whole
    with resumable(tmp_path) as files:
        assert files.position == {"lines": 3} and files.is_finished and files.files == {}
    assert content(tmp_path) == whole


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_end_while_files_get_their_names(number, tmp_path, monkeypatch):
    """Before the first one has it, before the second one, and after both."""
    (tmp_path / "out").write_text("earlier")
    replaced = []
    replace = os.replace

    def stop(source, target):
        if len(replaced) == number and not target.endswith(".resume"):
            raise KeyboardInterrupt
        replace(source, target)
        replaced.extend([target] * (not target.endswith(".resume")))

    monkeypatch.setattr(os, "replace", stop)
    if number < 2:
        with pytest.raises(KeyboardInterrupt), resumable(tmp_path) as files:
            write(files, "a")
            files.finish({"lines": 1})
    else:
        with resumable(tmp_path) as files:
            write(files, "a")
            files.finish({"lines": 1})
    monkeypatch.setattr(os, "replace", replace)
    with resumable(tmp_path) as files:
        assert files.is_finished
    assert content(tmp_path) == {"out": "a\n", "report": "a is here\n"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {**SETTINGS, "--beam": 4},
            "out was started with --beam 5, but now it is 4: give the",
        ),
        ({**SETTINGS, "--path": "SHA-256 34"}, "--path SHA-256 12, but now it is SHA-256 34"),
        ({"--beam": 5}, "--path SHA-256 12, but now it is unset"),
    ],
)
def test_other_settings(changed, message, tmp_path):
    interrupt(tmp_path)
    before = content(tmp_path)
    with pytest.raises(UserError, match=message), resumable(tmp_path, changed):
        pass
    assert content(tmp_path) == before


def test_a_file_that_has_lost_its_end(tmp_path):
    interrupt(tmp_path)
    (tmp_path / "report.partial").write_text("a is")
    with pytest.raises(UserError, match=r"report\.partial has 4 bytes, but had 20 when"):
        resumable(tmp_path).__enter__()
    (tmp_path / "report.partial").unlink()
    with pytest.raises(UserError, match=r"report\.partial has 0 bytes, but had 20 when"):
        resumable(tmp_path).__enter__()


def test_a_complete_file_that_has_changed(tmp_path):
    with resumable(tmp_path) as files:
        write(files, "a")
        files.finish({"lines": 1})
    (tmp_path / "out").write_text("a\nb\n")
    with pytest.raises(UserError, match="out is not as it was when it was completed, with 2 bytes"):
        resumable(tmp_path).__enter__()
    assert (tmp_path / "out").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    "record",
    [
        "[]",
        "{}",
        '{"settings": {}, "position": {"lines": "1"}, "sizes": {}, "finished": false}',
        '{"settings": {}, "position": 1, "sizes": {}, "finished": false}',
        json.dumps(
            {
                "settings": SETTINGS,
                "position": {"lines": 1},
                "sizes": {"--output": 1},
                "finished": False,
            }
        ),
    ],
)
def test_a_damaged_record(record, tmp_path):
    (tmp_path / "out.resume").write_text(record)
    with pytest.raises(UserError, match=r"out\.resume is damaged"):
        resumable(tmp_path).__enter__()
    assert content(tmp_path) == {}


def test_what_is_not_complete_is_not_replaced(tmp_path):
    interrupt(tmp_path)
    before = content(tmp_path)
    with pytest.raises(UserError, match=r"give --resume to continue, or remove .*/out\.resume"):
        begin_anew(str(tmp_path / "out"))
    assert content(tmp_path) == before
    with resumable(tmp_path) as files:
        files.finish({"lines": 2})
    begin_anew(str(tmp_path / "out"))
    assert not (tmp_path / "out.resume").exists()


def test_two_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("convs2s.common.output_files.PATIENCE", 0.0)
    with resumable(tmp_path) as files:
        write(files, "a")
        files.save({"lines": 1})
        with pytest.raises(UserError, match="out cannot be written: another process is writing"):
            resumable(tmp_path).__enter__()
    with resumable(tmp_path) as files:
        assert files.position == {"lines": 1}


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    interrupt(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(WorkInterrupted, match="out cannot be written: No space left on devi"):
            with resumable(tmp_path) as files:
                write(files, "c")
                files.save({"lines": 3})
    with resumable(tmp_path) as files:
        assert files.position == {"lines": 2}
        assert content(tmp_path)["out.partial"] == "a\nb\n"
