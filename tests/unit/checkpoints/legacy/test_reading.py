"""Old checkpoints become plain data, and nothing in them is executed."""

import argparse
import collections
import os
import pathlib
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
import torch

from convs2s.checkpoints.files import allow_plain_data
from convs2s.checkpoints.legacy.reading import clean, read_old_checkpoint
from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from tests.unit.checkpoints.test_files import Call


def old(**changes):
    """The content of a checkpoint of fairseq, without a model that anything could be done with."""
    return {
        "args": argparse.Namespace(arch="transformer", encoder_layers=2),
        "model": collections.OrderedDict(weight=torch.arange(6.0).view(2, 3)),
        "optimizer_history": [{"criterion_name": "C", "num_updates": 3}],
        "extra_state": {"epoch": 1},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.zeros(100_000)}}},
        **changes,
    }


def converted(path, content, legacy=False):
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return read_old_checkpoint(str(path))


def cleaned(tmp_path, content, *options):
    """What ``convs2s clean-checkpoint`` makes of a file, loaded with torch's protection."""
    torch.save(content, tmp_path / "old.pt")
    command = ["clean-checkpoint", str(tmp_path / "old.pt"), str(tmp_path / "new.pt"), *options]
    assert convs2s(command) == 0
    allow_plain_data()
    return torch.load(tmp_path / "new.pt", weights_only=True)


def assert_read(value, expected, legacy, folder):
    """Plain data takes the place of an object."""
    read = converted(folder / "old.pt", {"value": value}, legacy)
    assert read.content == {"value": expected}
    assert type(read.content["value"]) is type(expected)
    assert not read.left_out


def assert_left_out(value, name, folder):
    """An object in a list is left out and named."""
    content = old(extra_state={"epoch": 1, "list": [1, value, 2]})
    read = converted(folder / "old.pt", content)
    assert read.content["extra_state"] == {"epoch": 1, "list": [1, 2]}
    assert [tuple(left_out) for left_out in read.left_out] == [("extra_state.list.1", name)]


def assert_refused(content, message, folder):
    """Neither the function nor the command makes anything of a checkpoint."""
    path = folder / "old.pt"
    torch.save(content, path)
    with pytest.raises(UserError, match=message):
        clean(read_old_checkpoint(str(path)), str(path))
    assert convs2s(["clean-checkpoint", str(path), str(folder / "new.pt")]) == 2
    assert os.listdir(folder) == ["old.pt"]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(2.5), 2.5),
        (np.int64(-3), -3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]], order="F"), [[1, 2], [3, 4]]),
        (np.array([1.5, 2.5], dtype=">f4"), [1.5, 2.5]),
        (collections.defaultdict(int, {"a": 1}), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.deque([1, 2], maxlen=3), [1, 2]),
        (pathlib.PurePosixPath("/data/bin"), "/data/bin"),
        ({1, 2}, {1, 2}),
        (b"bytes \xff", b"bytes \xff"),
        ((1, [2.0, None], "x"), (1, [2.0, None], "x")),
        (torch.float16, torch.float16),
    ],
)  # fmt: skip
def test_plain_data_takes_the_place_of_an_object(value, expected, legacy, tmp_path):
    assert_read(value, expected, legacy, tmp_path)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Call(os.mkdir, "hacked"), "posix.mkdir"),
        (Call(getattr, collections.OrderedDict, "fromkeys"), "builtins.getattr"),
        (Call(np.dtype, "O"), "numpy.dtype"),
    ],
)
def test_other_objects_are_left_out_and_named(value, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_left_out(value, name, tmp_path)
    assert not (tmp_path / "hacked").exists()


def test_the_optimizer_states_of_2017(tmp_path):
    history = [{"optimizer": {"state": {}}, "best_loss": 1.0}]
    content = old(optimizer_history=history)
    del content["last_optimizer_state"]
    new = cleaned(tmp_path, content, "--drop-optimizer")
    assert new["optimizer_history"] == [{"best_loss": 1.0}] and new["last_optimizer_state"] is None


def test_a_call_is_named_and_not_executed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new = cleaned(tmp_path, old(extra_state={"epoch": 1, "x": Call(os.mkdir, "hacked")}))
    assert new["extra_state"] == {"epoch": 1}
    assert "left out: extra_state.x, an object of posix.mkdir" in capsys.readouterr().out
    assert not (tmp_path / "hacked").exists()


def test_convert_fconv_is_suggested_for_translation_models_of_fconv_only(tmp_path, capsys):
    for arch, suggested in (("fconv_wmt_en_de", True), ("fconv_lm", False), ("lstm", False)):
        cleaned(tmp_path, old(args=argparse.Namespace(arch=arch)))
        assert ("convert-fconv" in capsys.readouterr().out) is suggested


def cyclic():
    content = old()
    content["extra_state"]["self"] = content
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.zeros(2), "is not a checkpoint of fairseq-train"),
        ({"model": {}}, "it has no options"),
        (cyclic(), "nested more than 100 times"),
    ],
)
def test_errors(content, message, tmp_path):
    assert_refused(content, message, tmp_path)


def test_a_file_that_is_no_checkpoint(tmp_path):
    text = tmp_path / "text.pt"
    text.write_text("hello")
    with pytest.raises(UserError, match="is not a complete checkpoint"):
        read_old_checkpoint(str(text))
    with pytest.raises(UserError, match="There is no file"):
        read_old_checkpoint(str(tmp_path / "missing.pt"))


def test_a_number_in_the_file_takes_no_memory(tmp_path):
    """pickle keeps an object under a number; its implementation in C has an array up to it."""
    path = tmp_path / "old.pt"
    torch.save({}, path, _use_new_zipfile_serialization=False)
    start = path.read_bytes().index(b"}q\x00")
    number = pickle.LONG_BINPUT + struct.pack("<I", 10**7)
    path.write_bytes(path.read_bytes()[: start + 1] + number + path.read_bytes()[start + 3 :])
    tracemalloc.start()
    try:
        read_old_checkpoint(str(path))
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_a_torchscript_program_is_not_loaded(tmp_path, monkeypatch):
    path = str(tmp_path / "program.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path)
    monkeypatch.setattr(torch.jit, "load", lambda *args, **options: pytest.fail("was loaded"))
    with pytest.raises(UserError, match="is a TorchScript program"):
        read_old_checkpoint(path)
