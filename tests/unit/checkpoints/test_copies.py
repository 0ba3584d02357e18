"""Copies of checkpoints to translate with have nothing that only training needs."""

import subprocess
import sys
from argparse import Namespace

import pytest
import torch

from convs2s.checkpoints.averaging import average
from convs2s.checkpoints.files import EMA, load_checkpoint, save_checkpoint
from convs2s.checkpoints.quantized import quantized
from convs2s.translation.fast import fast_checkpoint
from tests.support.translation import copied

COPIES = {
    "average": lambda path, _: average([path]),
    "8 bits": lambda path, _: quantized(path).content,
    "fast": lambda path, folder: fast_checkpoint(path, folder, {}),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_has_no_exponential_averages(name, tmp_path):
    folder = copied("convs2s", tmp_path / "prepared")
    (path,) = map(str, folder.rglob("*.pt"))
    content = load_checkpoint(path)
    averages = {key: {"weight": torch.zeros(1)} for key in EMA}
    save_checkpoint({**content, "extra_state": {"epoch": 3, **averages}}, path)
    copy = COPIES[name](path, folder)
    assert copy["extra_state"] == {"epoch": 3} and copy["last_optimizer_state"] is None


def test_updates_of_a_checkpoint_of_fconv_in_a_new_process(tmp_path):
    """Its options are a ``Namespace``, which torch knows only once it is allowed."""
    path = tmp_path / "checkpoint_1_7.pt"
    content = {"cfg": {"model": Namespace(arch="fconv")}, "model": {}}
    content |= {"extra_state": {"train_iterator": {}}, "optimizer_history": [{"num_updates": 7}]}
    torch.save(content, path)
    code = "from convs2s.checkpoints.folders import saved_checkpoints; from pathlib import Path; "
    code += f"print(saved_checkpoints(Path({str(tmp_path)!r})))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "{'checkpoint_1_7.pt': 7}"


def test_an_average_has_a_weight_with_several_names_once(tmp_path):
    paths = [str(tmp_path / f"{number}.pt") for number in (1, 2)]
    for number, path in enumerate(paths):
        shared = torch.full((100, 8), float(number))
        names = ("encoder.embed.words.weight", "decoder.embed.words.weight")
        model = {**dict.fromkeys(names, shared), "other": shared.clone()}
        save_checkpoint({"args": Namespace(), "model": model}, path)
    weights = average(paths)["model"]
    first, second, other = weights.values()
    assert first.data_ptr() == second.data_ptr() != other.data_ptr()
    assert all(each.eq(0.5).all() for each in weights.values())
    # The first checkpoint has two weights where the last one has one.
    content = load_checkpoint(paths[0])
    content["model"]["encoder.embed.words.weight"] = torch.ones(100, 8)
    save_checkpoint(content, paths[0])
    assert [each[0, 0] for each in average(paths)["model"].values()] == [1.0, 0.5, 0.5]
