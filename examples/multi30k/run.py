"""Multi30k, German to English: from the raw captions to BLEU on the test set of 2016.

Each command is printed before it runs; its output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from captions import BPE_MERGES, LANGUAGES, SPLITS, write_text  # noqa: E402
from recipe import Recipe, relative_path  # noqa: E402
from results import read_bleu  # noqa: E402
from training import average_checkpoints, training_options  # noqa: E402

UPDATES = 5_000


def train(recipe: Recipe, seed: int) -> Path:
    """Train ConvS2S and return the path of the averaged checkpoint."""
    recipe.train(
        "ConvS2S",
        UPDATES,
        ["--arch", "convs2s_iwslt_de_en", "--criterion", "label_smoothed_cross_entropy"]
        + training_options(lr=2e-3, dropout=0.2, updates=UPDATES, max_tokens=2000)
        + ["--weight-decay", 1e-4, "--seed", seed, "--no-save-optimizer-state"],
    )
    return average_checkpoints(recipe, recipe.out / "checkpoints")


def score(recipe: Recipe, checkpoint: Path, subset: str) -> float:
    """Translate a split and return fairseq's BLEU, tokenized and lower-case."""
    output = recipe.out / f"generate.{subset}.out"
    recipe.generate(checkpoint, subset, output)
    return read_bleu(output.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--raw-dir",
        type=Path,
        help="folder with train|val|test.{de,en}.gz (default: download the captions)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("multi30k_out"),
        help="output folder, emptied first (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    args = parser.parse_args()
    recipe = Recipe(args.out)
    write_text(recipe, args.raw_dir)
    recipe.binarize(recipe.out / "text", SPLITS, LANGUAGES, BPE_MERGES)
    checkpoint = train(recipe, args.seed)
    recipe.step("Translating")
    scores = {subset: score(recipe, checkpoint, subset) for subset in ("valid", "test")}
    recipe.step("Done")
    for subset, bleu in scores.items():
        recipe.say(f"BLEU on {subset} = {bleu:.2f}")
    recipe.say(f"model {relative_path(checkpoint)}")


if __name__ == "__main__":
    main()
