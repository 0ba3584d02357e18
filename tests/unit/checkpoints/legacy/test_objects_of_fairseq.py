"""Objects of fairseq in old checkpoints become plain data, or are left out."""

import argparse
import os

import numpy as np
import pytest
import torch
from fairseq.logging.meters import AverageMeter, TimeMeter
from omegaconf import OmegaConf

import convs2s_plugin  # noqa: F401  (allows the classes of fairseq's checkpoints)
from convs2s.cli import main as convs2s
from tests.support.adapters import config_with_objects
from tests.unit.checkpoints.legacy.test_reading import (
    assert_left_out,
    assert_read,
    assert_refused,
    cleaned,
    old,
)

CONFIG = config_with_objects(
    {
        "model": {"_name": "transformer", "layers": [1, 2], "rate": "${optimization.lr}"},
        "optimization": {"lr": 0.5, "missing": "???", "none": None, "nested": {"a": {"b": True}}},
        "task": argparse.Namespace(data="bin"),
    }
)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (CONFIG, {
            "model": {"_name": "transformer", "layers": [1, 2], "rate": "${optimization.lr}"},
            "optimization": {
                "lr": 0.5, "missing": "???", "none": None, "nested": {"a": {"b": True}}
            },
            "task": argparse.Namespace(data="bin"),
        }),
        (OmegaConf.create([1, ["a"]]), [1, ["a"]]),
    ],
)  # fmt: skip
def test_configurations(value, expected, legacy, tmp_path):
    assert_read(value, expected, legacy, tmp_path)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (AverageMeter(), "fairseq.logging.meters.AverageMeter"),
        (AverageMeter, "fairseq.logging.meters.AverageMeter"),
        (np.array([AverageMeter()]), "numpy.dtype"),
    ],
)
def test_meters_are_left_out_and_named(value, name, tmp_path):
    assert_left_out(value, name, tmp_path)


def test_the_history_is_dropped_and_the_optimizer_on_request(tmp_path, capsys):
    extra = {
        "epoch": 1,
        "train_meters": {"loss": AverageMeter(), "wall": TimeMeter()},
        "metrics": [(0, "loss", "AverageMeter", {"sum": np.float64(1)})],
    }
    content = old(extra_state=extra)
    new = cleaned(tmp_path, content)
    assert new["extra_state"] == {"epoch": 1}
    assert new["args"] == content["args"] and new["last_optimizer_state"]["state"][0]
    torch.testing.assert_close(new["model"]["weight"], content["model"]["weight"])
    printed = capsys.readouterr().out
    assert "1 tensors" in printed
    assert "the training history (extra_state.train_meters, extra_state.metrics)" in printed
    assert "fairseq.logging" not in printed and "optimizer state" not in printed
    size = os.path.getsize(tmp_path / "new.pt")
    new = cleaned(tmp_path, content, "--drop-optimizer")
    assert new["last_optimizer_state"] is None
    assert "left out: the optimizer state" in capsys.readouterr().out
    assert os.path.getsize(tmp_path / "new.pt") < size - 400_000


def test_a_checkpoint_is_cleaned_in_its_place(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save(old(cfg=CONFIG, args=None), path)
    assert convs2s(["clean-checkpoint", str(path), str(path)]) == 0
    assert torch.load(path, weights_only=True)["cfg"]["optimization"]["lr"] == 0.5
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (AverageMeter(), "it holds an object of fairseq.logging.meters.AverageMeter"),
        (old(model={"weight": AverageMeter()}), "its weight weight is an object of fairseq"),
    ],
)
def test_errors(content, message, tmp_path):
    assert_refused(content, message, tmp_path)
