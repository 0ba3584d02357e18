"""Train a model that writes numbers in words, character by character.

The model is trained on numbers of up to five digits, and tested on numbers that it has not seen: of
the same lengths, and longer ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_numbers import LONGEST, Numbers, Pair, make_numbers

sys.path.append(str(Path(__file__).resolve().parents[1]))

from recipe import (  # noqa: E402
    Recipe,
    example_parser,
    optimization,
    small_model,
    write_text,
)

LANGUAGES = ("digits", "words")
SPLITS = Numbers._fields
# Training pairs, test pairs of each length, and updates.
SIZES = 30_000, 200, 1_000
SMOKE = 300, 2, 3
# A wider beam fills with outputs that end too early, see README.md.
SEARCH = ("--beam", 1)
SHOWN = 2


def accuracy(test: list[Pair], outputs: list[str]) -> list[tuple[int, int, int]]:
    """Count the outputs that are right as a whole.

    Returns:
        For each number of digits: the digits, the right outputs, and all numbers.
    """
    lengths = sorted({len(number) for number, _ in test})
    rows = []
    for digits in lengths:
        right = [name == out for (n, name), out in zip(test, outputs) if len(n) == digits]
        rows.append((digits, sum(right), len(right)))
    return rows


def main() -> None:
    parser = example_parser(__doc__, "number_to_words_out")
    parser.add_argument(
        "--language", default="en", help="a language of num2words (default: %(default)s)"
    )
    args = parser.parse_args()
    size, test, updates = SMOKE if args.smoke else SIZES
    recipe = Recipe(args.out)

    recipe.step("Numbers")
    text = recipe.out / "text"
    numbers = make_numbers(args.seed, size, test, args.language)
    for split, pairs in zip(SPLITS, numbers):
        for language, lines in zip(LANGUAGES, zip(*pairs)):
            write_text(text / f"{split}.{language}", lines)
    # The name of a number has up to twenty times as many characters as its digits.
    prepared = recipe.prepare(
        recipe.out / "prepared",
        {split: [text / f"{split}.{language}" for language in LANGUAGES] for split in SPLITS},
        *("--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1]),
        *("--tokenizer", "characters", "--separate", "--keep-duplicates", "--max-ratio", 30),
    ).folder

    checkpoint = recipe.train(
        "ConvS2S on characters",
        updates,
        small_model(channels=64, encoder_layers=2, decoder_layers=4, decoder_kernel=5)
        # There is one right output, so that nothing speaks for smoothing.
        + ["--label-smoothing", 0.0]
        + optimization(updates, lr=0.004, max_tokens=2000, seed=args.seed),
        prepared / "data-bin",
    )

    recipe.step(f"Numbers in words: {len(numbers.test):,} unseen numbers")
    output = recipe.out / f"output.{LANGUAGES[1]}"
    outputs = recipe.translate(
        checkpoint, text / f"test.{LANGUAGES[0]}", output, "--preparation", prepared, *SEARCH
    )
    recipe.table(
        ("digits", "in the training text", "numbers", "right"),
        [
            (digits, "yes" if digits <= LONGEST else "no", count, f"{right / count:.1%}")
            for digits, right, count in accuracy(numbers.test, outputs)
        ],
    )
    for digits in (LONGEST, LONGEST + 1):
        recipe.say(f"\n{digits} digits:")
        shown = [row for row in zip(numbers.test, outputs) if len(row[0][0]) == digits][:SHOWN]
        for (number, name), out in shown:
            recipe.say(f"  number  {number}\n  output  {out}\n  right   {name}")
    recipe.finish(model=checkpoint, outputs=output)


if __name__ == "__main__":
    main()
