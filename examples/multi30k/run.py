"""Multi30k, German to English: from the raw captions to a BLEU on the test set of 2016.

Each step is a command that is printed before it runs; its whole output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from captions import LANGUAGES, MERGES, SPLITS, get_text  # noqa: E402
from recipe import Recipe, short  # noqa: E402
from results import bleu  # noqa: E402
from training import average, optimisation  # noqa: E402

UPDATES = 5_000


def train(recipe: Recipe, seed: int) -> Path:
    """Train, average the last checkpoints, and return the average."""
    recipe.train(
        "ConvS2S",
        UPDATES,
        ["--arch", "convs2s_iwslt_de_en", "--criterion", "label_smoothed_cross_entropy"]
        + optimisation(lr=2e-3, dropout=0.2, updates=UPDATES, max_tokens=2000)
        + ["--weight-decay", 1e-4, "--seed", seed, "--no-save-optimizer-state"],
    )
    return average(recipe, recipe.out / "checkpoints")


def score(recipe: Recipe, checkpoint: Path, subset: str) -> float:
    """Translate a split and return its tokenised lower-case BLEU, as fairseq prints it."""
    output = recipe.out / f"generate.{subset}.out"
    recipe.generate(checkpoint, subset, output)
    return bleu(output.read_text(encoding="utf-8"))


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
    for subset, found in scores.items():
        recipe.say(f"BLEU on {subset} = {found:.2f}")
    recipe.say(f"model {short(checkpoint)}")


if __name__ == "__main__":
    main()
