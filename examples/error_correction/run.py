"""Train a model that corrects errors in English sentences, and score it with F0.5.

The errors are artificial: articles, prepositions, agreement, word order and spelling.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from edits import recall_by_kind, score
from make_errors import (
    ARTICLES,
    OTHER_NUMBER,
    PREPOSITIONS,
    Errors,
    Words,
    frequent_words,
    split_words,
)

from convs2s.common.errors import UserError
from convs2s.common.text_files import read_lines

sys.path.append(str(Path(__file__).resolve().parents[1]))

from recipe import (  # noqa: E402
    Recipe,
    example_parser,
    optimization,
    small_model,
    write_text,
)

LANGUAGES = ("wrong", "right")
# Sentences to validate and to test on, and updates.
HELD_OUT, UPDATES = 1_000, 1_000
SMOKE_HELD_OUT, SMOKE_UPDATES = 4, 3
# The training text has each sentence this many times, with other errors each time.
COPIES = 3
BPE_MERGES = 1_000
SHOWN = 5


def kind_of(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """The kind of an edit in the reference."""
    words = before + after
    if len(before) == len(after) == 2:
        return "word order"
    if all(word in ARTICLES for word in words):
        return "article"
    if all(word in PREPOSITIONS for word in words):
        return "preposition"
    if len(words) == 2:
        one, other = words
        if OTHER_NUMBER.get(one) == other or f"{one}s" == other or f"{other}s" == one:
            return "agreement"
        return "spelling"
    return "other"


def read_sentences(path: Path) -> list[Words]:
    """The different sentences of a file, as words; exit if the file cannot be read."""
    try:
        sentences = {tuple(split_words(line)): None for line in read_lines(str(path))}
    except UserError as error:
        sys.exit(str(error))
    return [list(words) for words in sentences if words]


def main() -> None:
    parser = example_parser(__doc__, "error_correction_out")
    parser.add_argument("text", type=Path, help="English sentences, one per line")
    args = parser.parse_args()
    held_out = SMOKE_HELD_OUT if args.smoke else HELD_OUT
    updates = SMOKE_UPDATES if args.smoke else UPDATES
    sentences = read_sentences(args.text)
    if len(sentences) < 4 * held_out:
        sys.exit(
            f"{args.text} has {len(sentences):,} different sentences: give a file with at least "
            f"{4 * held_out:,}, since {2 * held_out:,} are held out."
        )
    recipe = Recipe(args.out)

    recipe.step("Errors")
    rng = random.Random(args.seed)
    rng.shuffle(sentences)
    splits = {
        "valid": sentences[:held_out],
        "test": sentences[held_out : 2 * held_out],
        "train": sentences[2 * held_out :] * COPIES,
    }
    errors = Errors(frequent_words(sentences[2 * held_out :]), rng)
    text = recipe.out / "text"
    corrupted = {}
    for split, right in splits.items():
        corrupted[split] = [errors.corrupt(words) for words in right]
        for language, lines in zip(LANGUAGES, (corrupted[split], right)):
            write_text(text / f"{split}.{language}", map(" ".join, lines))
    prepared = recipe.prepare(
        recipe.out / "prepared",
        {split: [text / f"{split}.{language}" for language in LANGUAGES] for split in splits},
        "--source-lang",
        LANGUAGES[0],
        "--target-lang",
        LANGUAGES[1],
        "--tokenizer",
        "none",
        "--bpe-size",
        BPE_MERGES,
        "--keep-duplicates",
    ).folder

    checkpoint = recipe.train(
        "ConvS2S",
        prepared,
        updates,
        small_model(channels=64, encoder_layers=3, decoder_layers=3)
        + optimization(updates, lr=0.005, max_tokens=1500, seed=args.seed)
        + ["--share-all-embeddings"],
    )

    recipe.step(f"Correcting {held_out:,} test sentences")
    output = recipe.out / "test.corrected"
    corrections = recipe.translate(checkpoint, text / f"test.{LANGUAGES[0]}", output)
    compared = corrupted["test"], [line.split() for line in corrections], splits["test"]
    total = score(*compared)
    recipe.table(
        ("edits in the references", "edits made", "right", "precision", "recall", "F0.5"),
        [
            (total.wanted, total.made, total.right)
            + (f"{total.precision:.1%}", f"{total.recall:.1%}", f"{100 * total.f:.1f}")
        ],
    )
    recipe.say()
    kinds = recall_by_kind(*compared, kind_of)
    recipe.table(
        ("kind of error", "edits in the references", "recall"),
        [(kind, count.wanted, f"{count.recall:.1%}") for kind, count in sorted(kinds.items())],
    )
    faultless = [made == right for wrong, made, right in zip(*compared) if wrong == right]
    recipe.say(
        f"\n{sum(faultless)} of {len(faultless)} sentences without an error stay the same.\n"
    )
    shown = [row for row in zip(*compared) if row[0] != row[2]][:SHOWN]
    for names in shown:
        for name, words in zip(("wrong", "corrected", "right"), names):
            recipe.say(f"  {name:9}  {' '.join(words)}")
        recipe.say()
    recipe.finish(model=checkpoint, corrections=output)


if __name__ == "__main__":
    main()
