"""From two text files to a translation model and its BLEU.

Options that are not listed here are passed to `convs2s prepare`.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from recipe import USER_DIR, Recipe, example_parser, read_text, run_training  # noqa: E402

SHOWN = 3
SMOKE_SIZES = ("--valid-size", 10, "--test-size", 10)


def printed_training(log: Path) -> list[str]:
    """The words of the training command that ``convs2s prepare`` has printed at its end."""
    command = re.search(r"^fairseq-train .*", log.read_text(encoding="utf-8"), re.M | re.S)[0]
    words = shlex.split(command.replace("\\\n", " "))
    return [word.replace("$(convs2s path)", str(USER_DIR)) for word in words]


def main() -> None:
    parser = example_parser(__doc__, "own_text_out")
    parser.add_argument("files", nargs=2, type=Path, help="source and target text, line by line")
    parser.add_argument("--epochs", type=int, help="epochs (default: as convs2s prepare proposes)")
    args, prepare_options = parser.parse_known_args()
    recipe = Recipe(args.out)

    recipe.step("Preparing the text")
    if args.smoke:
        prepare_options += SMOKE_SIZES
    preparation = recipe.prepare(
        recipe.out / "prepared", {"train": args.files}, *prepare_options, show=True
    )
    prepared = preparation.folder
    languages = preparation.source.language, preparation.target.language
    test, reference = (prepared / "text" / f"test.{language}" for language in languages)
    if not test.exists():
        sys.exit("There is no test set: leave out --test-size 0.")

    command = [*printed_training(recipe.logs / "prepared.log"), "--seed", args.seed]
    if args.smoke:
        command += ["--max-update", 2]
    elif args.epochs:
        command += ["--max-epoch", args.epochs]
    run_training(recipe, "ConvS2S, with the command above", command)

    recipe.step("Averaging the last checkpoints")
    checkpoints = prepared / "checkpoints"
    # With --smoke, no epoch is complete.
    inputs = sorted(checkpoints.glob("checkpoint[0-9]*.pt")) or [checkpoints / "checkpoint_last.pt"]
    model = checkpoints / "average.pt"
    recipe.run("average", ["convs2s", "average", "--inputs", *inputs, "--output", model])

    sources, references = read_text(test), read_text(reference)
    recipe.step(f"Translating {len(sources):,} test sentences")
    output = recipe.out / f"test.translation.{languages[1]}"
    translations = recipe.translate(model, test, output)
    for number in range(SHOWN):
        place = len(sources) * (2 * number + 1) // (2 * SHOWN)
        recipe.say(f"  source       {sources[place]}")
        recipe.say(f"  translation  {translations[place]}")
        recipe.say(f"  reference    {references[place]}\n")
    bleu = recipe.bleu(reference, output)
    recipe.finish(model=model, translations=output, references=reference)
    recipe.say(f"BLEU = {bleu}")


if __name__ == "__main__":
    main()
