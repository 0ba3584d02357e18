"""From nothing to a translation: make a corpus, train ConvS2S on it, translate and score.

Each step is a command that is printed before it runs; its whole output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from make_corpus import LANGUAGES, SIZES, detokenise, tokenise

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from recipe import Recipe, short  # noqa: E402

MERGES = 1_000
UPDATES = 900
SHOWN = 5


def make_data(recipe: Recipe, seed: int) -> None:
    """Write the corpus, learn and apply BPE, and binarise."""
    recipe.step("A corpus of number words, dates, times, units and prices")
    text = recipe.out / "corpus"
    recipe.run("corpus", [sys.executable, HERE / "make_corpus.py", text, "--seed", seed])
    recipe.binarise(text, SIZES, LANGUAGES, MERGES)


def train(recipe: Recipe, seed: int) -> Path:
    """Train with a short recipe and return the checkpoint."""
    recipe.train(
        "ConvS2S",
        UPDATES,
        ["--arch", "convs2s_iwslt_de_en", "--dropout", 0.1]
        + ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]
        + ["--optimizer", "adam", "--lr", 1e-3, "--clip-norm", 1.0]
        + ["--lr-scheduler", "cosine", "--warmup-updates", 50]
        + ["--max-tokens", 1000, "--seed", seed, "--no-epoch-checkpoints"],
    )
    return recipe.out / "checkpoints" / "checkpoint_last.pt"


def translate(recipe: Recipe, checkpoint: Path) -> list[tuple[str, str, str]]:
    """Translate the test set; return (source, translation, reference) in its order."""
    out = recipe.out
    recipe.step(f"Translating {SIZES['test']:,} held-out sentences")
    recipe.generate(checkpoint, "test", out / "generate.out")
    hypotheses = {}
    for line in (out / "generate.out").read_text(encoding="utf-8").splitlines():
        found = re.match(r"H-(\d+)\t[^\t]*\t(.*)", line)
        if found:
            hypotheses[int(found[1])] = found[2]
    sides = [
        (out / f"corpus/test.{lang}").read_text(encoding="utf-8").splitlines() for lang in LANGUAGES
    ]
    return [
        (detokenise(source), detokenise(hypotheses[row]), detokenise(reference))
        for row, (source, reference) in enumerate(zip(*sides))
    ]


def score(recipe: Recipe, rows: list[tuple[str, str, str]]) -> str:
    """Score the translations with sacreBLEU on plain text."""
    recipe.step("sacreBLEU")
    for name, column in (("translation", 1), ("reference", 2)):
        text = "".join(f"{row[column]}\n" for row in rows)
        (recipe.out / f"test.{name}.en").write_text(text, encoding="utf-8")
    result = recipe.out / "bleu.txt"
    files = [recipe.out / "test.reference.en", "-i", recipe.out / "test.translation.en"]
    recipe.run("sacrebleu", ["sacrebleu", *files, "-m", "bleu", "-b", "-w", 2], stdout=result)
    return result.read_text(encoding="utf-8").strip()


def show(recipe: Recipe, rows: list[tuple[str, str, str]]) -> None:
    """Print some translations between their sources and references."""
    recipe.step(f"{SHOWN} translations")
    # From the longer half, where word order differs most.
    ordered = sorted(rows, key=lambda row: len(row[0]))
    for number in range(SHOWN):
        source, translation, reference = ordered[len(rows) * (SHOWN + number) // (2 * SHOWN)]
        recipe.say(f"  source       {source}")
        recipe.say(f"  translation  {translation}")
        recipe.say(f"  reference    {reference}\n")


def plot(recipe: Recipe, checkpoint: Path, rows: list[tuple[str, str, str]]) -> Path:
    """Draw the attention of a spoken date and of a long number."""
    recipe.step("Attention")
    sources = [tokenise(source) for source, translation, reference in rows]
    chosen = [
        next((source for source in sources if re.search(pattern, source)), sources[0])
        for pattern in (r"tag , der \w+ \w+ \w+$", r"^\w{30,} \w+ pro \w+$")
    ]
    picture = recipe.out / "attention.png"
    recipe.run(
        "plot-attention",
        ["convs2s", "plot-attention", "--path", checkpoint, "--data", recipe.out / "data-bin"]
        + ["--bpe-codes", recipe.out / "codes.bpe", "--output", picture, *chosen],
    )
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo_out"), help="is emptied first")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    recipe = Recipe(args.out)
    make_data(recipe, args.seed)
    checkpoint = train(recipe, args.seed)
    rows = translate(recipe, checkpoint)
    bleu = score(recipe, rows)
    show(recipe, rows)
    picture = plot(recipe, checkpoint, rows)

    recipe.step("Done")
    recipe.say(f"BLEU = {bleu}")
    for what, path in (
        ("model", checkpoint),
        ("translations", recipe.out / "test.translation.en"),
        ("references", recipe.out / "test.reference.en"),
        ("attention", picture),
        ("logs", recipe.logs),
    ):
        recipe.say(f"{what:12} {short(path)}")


if __name__ == "__main__":
    main()
