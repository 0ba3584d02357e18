"""Make a small German-English corpus, train ConvS2S on it, translate and score.

Each command is printed before it runs; its output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from make_corpus import LANGUAGES

from convs2s.common.programs import relative_path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from recipe import Recipe, read_text  # noqa: E402

HELD_OUT = 1_000
BPE_MERGES = 1_000
# German writes a number as one word.
MAX_RATIO = 20
UPDATES = 900
SHOWN = 5


def prepare(recipe: Recipe, seed: int) -> Path:
    """Make the corpus and prepare it; the folder of the preparation."""
    recipe.step("A corpus of number words, dates, times, units and prices")
    folder = recipe.out / "corpus"
    recipe.run("corpus", [sys.executable, HERE / "make_corpus.py", folder, "--seed", seed])
    recipe.step("Preparation")
    return recipe.prepare(
        recipe.out / "prepared",
        {"train": [folder / f"corpus.{language}" for language in LANGUAGES]},
        *("--valid-size", HELD_OUT, "--test-size", HELD_OUT),
        *("--bpe-size", BPE_MERGES, "--max-ratio", MAX_RATIO),
    ).folder


def train(recipe: Recipe, prepared: Path, seed: int) -> None:
    """Train for a few minutes."""
    recipe.train(
        "ConvS2S",
        prepared,
        UPDATES,
        ["--arch", "convs2s_iwslt_de_en", "--share-all-embeddings", "--dropout", 0.1]
        + ["--task", "convs2s_translation", "--criterion", "convs2s_cross_entropy"]
        + ["--label-smoothing", 0.1, "--optimizer", "adam", "--lr", 1e-3, "--clip-norm", 1.0]
        + ["--lr-scheduler", "cosine", "--warmup-updates", 50]
        + ["--max-tokens", 1000, "--seed", seed, "--no-epoch-checkpoints"],
    )


def show(recipe: Recipe, rows: list[tuple[str, str, str]]) -> None:
    """Print some translations with their sources and references."""
    recipe.step(f"{SHOWN} translations")
    # From the longer half of the sentences, whose word order differs most.
    ordered = sorted(rows, key=lambda row: len(row[0]))
    for number in range(SHOWN):
        source, translation, reference = ordered[len(rows) * (SHOWN + number) // (2 * SHOWN)]
        recipe.say(f"  source       {source}")
        recipe.say(f"  translation  {translation}")
        recipe.say(f"  reference    {reference}\n")


def plot(recipe: Recipe, prepared: Path, sources: list[str]) -> Path:
    """Draw the attention of two translations: a spoken date, and a rate with a long number."""
    recipe.step("Attention")
    chosen = [
        next((source for source in sources if re.search(pattern, source)), sources[0])
        for pattern in (r"tag, der \w+ \w+ \w+$", r"^\w{30,} \w+ pro \w+$")
    ]
    picture = recipe.out / "attention.png"
    recipe.run(
        "plot-attention",
        ["convs2s", "plot-attention", "--path", prepared, "--output", picture, *chosen],
    )
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("demo_out"), help="output folder, emptied first"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the corpus and of training (default: 1)"
    )
    args = parser.parse_args()
    recipe = Recipe(args.out)
    prepared = prepare(recipe, args.seed)
    train(recipe, prepared, args.seed)

    recipe.step(f"Translating {HELD_OUT:,} test sentences")
    source, reference = (prepared / "text" / f"test.{language}" for language in LANGUAGES)
    output = recipe.out / "translation.en"
    translations = recipe.translate(prepared, source, output)
    recipe.step("sacreBLEU")
    bleu = recipe.bleu(reference, output)
    sources, references = read_text(source), read_text(reference)
    show(recipe, list(zip(sources, translations, references, strict=True)))
    picture = plot(recipe, prepared, sources)

    recipe.step("Done")
    recipe.say(f"BLEU = {bleu}")
    for name, path in (
        ("model", prepared),
        ("translations", output),
        ("references", reference),
        ("attention", picture),
        ("logs", recipe.logs),
    ):
        recipe.say(f"{name:12} {relative_path(path)}")


if __name__ == "__main__":
    main()
