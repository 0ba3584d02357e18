"""Multi30k, German to English: from the raw captions to a BLEU on the test set of 2016.

Each step is a command that is printed before it runs; its whole output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from captions import LANGUAGES, MERGES, SPLITS, get_text  # noqa: E402
from recipe import Recipe, short  # noqa: E402

UPDATES = 5_000
# So many of the last checkpoints are averaged, one an epoch and the very last.
AVERAGED = 5


def train(recipe: Recipe, seed: int) -> Path:
    """Train, average the last checkpoints, and return the average."""
    recipe.train(
        "ConvS2S",
        UPDATES,
        ["--arch", "convs2s_iwslt_de_en", "--share-all-embeddings", "--dropout", 0.2]
        + ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]
        + ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--weight-decay", 1e-4]
        + ["--lr", 2e-3, "--lr-scheduler", "polynomial_decay", "--warmup-updates", 400]
        + ["--total-num-update", UPDATES, "--clip-norm", 1.0, "--max-tokens", 2000]
        + ["--seed", seed, "--keep-last-epochs", AVERAGED, "--no-save-optimizer-state"],
    )
    folder = recipe.out / "checkpoints"
    epochs = sorted(folder.glob("checkpoint[0-9]*.pt"), key=lambda path: path.stat().st_mtime)
    average = folder / "average.pt"
    # The last epoch is cut short by the number of updates: its end is checkpoint_last.pt.
    inputs = [*epochs[1 - AVERAGED :], folder / "checkpoint_last.pt"]
    recipe.run("average", ["convs2s", "average", "--inputs", *inputs, "--output", average])
    return average


def score(recipe: Recipe, checkpoint: Path, subset: str) -> str:
    """Translate a split and return its tokenised lower-case BLEU, as fairseq prints it."""
    output = recipe.out / f"generate.{subset}.out"
    recipe.generate(checkpoint, subset, output)
    return re.findall(r"BLEU4 = ([\d.]+)", output.read_text(encoding="utf-8"))[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--raw-dir", type=Path, help="folder with train|val|test.{de,en}.gz (default: fetch them)"
    )
    parser.add_argument("--out", type=Path, default=Path("multi30k_out"), help="is emptied first")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    recipe = Recipe(args.out)
    get_text(recipe, args.raw_dir)
    recipe.binarise(recipe.out / "text", SPLITS, LANGUAGES, MERGES)
    checkpoint = train(recipe, args.seed)
    recipe.step("Translating")
    scores = {subset: score(recipe, checkpoint, subset) for subset in ("valid", "test")}
    recipe.step("Done")
    for subset, bleu in scores.items():
        recipe.say(f"BLEU on {subset} = {bleu}")
    recipe.say(f"model {short(checkpoint)}")


if __name__ == "__main__":
    main()
