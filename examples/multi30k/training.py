"""How every model of Multi30k is optimised, and which of its checkpoints are averaged."""

from __future__ import annotations

from pathlib import Path

from recipe import Recipe

# So many of the last checkpoints are averaged, one an epoch and the very last.
AVERAGED = 5


def optimisation(lr: float, dropout: float, updates: int, max_tokens: int) -> list[object]:
    """Options of fairseq-train: Adam, a short warm-up, and linearly to zero from there.

    Args:
        lr: learning rate after the warm-up.
        dropout: of the model.
        updates: how many there will be.
        max_tokens: words of the longer side of a batch at most, padding included.
    """
    return [
        *("--share-all-embeddings", "--dropout", dropout, "--label-smoothing", 0.1),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
        *("--lr", lr, "--lr-scheduler", "polynomial_decay", "--warmup-updates", 400),
        *("--total-num-update", updates, "--clip-norm", 1.0, "--max-tokens", max_tokens),
        *("--keep-last-epochs", AVERAGED),
    ]


def average(recipe: Recipe, folder: Path) -> Path:
    """Average the last checkpoints of a training, and return the average."""
    epochs = sorted(folder.glob("checkpoint[0-9]*.pt"), key=lambda path: path.stat().st_mtime)
    mean = folder / "average.pt"
    # The last epoch is cut short by the number of updates: its end is checkpoint_last.pt.
    inputs = [*epochs[1 - AVERAGED :], folder / "checkpoint_last.pt"]
    name = f"average.{folder.name}"
    recipe.run(name, ["convs2s", "average", "--inputs", *inputs, "--output", mean])
    return mean
