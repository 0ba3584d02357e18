"""Compare architectures in ADL on Multi30k, German to English, all trained in the same way.

Each command is printed before it runs; its output is in OUT/logs. Finished runs are not repeated,
so you can stop the recipe and start it again with more architectures.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from captions import BPE_MERGES, LANGUAGES, SPLITS, write_text  # noqa: E402
from recipe import Recipe  # noqa: E402
from results import each, fastest, mean, read_bleu, read_logs, table  # noqa: E402

ARCHITECTURES = (
    "adl_transformer",
    "adl_self_att_rnn",
    "adl_cnn_self_att",
    "adl_rnn_rnn",
    "adl_cnn_cnn",
    "adl_self_att_none",
)
TASK = ["--task", "convs2s_translation"]


class Model(NamedTuple):
    """A model to train.

    Attributes:
        name: its name in the table.
        options: its options of fairseq-train.
    """

    name: str
    options: list[object]

    @classmethod
    def named(cls, arch: str) -> Model:
        """A named architecture."""
        return cls(arch, ["--arch", arch])

    @classmethod
    def defined(cls, name: str, encoder: str, decoder: str) -> Model:
        """An encoder and a decoder defined in ADL."""
        return cls(name, ["--arch", "adl", "--encoder-adl", encoder, "--decoder-adl", decoder])


def train_options(args: argparse.Namespace, model: Model, seed: int) -> list[object]:
    """The options of fairseq-train, the same for all models."""
    return [
        *(*model.options, "--model-dim", args.model_dim),
        *("--share-all-embeddings", "--dropout", 0.1, "--attention-dropout", 0),
        *("--criterion", "convs2s_cross_entropy", "--label-smoothing", 0.1),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--clip-norm", 1.0),
        *("--lr", 1e-3, "--lr-scheduler", "polynomial_decay", "--warmup-updates", 200),
        *("--total-num-update", args.updates, "--max-tokens", 1000, "--seed", seed),
        *("--disable-validation", "--no-epoch-checkpoints", "--no-save-optimizer-state"),
        *("--save-interval", 1000, *TASK),
    ]


def run(recipe: Recipe, args: argparse.Namespace, model: Model, seed: int) -> None:
    """Train and translate, unless that is done, and write OUT/runs/NAME.SEED/result.json."""
    name = f"{model.name}.{seed}"
    folder = recipe.out / "runs" / name
    if (folder / "result.json").exists():
        recipe.say(f"\n{name} has been trained already.")
        return
    recipe.train(name, args.updates, train_options(args, model, seed), f"runs/{name}")
    output = recipe.out / "runs" / f"test.{name}.out"
    recipe.generate(folder / "checkpoint_last.pt", "test", output, TASK)
    training, generation = (
        (recipe.logs / f"{log}.log").read_text(encoding="utf-8")
        for log in (f"train.{name}", output.stem)
    )
    result = {
        "model": model.name,
        "seed": seed,
        "bleu": read_bleu(output.read_text(encoding="utf-8")),
        **read_logs(training, generation),
    }
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    recipe.say(f"  BLEU {result['bleu']:.2f}")


COLUMNS = {
    "parameters": lambda runs: f"{runs[0]['parameters']:,}",
    "BLEU, mean of seeds": lambda runs: f"{mean(runs, 'bleu'):.2f}",
    "each seed": lambda runs: each(runs, "bleu"),
    "tokens/s in training, fastest run": lambda runs: f"{fastest(runs, 'tokens_per_second'):,.0f}",
    "sentences/s with beam 5, fastest run": lambda runs: (
        f"{fastest(runs, 'sentences_per_second'):.1f}"
    ),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--arch",
        nargs="+",
        default=list(ARCHITECTURES),
        metavar="NAME",
        help="architectures, see `convs2s adl list` (default: six of Table 5 of the paper)",
    )
    parser.add_argument(
        "--hybrid",
        nargs=3,
        action="append",
        default=[],
        metavar=("NAME", "ENCODER", "DECODER"),
        help="a model of your own, with a name of your choice; can be repeated",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2], help="default: 1 2")
    parser.add_argument("--updates", type=int, default=1500, help="default: %(default)s")
    parser.add_argument("--model-dim", type=int, default=128, help="default: %(default)s")
    parser.add_argument(
        "--raw-dir",
        type=Path,
        help="folder with train|val|test.{de,en}.gz (default: download the captions)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("adl_out"), help="output folder (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    models = [*map(Model.named, args.arch), *(Model.defined(*texts) for texts in args.hybrid)]
    # This folder is created after the data, so it marks complete data.
    runs = args.out.resolve() / "runs"
    recipe = Recipe(args.out, resume=runs.exists())
    settings = json.dumps({"updates": args.updates, "model_dim": args.model_dim})
    if not runs.exists():
        write_text(recipe, args.raw_dir)
        recipe.binarize(recipe.out / "text", SPLITS, LANGUAGES, BPE_MERGES)
        runs.mkdir()
        (runs / "settings.json").write_text(settings, encoding="utf-8")
    if (runs / "settings.json").read_text(encoding="utf-8") != settings:
        sys.exit(
            f"The runs in {runs} have another --updates or --model-dim: choose another folder with "
            "--out."
        )
    for seed in args.seeds:
        for model in models:
            run(recipe, args, model, seed)
    recipe.step("Done")
    paths = sorted(runs.glob("*/result.json"))
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    text = table(results, "bleu", COLUMNS)
    (recipe.out / "table.md").write_text(text + "\n", encoding="utf-8")
    recipe.say(text)


if __name__ == "__main__":
    main()
