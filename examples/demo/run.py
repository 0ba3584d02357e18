"""Make a small German-English corpus, train ConvS2S on it, translate and score.

Each command is printed before it runs; its output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from make_corpus import LANGUAGES, SIZES, detokenize, tokenize

from convs2s.common.programs import relative_path
from convs2s.common.text_files import read_sentences
from convs2s.evaluation.nbest import first_texts

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from recipe import Recipe  # noqa: E402

BPE_MERGES = 1_000
UPDATES = 900
SHOWN = 5


def make_data(recipe: Recipe, seed: int) -> None:
    """Write the corpus, learn and apply BPE, and binarize."""
    recipe.step("A corpus of number words, dates, times, units and prices")
    text = recipe.out / "corpus"
    recipe.run("corpus", [sys.executable, HERE / "make_corpus.py", text, "--seed", seed])
    recipe.binarize(text, LANGUAGES, BPE_MERGES)


def train(recipe: Recipe, seed: int) -> Path:
    """Train for a few minutes and return the path of the checkpoint."""
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
    """Translate the test set.

    Returns:
        Source, translation and reference of each sentence, detokenized.
    """
    out = recipe.out
    recipe.step(f"Translating {SIZES['test']:,} test sentences")
    recipe.generate(checkpoint, "test", out / "generate.out")
    hypotheses = first_texts((out / "generate.out").read_text(encoding="utf-8"), "H")
    sides = [[*read_sentences(str(out / f"corpus/test.{language}"))] for language in LANGUAGES]
    return [
        (detokenize(source), detokenize(hypothesis), detokenize(reference))
        for source, hypothesis, reference in zip(sides[0], hypotheses, sides[1], strict=True)
    ]


def score(recipe: Recipe, rows: list[tuple[str, str, str]]) -> str:
    """Score the detokenized translations with sacreBLEU."""
    recipe.step("sacreBLEU")
    for name, column in (("translation", 1), ("reference", 2)):
        text = "".join(f"{row[column]}\n" for row in rows)
        (recipe.out / f"test.{name}.en").write_text(text, encoding="utf-8")
    result = recipe.out / "bleu.txt"
    files = [recipe.out / "test.reference.en", "-i", recipe.out / "test.translation.en"]
    recipe.run("sacrebleu", ["sacrebleu", *files, "-m", "bleu", "-b", "-w", 2], stdout=result)
    return result.read_text(encoding="utf-8").strip()


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


def plot(recipe: Recipe, checkpoint: Path, rows: list[tuple[str, str, str]]) -> Path:
    """Draw the attention of two translations: a spoken date, and a rate with a long number."""
    recipe.step("Attention")
    sources = [tokenize(source) for source, translation, reference in rows]
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
    parser.add_argument(
        "--out", type=Path, default=Path("demo_out"), help="output folder, emptied first"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the corpus and of training (default: 1)"
    )
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
    for name, path in (
        ("model", checkpoint),
        ("translations", recipe.out / "test.translation.en"),
        ("references", recipe.out / "test.reference.en"),
        ("attention", picture),
        ("logs", recipe.logs),
    ):
        recipe.say(f"{name:12} {relative_path(path)}")


if __name__ == "__main__":
    main()
