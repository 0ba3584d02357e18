"""A gradient that is not a number in fairseq-train: no update, and one sentence what to do."""

import pytest
import torch

import convs2s_plugin  # noqa: F401  (allows the classes of fairseq's checkpoints)
from tests.support.commands import CRITERION, TASK, refused
from tests.support.faults import FAMILIES, train

POISON = """
import torch
from fairseq.tasks.fairseq_task import FairseqTask
original = FairseqTask.train_step
def poisoned(module, inputs, output):
    return output[0] * torch.nan, *output[1:]
def train_step(self, sample, model, criterion, optimizer, update_num, *rest, **options):
    hooks = [model.decoder.register_forward_hook(poisoned)] if update_num == 2 else []
    try:
        return original(self, sample, model, criterion, optimizer, update_num, *rest, **options)
    finally:
        for hook in hooks:
            hook.remove()
FairseqTask.train_step = train_step
"""


@pytest.mark.parametrize(
    ("family", "precision"), [*((family, "none") for family in FAMILIES), ("convs2s", "bfloat16")]
)
def test_the_update_is_not_made(family, precision, corpus, tmp_path):
    options = (
        *(*FAMILIES[family], *TASK, *CRITERION, "--autocast-dtype", precision),
        *("--optimizer", "sgd", "--lr", "0.1", "--max-tokens", "400", "--max-update", "5"),
    )
    done = train(corpus, tmp_path, options=options, setup=POISON)
    error = refused(done)
    assert "gradient of a batch is infinite" in error and "crash.pt" in error
    assert "NaN detected in output of decoder" in done.stderr
    saved = torch.load(tmp_path / "crash.pt", weights_only=True)
    assert saved["optimizer_history"][-1]["num_updates"] == 2
    assert all(tensor.isfinite().all() for tensor in saved["model"].values())


def test_a_training_that_diverges(corpus, tmp_path):
    options = (
        *(*FAMILIES["convs2s"], *TASK, *CRITERION, "--optimizer", "sgd", "--lr", "1e30"),
        *("--max-tokens", "400", "--max-update", "5"),
    )
    error = refused(train(corpus, tmp_path, options=options))
    assert "a smaller --lr" in error
