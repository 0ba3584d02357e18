"""``convs2s prepare`` interrupted, repeated, twice at once, and in folders with other files."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from convs2s.common import text_files
from convs2s.common.locks import lock_folder, release
from convs2s.text import pipeline, workflow
from tests import ROOT
from tests.support.preparing import (
    NONE,
    PAIRS,
    data,
    files,
    make_pairs,
    preparing,
    write_pairs,
)


@pytest.fixture
def prepare(capsys):
    return preparing(capsys)


def test_a_killed_preparation_continues(prepare, tmp_path, monkeypatch):
    train = write_pairs(tmp_path, "a", PAIRS)
    arguments = ("--train", *train, "--out", tmp_path / "out", *NONE)
    record = tmp_path / "out" / "work" / "stages.json"
    command = [sys.executable, "-m", "convs2s", "prepare", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
    while not record.exists() or not json.loads(record.read_text())["stages"]:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["work"]
    message = prepare(*arguments, "--lowercase", code=2)
    assert "prepared with no --lowercase, now with --lowercase" in message
    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "clean", None)
        prepare(*arguments)
    prepare("--train", *train, "--out", tmp_path / "other", *NONE)
    assert data(tmp_path / "out") == data(tmp_path / "other")


def start(*arguments):
    command = [sys.executable, "-m", "convs2s", "prepare", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("more", [(), ("--lowercase",)])
def test_two_at_once(prepare, tmp_path, more):
    """The first one ends as if it were alone; the second is told of it, or finds its result."""
    train, out = write_pairs(tmp_path, "a", make_pairs(3000)), tmp_path / "out"
    arguments = ("--train", *train, *NONE, "--bpe-size", 100)
    both = start(*arguments, "--out", out), start(*arguments, *more, "--out", out)
    errors = [process.communicate()[1].decode() for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes and {*codes} <= {0, 2}
    for code, error in zip(codes, errors):
        told = f"Another `convs2s prepare` writes to {out}: wait until it ends, or choose another"
        assert not code or told in error or "was prepared with" in error
    options = more if codes[0] else ()
    prepare(*arguments, *options, "--out", tmp_path / "alone")
    assert data(out) == data(tmp_path / "alone")
    assert not (out / "work").exists()


def test_nothing_of_another_process_is_removed(prepare, tmp_path):
    train, out = write_pairs(tmp_path, "a", PAIRS), tmp_path / "out"
    (out / "work").mkdir(parents=True)
    (out / "work" / "stages.json").write_text("not finished")
    descriptor = lock_folder(str(out), "")
    for more in (), ("--overwrite",):
        message = prepare("--train", *train, "--out", out, *NONE, *more, code=2)
        assert f"Another `convs2s prepare` writes to {out}" in message
    release(descriptor)
    assert files(out) == {"work/stages.json": b"not finished"}
    message = prepare("--train", *train, "--out", out, *NONE, code=2)
    assert "stages.json is damaged: start again with --overwrite" in message
    prepare("--train", *train, "--out", out, *NONE, "--overwrite")


def test_a_finished_preparation_is_not_repeated(prepare, tmp_path, monkeypatch):
    train = write_pairs(tmp_path, "a", PAIRS)
    arguments = ("--train", *train, "--out", tmp_path / "out", *NONE)
    printed = prepare(*arguments)
    before = files(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(workflow, "Pipeline", None)
        assert prepare(*arguments) == printed
        message = prepare(*arguments, "--bpe", "none", code=2)
    assert "--bpe subword_nmt, now with --bpe none" in message
    assert files(tmp_path / "out") == before
    prepare(*arguments, "--bpe", "none", "--overwrite")
    assert "codes.bpe" not in files(tmp_path / "out")


def test_ctrl_c(prepare, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "binarize", stop)
    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    assert "the same command continues" in prepare(*arguments, code=130)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["work"]


def test_a_disk_that_is_full_at_the_end(prepare, tmp_path, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "binarize", fill)
        message = prepare(*arguments, code=2)
    assert "No space left on device. The same command continues" in message
    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "clean", None)
        prepare(*arguments)


def test_a_file_that_cannot_be_read_for_a_moment(prepare, tmp_path, monkeypatch):
    """Nothing is removed once there is something, as there is when the lines are counted."""
    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    work, opened = tmp_path / "out" / "work", text_files.open_binary

    def fail_after(name, path):
        if (work / name).exists():
            raise OSError(errno.ESTALE, "Stale file handle")
        return opened(path)

    for name, continues in (("stages.json", False), ("lines.json", True), ("clean", True)):
        with monkeypatch.context() as patch:
            patch.setattr(text_files, "open_binary", partial(fail_after, name))
            message = prepare(*arguments, code=2)
        assert "a.de cannot be read: Stale file handle." in message
        assert ("The same command continues from here." in message) == continues
        assert work.exists() == continues
    with monkeypatch.context() as patch:
        patch.setattr(workflow.Pipeline, "lines", json.loads((work / "lines.json").read_text()))
        prepare(*arguments)
    prepare("--train", *arguments[1:3], "--out", tmp_path / "other", *NONE)
    assert data(tmp_path / "out") == data(tmp_path / "other")


def test_a_worker_that_is_killed_leaves_the_complete_stages(prepare, tmp_path, monkeypatch):
    train = write_pairs(tmp_path, "a", PAIRS)
    arguments = ("--train", *train, "--out", tmp_path / "out", *NONE[:-1], "2")
    parent = os.getpid()

    def killed(*_):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "split", killed)
        message = prepare(*arguments, code=2)
    assert "One of 2 processes was stopped or ended" in message
    assert "The same command continues" in message
    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "clean", None)
        prepare(*arguments)


def test_folders_of_others_are_left_alone(prepare, tmp_path):
    train = write_pairs(tmp_path, "a", PAIRS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for more in ((), ("--overwrite",)):
        message = prepare("--train", *train, "--out", tmp_path / "out", *NONE, *more, code=2)
        assert "files that `convs2s prepare` did not write" in message
    assert "which is a file" in prepare("--train", *train, "--out", train[0], *NONE, code=2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("old.codes.bpe", "did not write, such as old.codes.bpe: move them away"),
        ("sentencepiece.model", "did not write, such as sentencepiece.model"),
        ("models/checkpoint_last.pt", "models has models for the dictionaries"),
        ("data-bin/models/checkpoint1.pt", "models has models for the dictionaries"),
        ("checkpoint_best.pt", "out has models for the dictionaries"),
    ],
)
def test_overwriting_removes_nothing_of_others(prepare, tmp_path, name, message):
    out, options = tmp_path / "out", (*NONE, "--bpe-size", 20, "--separate")
    train = write_pairs(tmp_path, "a", PAIRS)
    prepare("--train", *train, "--out", out, *options)
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    (out / name).write_text("mine")
    before = files(out)
    assert message in prepare("--train", *train, "--out", out, *options, "--overwrite", code=2)
    assert files(out) == before
    (out / name).unlink()
    if not any((out / name).parent.iterdir()):
        (out / name).parent.rmdir()
    prepare("--train", *train, "--out", out, *NONE, "--bpe", "none", "--overwrite")
    assert not [*out.glob("*.bpe")]


def test_overwriting_what_was_killed_at_the_end(prepare, tmp_path, monkeypatch):
    """The results are in their places, but there is no record of them yet."""

    def kill(*_):
        raise KeyboardInterrupt

    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_record", kill)
        prepare(*arguments, "--separate", code=130)
    assert "de.codes.bpe" in files(tmp_path / "out")
    prepare(*arguments, "--overwrite")
    assert [path.name for path in (tmp_path / "out").glob("*codes.bpe")] == ["codes.bpe"]
