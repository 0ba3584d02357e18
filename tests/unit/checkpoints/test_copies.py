"""Copies of checkpoints to translate with have nothing that only training needs."""

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
