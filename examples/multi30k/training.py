"""Optimization and checkpoint averaging, the same for all models of Multi30k."""

from __future__ import annotations

from pathlib import Path

from recipe import Recipe

# Number of checkpoints in the average: the last one, and the ones at the end of epochs before it.
AVERAGED = 5


def training_options(lr: float, dropout: float, updates: int, max_tokens: int) -> list[object]:
    """Options of fairseq-train: Adam with warm-up and linear decay to zero.

    Args:
        lr: learning rate after the warm-up.
        dropout: dropout of the model.
        updates: number of updates of the whole training.
        max_tokens: maximum of a batch: sentences times the length of its longest, with padding.
    """
    return [
        *("--share-all-embeddings", "--dropout", dropout, "--label-smoothing", 0.1),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
        *("--lr", lr, "--lr-scheduler", "polynomial_decay", "--warmup-updates", 400),
        *("--total-num-update", updates, "--clip-norm", 1.0, "--max-tokens", max_tokens),
        *("--keep-last-epochs", AVERAGED),
    ]


def average_checkpoints(recipe: Recipe, folder: Path) -> Path:
    """Average the last checkpoints in a folder, and return the path of the average."""
    epochs = sorted(folder.glob("checkpoint[0-9]*.pt"), key=lambda path: path.stat().st_mtime)
    average = folder / "average.pt"
    # The number of updates cuts the last epoch short, so its newest state is checkpoint_last.pt.
    inputs = [*epochs[1 - AVERAGED :], folder / "checkpoint_last.pt"]
    name = f"average.{folder.name}"
    recipe.run(name, ["convs2s", "average", "--inputs", *inputs, "--output", average])
    return average
