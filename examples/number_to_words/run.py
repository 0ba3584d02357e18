"""Train a model that writes numbers in words, character by character.

The model is trained on numbers of up to five digits, and tested on numbers that it has not seen: of
the same lengths, and longer ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_numbers import BEYOND, LONGEST, Numbers, Pair, check_language, make_numbers

from convs2s.common.errors import UserError

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
# The wider beam fills with outputs that end too early, see README.md.
BEAMS = (1, 5)
# Numbers of each length that are printed with their outputs.
SHOWN = 2


def accuracy(test: list[Pair], outputs: list[str]) -> dict[int, tuple[int, int]]:
    """Count the outputs that are entirely right.

    Returns:
        Number of digits -> the right outputs, and all numbers.
    """
    rows = {}
    for digits in sorted({len(number) for number, _ in test}):
        right = [name == out for (n, name), out in zip(test, outputs) if len(n) == digits]
        rows[digits] = sum(right), len(right)
    return rows


def main() -> None:
    parser = example_parser(__doc__, "number_to_words_out")
    parser.add_argument(
        "--language", default="en", help="a language of num2words (default: %(default)s)"
    )
    args = parser.parse_args()
    try:
        check_language(args.language)
    except UserError as error:
        sys.exit(str(error))
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
        "--source-lang",
        LANGUAGES[0],
        "--target-lang",
        LANGUAGES[1],
        "--tokenizer",
        "characters",
        "--separate",
        "--keep-duplicates",
        "--max-ratio",
        30,
    ).folder

    checkpoint = recipe.train(
        "ConvS2S on characters",
        prepared,
        updates,
        small_model(channels=64, encoder_layers=2, decoder_layers=4, decoder_kernel=5)
        # There is one right output, so there is no reason for smoothing.
        + ["--label-smoothing", 0.0]
        + optimization(updates, lr=0.004, max_tokens=2000, seed=args.seed),
    )

    recipe.step(f"Numbers in words: {len(numbers.test):,} unseen numbers")
    source = text / f"test.{LANGUAGES[0]}"
    outputs = {
        beam: recipe.translate(
            checkpoint, source, recipe.out / f"beam{beam}.{LANGUAGES[1]}", "--beam", beam
        )
        for beam in BEAMS
    }
    show(recipe, numbers.test, outputs)
    recipe.finish(model=checkpoint, outputs=recipe.out)


def show(recipe: Recipe, test: list[Pair], outputs: dict[int, list[str]]) -> None:
    """Print the share of right outputs, outputs of longer numbers, and what the beams change.

    Args:
        recipe: prints the tables.
        test: the numbers with their names.
        outputs: beam size -> the outputs.
    """
    counts = [accuracy(test, found) for found in outputs.values()]
    recipe.table(
        ("digits", "in the training text", "numbers", *(f"right with beam {b}" for b in outputs)),
        [
            (digits, "yes" if digits <= LONGEST else "no", number)
            + tuple(f"{of_beam[digits][0] / number:.1%}" for of_beam in counts)
            for digits, (_, number) in counts[0].items()
        ],
    )
    narrow, wide = outputs.values()
    recipe.say("\nLonger numbers:\n")
    longer = []
    for digits in range(LONGEST + 1, BEYOND + 1):
        rows = [(number, out) for (number, _), out in zip(test, narrow) if len(number) == digits]
        longer += rows[:SHOWN]
    recipe.table(("number", f"output with beam {BEAMS[0]}"), longer)
    recipe.say(f"\nNumbers that are right with beam {BEAMS[0]} only:\n")
    worse = [
        (number, name, out)
        for (number, name), first, out in zip(test, narrow, wide)
        if first == name != out
    ]
    recipe.table(("number", "right", f"output with beam {BEAMS[1]}"), worse[-SHOWN:])


if __name__ == "__main__":
    main()
