"""Files that are no checkpoints, damaged, or unsafe to load."""

import argparse
import collections
import os
import pickle

import pytest
import torch

from convs2s.checkpoints.files import load_checkpoint
from convs2s.common.errors import UserError


@pytest.fixture(params=["library", "fairseq"])
def load(request):
    """How a checkpoint is loaded; under fairseq, the plugin explains what cannot be read."""
    if request.param == "library":
        return load_checkpoint
    return pytest.importorskip("fairseq.checkpoint_utils").load_checkpoint_to_cpu


class Call:
    """An object whose unpickling calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def zipped(path, content):
    torch.save(content, path)


def legacy(path, content):
    torch.save(content, path, _use_new_zipfile_serialization=False)


def pickled(path, content):
    path.write_bytes(pickle.dumps(content, protocol=2))


def test_an_archive_is_no_checkpoint(tmp_path):
    path = tmp_path / "model.tar.xz"
    path.write_bytes(b"\xfd7zXZ\x00 and more")
    with pytest.raises(UserError, match="is an archive: unpack it"):
        load_checkpoint(str(path))


# A configuration of omegaconf, which comes with fairseq.
CONFIG = "DictConfig"


@pytest.mark.parametrize("save", [zipped, legacy, pickled])
@pytest.mark.parametrize("member", ["args", "cfg", "model", "extra_state", "other"])
@pytest.mark.parametrize(
    ("content", "name"),
    [
        (Call(os.mkdir, "hacked"), "posix.mkdir"),
        (Call(getattr, collections.OrderedDict, "fromkeys"), "getattr"),
        (CONFIG, "omegaconf.dictconfig.DictConfig"),
    ],
)
def test_a_refused_object_is_named(load, save, member, content, name, tmp_path, monkeypatch):
    if content is CONFIG:
        content = pytest.importorskip("omegaconf").OmegaConf.create({"a": 1})
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "checkpoint.pt"
    save(path, {member: content})
    with pytest.raises(UserError) as caught:
        load(str(path))
    assert f"holds an object of {name}, which" in str(caught.value)
    assert "weights_only" not in str(caught.value) and "complete" not in str(caught.value)
    assert not (tmp_path / "hacked").exists()


def test_another_protocol_of_pickle_is_refused_without_advice(load, tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(pickle.dumps({"x": argparse.Namespace()}, protocol=5))
    with pytest.raises(UserError, match="is not loaded, because it holds pickled data") as caught:
        load(str(path))
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_an_incomplete_file(load, share, tmp_path):
    path = tmp_path / "checkpoint.pt"
    zipped(path, {"model": {"weight": torch.zeros(1000)}})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UserError, match=r"bytes\) is not a complete checkpoint"):
        load(str(path))


# Python takes zeros for a tar archive.
@pytest.mark.parametrize("content", [b"hello", bytes(5000), bytes(range(5, 256))])
def test_a_file_of_another_kind(load, content, tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load(str(path))
    size = f"checkpoint.pt ({len(content):,} bytes)"
    assert f"{size} is not a complete checkpoint. If" in str(caught.value)
    assert "weights_only" not in str(caught.value)
