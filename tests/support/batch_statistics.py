"""Statistics of averaged checkpoints.

``python -m tests.support.batch_statistics DATA_BIN CHECKPOINT ...`` computes them.

An average of weights has activations of its own, and so statistics of its own for batch
normalization. They are computed from training data, and the validation loss with them is compared
with the loss with the averaged running averages, which ``convs2s average`` writes.
"""

import argparse
import math
import sys
from typing import NamedTuple

import torch
from fairseq import checkpoint_utils
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask
from torch.nn import functional as F

from benchmarks.sentences import read_task, real_batches
from convs2s.checkpoints.averaging import average
from convs2s.models.pervasive.batch_norm import MOMENTUM, RunningStats

SENTENCES = 50


class Losses(NamedTuple):
    """Nats a token of the last checkpoint and of the average, with two kinds of statistics."""

    last: float
    last_recomputed: float
    averaged: float
    averaged_recomputed: float


@torch.no_grad()
def validation_loss(model: BaseFairseqModel, batches: list[dict], pad: int) -> float:
    """The cross-entropy of some batches in nats a token, without label smoothing."""
    model.eval()
    total, tokens = 0.0, 0
    for batch in batches:
        logits, _ = model(**batch["net_input"])
        target = batch["target"]
        total += F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=pad, reduction="sum"
        ).item()
        tokens += int(target.ne(pad).sum())
    return total / tokens


@torch.no_grad()
def recompute_statistics_(model: BaseFairseqModel, batches: list[dict]) -> None:
    """Replace the running averages by means over batches, which are computed as in training."""
    model.train()
    buffers = [
        buffer
        for module in model.modules()
        if isinstance(module, RunningStats)
        for buffer in (module.running_mean, module.running_var)
    ]
    before = [buffer.clone() for buffer in buffers]
    sums = [torch.zeros_like(buffer, dtype=torch.float64) for buffer in buffers]
    for batch in batches:
        model(**batch["net_input"])
        for buffer, old, total in zip(buffers, before, sums):
            # A batch moves a running average by a share of the way to its own statistics.
            total += old + (buffer - old).double() / MOMENTUM
            buffer.copy_(old)
    for buffer, total in zip(buffers, sums):
        buffer.copy_(total / len(batches))


def load(path: str, task: TranslationTask) -> BaseFairseqModel:
    """The model of a checkpoint in fairseq's format."""
    models, _ = checkpoint_utils.load_model_ensemble([path], {"data": task.cfg.data}, task=task)
    return models[0]


def measure(task: TranslationTask, paths: list[str], num_batches: int) -> Losses:
    """Average checkpoints and compute the losses.

    Args:
        task: the task of the data.
        paths: checkpoints of one training, the last one last.
        num_batches: batches of training data that the statistics are computed from.
    """
    pad = task.target_dictionary.pad()
    valid = real_batches(task, "valid", SENTENCES)
    train = real_batches(task, "train", SENTENCES, num_batches)
    model = load(paths[-1], task)
    losses = []
    for weights in (None, average(paths)["model"]):
        if weights is not None:
            model.load_state_dict(weights)
        losses.append(validation_loss(model, valid, pad))
        torch.manual_seed(1)
        recompute_statistics_(model, train)
        losses.append(validation_loss(model, valid, pad))
    return Losses(*losses)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.batch_statistics",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("data", metavar="DATA_BIN")
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+")
    parser.add_argument("--batches", type=int, default=100, help="default: %(default)s")
    return parser.parse_args(arguments)


def main() -> None:
    """Print the losses and perplexities."""
    args = parse_arguments(sys.argv[1:])
    losses = measure(read_task(args.data), args.checkpoints, args.batches)
    for name, loss in losses._asdict().items():
        print(f"{name:19} {loss:.4f} nats a token, perplexity {math.exp(loss):.3f}")


if __name__ == "__main__":
    main()
