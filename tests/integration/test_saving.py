"""Saving checkpoints: on a full disk, in a folder that cannot be written, by two trainings."""

import os
import shutil
import subprocess

import pytest

from tests.support.commands import assert_same_weights, train_arguments
from tests.support.commands import train as train_whole
from tests.support.faults import (
    NO_ROOM_FOR_COPIES,
    ORDINARY_USER,
    SMALL_FILES,
    program,
    sentence,
    train,
    whole,
)

ONE = ("--max-epoch", "1")
TWO = ("--max-epoch", "2")


@pytest.fixture(scope="module")
def two_epochs(corpus, tmp_path_factory):
    """A training that nothing happened to."""
    folder = tmp_path_factory.mktemp("two")
    train_whole(corpus, folder, *TWO)
    return folder


def test_no_room_for_a_checkpoint(corpus, tmp_path):
    error = sentence(train(corpus, tmp_path / "new", *ONE, setup=SMALL_FILES))
    assert "checkpoint1.pt cannot be written: File too large." in error
    assert "continues from the newest" in error
    assert whole(tmp_path / "new") == []


def test_no_room_for_a_copy(corpus, tmp_path, two_epochs):
    """The next start continues from the checkpoint that was written first, with exact results."""
    folder = tmp_path / "new"
    error = sentence(train(corpus, folder, *TWO, setup=NO_ROOM_FOR_COPIES))
    assert "checkpoint_best.pt cannot be written: No space" in error
    assert whole(folder) == ["checkpoint1.pt"]
    done = train(corpus, folder, *TWO)
    assert "continues from" in done.stderr and "(epoch 2 @ 4 updates)" in done.stderr
    assert_same_weights(
        two_epochs / "checkpoint_last.pt", folder / "checkpoint_last.pt", atol=0, rtol=0
    )


def test_no_room_for_a_copy_beside_the_old_one(corpus, tmp_path):
    """Then the old one gives its room to the new one."""
    setup = """
import errno, os, shutil
copy = shutil.copyfile
def copyfile(source, target, **options):
    if os.path.exists(target.removesuffix(".partial")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return copy(source, target, **options)
shutil.copyfile = copyfile
"""
    done = train(corpus, tmp_path, *TWO, setup=setup)
    assert done.returncode == 0, done.stderr[-2000:]
    whole(tmp_path)
    assert_same_weights(
        tmp_path / "checkpoint2.pt", tmp_path / "checkpoint_last.pt", atol=0, rtol=0
    )


def test_an_interrupted_copy_of_a_folder(corpus, tmp_path, two_epochs):
    """A cut-off checkpoint_last.pt is passed over, for the newest whole checkpoint."""
    for name in ("checkpoint1.pt", "checkpoint2.pt", "checkpoint_last.pt"):
        shutil.copy(two_epochs / name, tmp_path / name)
    for name in ("checkpoint2.pt", "checkpoint_last.pt"):
        with open(tmp_path / name, "r+b") as file:
            file.truncate(100_000)
    # A clock that goes back decides nothing.
    os.utime(tmp_path / "checkpoint2.pt")
    done = train(corpus, tmp_path, *TWO)
    assert "checkpoint1.pt, the newest whole checkpoint" in done.stderr
    assert done.returncode == 0 and "checkpoint2.pt" in whole(tmp_path)
    assert_same_weights(
        two_epochs / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt", atol=0, rtol=0
    )


def test_a_folder_that_cannot_be_written(corpus, tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir(mode=0o500)
    error = sentence(train(corpus, folder, *ONE, setup=ORDINARY_USER))
    assert f"{folder} cannot be written (--save-dir): Permission denied." in error
    error = sentence(train(corpus, folder / "new", *ONE, setup=ORDINARY_USER))
    assert f"{folder / 'new'} cannot be written (--save-dir): Permission" in error


def test_a_second_training_in_a_folder(corpus, tmp_path):
    """The second one is refused while the first one runs, and goes on once that was killed."""
    arguments = train_arguments(corpus, tmp_path, "--max-epoch", "1000", "--num-workers", "1")
    first = subprocess.Popen(
        program("train", *arguments, "--no-save-optimizer-state"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert any("Saved checkpoint" in line for line in first.stderr)
        assert "Another training run saves its checkpoints" in sentence(
            train(corpus, tmp_path, *ONE)
        )
    finally:
        first.kill()
        first.stderr.close()
        first.wait()
    for partial in tmp_path.glob("*.partial"):
        partial.unlink()
    whole(tmp_path)
    done = train(corpus, tmp_path, *ONE)
    assert done.returncode == 0 and "Loaded checkpoint" in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_a_folder_is_no_checkpoint(option, corpus, tmp_path, two_epochs):
    error = sentence(train(corpus, tmp_path, *ONE, option, two_epochs))
    assert f"{option} is {two_epochs}, a folder" in error


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("checkpoint_best.pt", "fifo"),
        ("checkpoint_last.pt", "device"),
        ("checkpoint1.pt", "folder"),
    ],
)
def test_no_plain_file_has_the_name_of_a_checkpoint(name, kind, corpus, tmp_path):
    """It is refused before the training, which would wait for a pipe."""
    path = tmp_path / name
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    error = sentence(train(corpus, tmp_path, *ONE))
    assert f"{path} has the name of a checkpoint, but" in error
    assert os.listdir(tmp_path) == [name]


def test_a_pipe_with_the_name_of_an_incomplete_checkpoint(corpus, tmp_path):
    path = tmp_path / "checkpoint_last.pt.partial"
    os.mkfifo(path)
    error = sentence(train(corpus, tmp_path, *ONE))
    assert f"{path} has the name of a checkpoint that" in error


def test_a_checkpoint_to_restore_that_is_missing(corpus, tmp_path, two_epochs):
    """fairseq would begin anew, and replace the trained model of the folder."""
    shutil.copytree(two_epochs, tmp_path / "model")
    best = tmp_path / "model" / "checkpoint_best.pt"
    before = best.read_bytes()
    error = sentence(train(corpus, tmp_path / "model", *ONE, "--restore-file", "no.pt"))
    assert error.startswith("There is no checkpoint no.pt (--restore-file): omit it")
    error = sentence(train(corpus, tmp_path / "model", *ONE, "--restore-file", best.name))
    assert f"do you mean {best}" in error and best.read_bytes() == before
    done = train(corpus, tmp_path / "model", *ONE, "--restore-file", best)
    assert done.returncode == 0 and f"Loaded checkpoint {best}" in done.stderr


def test_checkpoints_to_begin_with_that_exclude_each_other(corpus, tmp_path, two_epochs):
    last = two_epochs / "checkpoint_last.pt"
    error = sentence(train(corpus, tmp_path, *ONE, "--finetune-from-model", tmp_path / "no.pt"))
    assert error == f"There is no checkpoint {tmp_path}/no.pt (--finetune-from-model)."
    fine_tuned = ("--finetune-from-model", last)
    error = sentence(train(corpus, tmp_path, *ONE, *fine_tuned, "--reset-optimizer"))
    assert "resets everything but the weights: omit --reset-optimizer" in error
    error = sentence(train(corpus, tmp_path, *ONE, *fine_tuned, "--restore-file", last))
    assert "--restore-file and --finetune-from-model exclude each other" in error


def test_a_training_that_begins_from_a_file_again(corpus, tmp_path, two_epochs):
    """The same command would replace what it has trained: a warning says so."""
    arguments = ("--restore-file", two_epochs / "checkpoint1.pt", *TWO)
    assert "will replace" not in train(corpus, tmp_path, *arguments).stderr
    again = train(corpus, tmp_path, *arguments)
    assert again.returncode == 0
    assert f"will replace {tmp_path}/checkpoint_last.pt; to continue from that" in again.stderr


def test_a_file_with_a_suffix(corpus, tmp_path):
    suffix = ("--checkpoint-suffix", "_a", "--no-epoch-checkpoints", "--disable-validation")
    assert train(corpus, tmp_path, *suffix, "--max-update", "1").returncode == 0
    shutil.copy(tmp_path / "checkpoint_last_a.pt", tmp_path / "other_a.pt")
    restored = ("--restore-file", tmp_path / "other.pt", "--max-update", "2")
    again = train(corpus, tmp_path, *suffix, *restored)
    assert again.returncode == 0, again.stderr[-2000:]
    assert f"--restore-file {tmp_path}/other_a.pt, and will replace" in again.stderr


def test_a_pipe_is_no_checkpoint(corpus, tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    error = sentence(train(corpus, tmp_path / "new", *ONE, "--restore-file", tmp_path / "pipe.pt"))
    assert error == f"{tmp_path}/pipe.pt is not a plain file, as a checkpoint must be."


def test_a_file_of_another_program_in_the_folder_stays(corpus, tmp_path):
    """fairseq removes a file of this name."""
    (tmp_path / "dummy").write_text("text")
    assert train(corpus, tmp_path, *ONE, "--no-save").returncode == 0
    assert (tmp_path / "dummy").read_text() == "text"
