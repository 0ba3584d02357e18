"""Small files that describe gigabytes: refused before the memory is taken."""

import argparse
import os
import tracemalloc

import pytest
import torch

from convs2s.checkpoints.averaging import average
from convs2s.checkpoints.files import load_checkpoint, num_updates, save_checkpoint
from convs2s.checkpoints.legacy.reading import read_old_checkpoint
from convs2s.checkpoints.networks import build_network, read_checkpoint
from convs2s.common.errors import UserError
from tests.support.hostile import CHECKPOINTS
from tests.support.translation import FIXTURES


@pytest.fixture(params=["library", "legacy", "fairseq"])
def load(request):
    """How a checkpoint is loaded."""
    if request.param == "library":
        return load_checkpoint
    if request.param == "legacy":
        return read_old_checkpoint
    return pytest.importorskip("fairseq.checkpoint_utils").load_checkpoint_to_cpu


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_files_that_become_large_are_refused(kind, load, tmp_path):
    path = tmp_path / "checkpoint.pt"
    CHECKPOINTS[kind](path)
    tracemalloc.start()
    try:
        if kind == "zeros" and load is read_old_checkpoint:
            # It is no plain data, and is never made.
            assert load(str(path)).left_out[0].name == "builtins.bytearray"
            return
        with pytest.raises(UserError, match="checkpoint.pt"):
            load(str(path))
        assert tracemalloc.get_traced_memory()[1] < 10**8
    finally:
        tracemalloc.stop()
    assert num_updates(str(path)) is None or kind in ("expanded", "shared")


def test_weights_that_layers_share_are_read(tmp_path):
    path, matrix = str(tmp_path / "checkpoint.pt"), torch.ones(100, 100)
    weights = {f"layer{number}": matrix for number in range(12)}
    torch.save({"model": weights, "args": argparse.Namespace()}, path)
    assert len(load_checkpoint(path)["model"]) == 12
    assert torch.equal(average([path])["model"]["layer3"], matrix)


def test_options_of_a_huge_network(tmp_path):
    path, checkpoint = tmp_path / "huge.pt", torch.load(FIXTURES / "convs2s.pt", weights_only=True)
    checkpoint["cfg"]["model"].update(encoder_layers="[(60000, 3)] * 900")
    torch.save(checkpoint, path)
    with pytest.raises(UserError, match="its options describe a network of [0-9,]+ numbers"):
        build_network(read_checkpoint(str(path)))


def test_data_that_are_nested_too_deeply_are_not_written(tmp_path):
    content = []
    for _ in range(10_000):
        content = [content]
    with pytest.raises(UserError, match="nested too deeply"):
        save_checkpoint({"deep": content}, str(tmp_path / "deep.pt"))
    assert not os.listdir(tmp_path)
