"""Add back-translations of monolingual target text to parallel text.

Half of the pairs are parallel text. Of the other half, only the target side is used: a model for
the reverse direction translates it.

Options that are not listed here are passed to `convs2s prepare`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from convs2s.common.errors import UserError
from convs2s.text.sources import ParallelText, find_languages

sys.path.append(str(Path(__file__).resolve().parents[1]))

from recipe import (  # noqa: E402
    Recipe,
    add_text_arguments,
    example_parser,
    optimization,
    parallel_text,
    read_text,
    small_model,
    write_text,
)

# Pairs of the demo's corpus.
PAIRS = 8_000
BPE_MERGES = 1_000
MODEL = small_model(channels=64, encoder_layers=3, decoder_layers=3)
REVERSE_UPDATES, UPDATES, LR = 300, 300, 0.005
# The dictionary lacks this token, so that a model reads <unk>.
TAG = "<back-translated>"
SIZES = ("--valid-size", 500, "--test-size", 1_000)
SMOKE_SIZES = ("--valid-size", 10, "--test-size", 10)


def main() -> None:
    parser = example_parser(__doc__, "back_translation_out")
    add_text_arguments(parser)
    parser.add_argument("--source-lang", help="default: from the name of the file")
    parser.add_argument("--target-lang", help="default: from the name of the file")
    args, prepare_options = parser.parse_known_args()
    recipe = Recipe(args.out)
    files, text_options = parallel_text(recipe.out, args, PAIRS)
    try:
        text = ParallelText("files", tuple(map(str, files)))
        source, target = find_languages([text], args.source_lang, args.target_lang)
        pairs = list(text.pairs())
    except UserError as error:
        sys.exit(str(error))
    parallel, monolingual = pairs[::2], [line for _, line in pairs[1::2]]

    recipe.step(f"{len(parallel):,} pairs, and {len(monolingual):,} more target sentences")
    halves = [
        write_text(recipe.out / "text" / f"parallel.{language}", map(str.rstrip, lines))
        for language, lines in zip((source, target), zip(*parallel))
    ]
    sizes = SMOKE_SIZES if args.smoke else SIZES
    preparation = recipe.prepare(
        recipe.out / "prepared",
        {"train": halves},
        "--source-lang",
        source,
        "--target-lang",
        target,
        "--bpe-size",
        BPE_MERGES,
        *sizes,
        *text_options,
        *prepare_options,
    )
    prepared = preparation.folder
    held_out = {
        line
        for split in ("valid", "test")
        for line in read_text(prepared / f"text/{split}.{target}")
    }
    normal = dict.fromkeys(map(preparation.target.normalize, monolingual))
    encoded = [preparation.target.encode(line) for line in normal if line not in held_out]
    tokens = write_text(recipe.out / "text" / f"monolingual.tokens.{target}", filter(None, encoded))

    def train(name: str, updates: int, data: Path, *options: object) -> Path:
        updates = 3 if args.smoke else updates
        options = ("--share-all-embeddings", *options)
        tuning = optimization(updates, LR, max_tokens=1000, seed=args.seed)
        return recipe.train(name, updates, [*MODEL, *tuning, *options], data, name)

    reverse = train("reverse", REVERSE_UPDATES, prepared / "data-bin", "-s", target, "-t", source)
    recipe.step(f"Back-translating {target} to {source}")
    back = recipe.translate(
        reverse,
        tokens,
        recipe.out / "text" / f"monolingual.tokens.{source}",
        "--raw",
        "--data",
        prepared / "data-bin",
        "-s",
        target,
        "-t",
        source,
        "--beam",
        1,
    )

    sources, targets = (read_text(prepared / "tokens" / f"train.{x}") for x in (source, target))
    more = read_text(tokens)
    models = {"parallel": train("parallel", UPDATES, prepared / "data-bin")}
    for name, extra in (("untagged", back), ("tagged", [f"{TAG} {line}" for line in back])):
        folder = recipe.out / name
        recipe.binarize_pairs(preparation, folder, [*sources, *extra], [*targets, *more])
        models[name] = train(name, UPDATES, folder / "data-bin")

    test, reference = (prepared / "text" / f"test.{language}" for language in (source, target))
    recipe.step("Translating the test set")
    outputs = []
    for name, model in models.items():
        outputs.append(recipe.out / f"test.{name}")
        recipe.translate(model, test, outputs[-1], "--preparation", prepared)
    recipe.echo(recipe.compare(reference, *outputs))
    recipe.finish(models=recipe.out)


if __name__ == "__main__":
    main()
