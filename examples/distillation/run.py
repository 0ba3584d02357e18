"""Train a small model on the translations of a large one, and beside it on the real translations.

Options that are not listed here are passed to `convs2s prepare`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from recipe import (  # noqa: E402
    Recipe,
    add_text_arguments,
    example_parser,
    optimization,
    parallel_text,
    read_text,
    small_model,
)

# Pairs of the demo's corpus.
PAIRS = 8_000
BPE_MERGES = 1_000
TEACHER = small_model(channels=96, encoder_layers=3, decoder_layers=3)
STUDENT = small_model(channels=64, encoder_layers=2, decoder_layers=2)
TEACHER_UPDATES, STUDENT_UPDATES = 400, 400
TEACHER_LR, STUDENT_LR = 0.004, 0.005
TEACHER_BEAM = 1
SIZES = ("--valid-size", 500, "--test-size", 1_000)
SMOKE_SIZES = ("--valid-size", 10, "--test-size", 10)


def main() -> None:
    parser = example_parser(__doc__, "distillation_out")
    add_text_arguments(parser)
    args, prepare_options = parser.parse_known_args()
    recipe = Recipe(args.out)

    recipe.step("Preparing the text")
    files, text_options = parallel_text(recipe.out, args, PAIRS)
    sizes = SMOKE_SIZES if args.smoke else SIZES
    preparation = recipe.prepare(
        recipe.out / "prepared",
        {"train": files},
        "--bpe-size",
        BPE_MERGES,
        *sizes,
        *text_options,
        *prepare_options,
    )
    prepared = preparation.folder
    source, target = preparation.source.language, preparation.target.language

    def train(name: str, model: list[object], updates: int, lr: float, data: Path) -> Path:
        updates = 3 if args.smoke else updates
        options = optimization(updates, lr, max_tokens=1000, seed=args.seed)
        return recipe.train(name, updates, [*model, "--share-all-embeddings", *options], data, name)

    teacher = train("teacher", TEACHER, TEACHER_UPDATES, TEACHER_LR, prepared / "data-bin")

    tokens = prepared / "tokens" / f"train.{source}"
    sources = read_text(tokens)
    recipe.step(f"The teacher's translations of {len(sources):,} training sentences")
    distilled = recipe.out / "distilled"
    targets = recipe.translate(
        teacher,
        tokens,
        recipe.out / f"teacher.train.{target}",
        "--raw",
        "--data",
        prepared / "data-bin",
        "--beam",
        TEACHER_BEAM,
    )
    recipe.binarize_pairs(preparation, distilled, sources, targets)

    students = {
        "student": train("student", STUDENT, STUDENT_UPDATES, STUDENT_LR, prepared / "data-bin"),
        "distilled": train(
            "distilled", STUDENT, STUDENT_UPDATES, STUDENT_LR, distilled / "data-bin"
        ),
    }

    test, reference = (prepared / "text" / f"test.{language}" for language in (source, target))
    recipe.step("Translating the test set")
    outputs = {}
    for name, model in {"teacher": teacher, **students}.items():
        outputs[name] = recipe.out / f"test.{name}"
        recipe.translate(model, test, outputs[name], "--preparation", prepared)
    references = read_text(reference)
    recipe.table(
        ("model", "targets", "parameters", "BLEU", "equal to the reference"),
        [
            (
                name,
                targets,
                recipe.parameters(f"train.{name}"),
                recipe.bleu(reference, outputs[name]),
                sum(x == y for x, y in zip(read_text(outputs[name]), references)),
            )
            for name, targets in (
                ("teacher", "real"),
                ("student", "real"),
                ("distilled", "the teacher's translations"),
            )
        ],
    )
    recipe.say()
    recipe.echo(recipe.compare(reference, outputs["student"], outputs["distilled"]))
    recipe.finish(model=students["distilled"], translations=outputs["distilled"])


if __name__ == "__main__":
    main()
