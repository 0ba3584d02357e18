"""Three families of models, trained on Multi30k under the same conditions: one table.

Each step is a command that is printed before it runs; its whole output is in OUT/logs. A run that
has ended is not repeated, and one that was interrupted goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from captions import LANGUAGES, MERGES, SPLITS, get_text  # noqa: E402
from recipe import LOG_INTERVAL, Recipe  # noqa: E402
from results import bleu, each, fastest, figures, mean, table  # noqa: E402
from training import average, optimisation  # noqa: E402


class Regime(NamedTuple):
    """What each model has of its own: learning rate after the warm-up, dropout, architecture."""

    lr: float
    dropout: float
    arch: str
    options: tuple = ()


# Sizes that a core of a CPU trains in about an hour.
TRANSFORMER = ("--model-dim", 256, "--ff-dim", 1024)
GRID = ("--num-layers", 12, "--kernel-size", 3)
MODELS = {
    "convs2s": Regime(2e-3, 0.2, "convs2s_iwslt_de_en"),
    "transformer": Regime(1e-3, 0.2, "adl_transformer", TRANSFORMER),
    "pervasive": Regime(1e-3, 0.2, "pervasive_iwslt_de_en", GRID),
    "pervasive_max_attn": Regime(1e-3, 0.2, "pervasive_iwslt_de_en_max_attn", GRID),
}
# What a call may change of them.
NUMBERS = ("lr", "dropout")
DEFAULT = list(MODELS)[:3]

COLUMNS = {
    "parameters": lambda runs: f"{runs[0]['parameters_without_words']:,}",
    "with words": lambda runs: f"{runs[0]['parameters']:,}",
    "minutes of training": lambda runs: f"{mean(runs, 'training_minutes'):.1f}",
    "words/s in training, fastest run": lambda runs: f"{fastest(runs, 'words_per_second'):,.0f}",
    "sentences/s with beam 5, fastest run": lambda runs: (
        f"{fastest(runs, 'sentences_per_second'):.1f}"
    ),
    "BLEU valid": lambda runs: f"{mean(runs, 'bleu_valid'):.2f}",
    "BLEU test": lambda runs: f"{mean(runs, 'bleu_test'):.2f}",
    "test, each seed": lambda runs: each(runs, "bleu_test"),
}


class Comparison:
    """Trains and translates, and keeps OUT/results.json and OUT/table.md up to date.

    Args:
        recipe: with its data ready.
        args: the options.
        settings: what all results have in common.
    """

    def __init__(self, recipe: Recipe, args: argparse.Namespace, settings: dict):
        self.recipe = recipe
        self.args = args
        self.settings = settings
        self.runs = recipe.out / "runs"
        self.task = ["--task", "convs2s_translation", "--autocast-dtype", args.autocast_dtype]
        self.lock = Lock()

    def run(self, model: str, seed: int) -> None:
        """Train, average and translate what has not been, and write result.json of the run."""
        recipe, name = self.recipe, f"{model}.{seed}"
        folder, log = self.runs / name, recipe.logs / f"train.{name}.log"
        if (folder / "result.json").exists():
            recipe.say(f"\n{name} has been trained already.")
            return
        if not (log.exists() and "done training in" in log.read_text(encoding="utf-8")):
            recipe.train(name, self.args.updates, self.train_options(model, seed), f"runs/{name}")
        checkpoint = average(recipe, folder)
        bleus = {
            f"bleu_{split}": self.score(checkpoint, split, name) for split in ("valid", "test")
        }
        training, generation = (
            path.read_text(encoding="utf-8") for path in (log, recipe.logs / f"test.{name}.log")
        )
        found = figures(training, generation)
        last = torch.load(folder / "checkpoint_last.pt", map_location="cpu", weights_only=False)
        # One table of words and a bias for each: all embeddings are shared.
        tables = ("decoder.output.words.weight", "decoder.output.bias")
        words = sum(last["model"][name].numel() for name in tables)
        self.keep(
            {
                "model": model,
                "seed": seed,
                **found,
                "parameters_without_words": found["parameters"] - words,
                "training_minutes": last["extra_state"]["previous_training_time"] / 60,
                **bleus,
                **self.args.regimes[model]._asdict(),
                **self.settings,
                "jobs": self.args.jobs,
                "device": device(),
            },
            folder,
        )

    def train_options(self, model: str, seed: int) -> list[object]:
        """The options of fairseq-train."""
        lr, dropout, arch, options = self.args.regimes[model]
        return [
            *("--arch", arch, *options, "--criterion", "convs2s_cross_entropy", "--seed", seed),
            *optimisation(lr, dropout, self.args.updates, self.args.max_tokens),
            *self.task,
        ]

    def score(self, checkpoint: Path, split: str, name: str) -> float:
        """Translate a split and return its BLEU."""
        output = self.runs / f"{split}.{name}.out"
        self.recipe.generate(checkpoint, split, output, self.task)
        return bleu(output.read_text(encoding="utf-8"))

    def keep(self, result: dict, folder: Path) -> None:
        """Write a result, and all that are there; of the checkpoints, keep the average."""
        with self.lock:
            write_json(folder / "result.json", result)
            self.write()
        for checkpoint in folder.glob("checkpoint*.pt"):
            checkpoint.unlink()
        self.recipe.say(f"  {folder.name}: BLEU on test {result['bleu_test']:.2f}")

    def write(self) -> str:
        """Write OUT/results.json and OUT/table.md, and return the table."""
        found = sorted(self.runs.glob("*/result.json"))
        results = [json.loads(path.read_text(encoding="utf-8")) for path in found]
        write_json(self.recipe.out / "results.json", results)
        text = table(results, "bleu_test", COLUMNS)
        (self.recipe.out / "table.md").write_text(text + "\n", encoding="utf-8")
        return text


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def device() -> str:
    """What the models computed on."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores"


def prepare(args: argparse.Namespace, settings: dict) -> Recipe:
    """The recipe with its data ready; what an earlier call with these settings made is kept."""
    # The folder of runs is made when the data is ready.
    runs = args.out.resolve() / "runs"
    recipe = Recipe(args.out, go_on=runs.exists())
    if args.data_bin:
        recipe.data_bin = args.data_bin.resolve()
    if not runs.exists():
        if not args.data_bin:
            get_text(recipe, args.raw_dir)
            recipe.binarise(recipe.out / "text", SPLITS, LANGUAGES, MERGES)
        runs.mkdir()
        write_json(runs / "settings.json", settings)
    earlier = json.loads((runs / "settings.json").read_text(encoding="utf-8"))
    settings = json.loads(json.dumps(settings))
    other = [name for name in settings if settings[name] != earlier[name]]
    if other:
        sys.exit(f"The runs in {runs} have another {', '.join(other)}: give another --out.")
    return recipe


def of_a_model(text: str) -> tuple[str, float]:
    """'NAME=VALUE', read."""
    name, _, value = text.partition("=")
    if name not in MODELS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(MODELS)}")
    return name, float(value)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--models", nargs="+", choices=list(MODELS), default=DEFAULT, metavar="NAME",
        help=f"of {', '.join(MODELS)} (default: the first three)")  # fmt: skip
    add("--seeds", nargs="+", type=int, default=[1], help="default: 1")
    add("--updates", type=int, default=4000, help="default: %(default)s")
    add("--max-tokens", type=int, default=1000, help="of a batch (default: %(default)s)")
    for option in NUMBERS:
        add(f"--{option}", nargs="+", type=of_a_model, default=[], metavar="NAME=VALUE",
            help="of a model, instead of the one in this file")  # fmt: skip
    add("--autocast-dtype", choices=["none", "bfloat16", "float16"], default="none",
        help="of training and translating (default: %(default)s)")  # fmt: skip
    add("--jobs", type=int, default=1, help="so many runs at a time (default: %(default)s)")
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--raw-dir", type=Path,
        help="folder with train|val|test.{de,en}.gz (default: fetch them)")  # fmt: skip
    data.add_argument("--data-bin", type=Path,
        help="binarised data with one dictionary of both languages")  # fmt: skip
    add("--out", type=Path, default=Path("multi30k_compare_out"), help="default: %(default)s")
    args = parser.parse_args()
    if min(args.jobs, args.max_tokens) < 1 or args.updates < LOG_INTERVAL:
        parser.error(
            f"--jobs and --max-tokens must be at least 1, --updates {LOG_INTERVAL}, which is how "
            "often fairseq-train logs its speed."
        )
    lr, dropout = dict(args.lr), dict(args.dropout)
    args.regimes = {
        name: regime._replace(lr=lr.get(name, regime.lr), dropout=dropout.get(name, regime.dropout))
        for name, regime in MODELS.items()
    }
    return args


def main() -> None:
    args = parse_arguments()
    settings = {name: getattr(args, name) for name in ("updates", "max_tokens", "autocast_dtype")}
    recipe = prepare(args, {**settings, "--lr or --dropout": args.regimes})
    comparison = Comparison(recipe, args, settings)
    with ThreadPoolExecutor(args.jobs) as pool:
        pairs = [(model, seed) for seed in args.seeds for model in args.models]
        # One that fails ends the recipe, but the others are trained first.
        for done in [pool.submit(comparison.run, *pair) for pair in pairs]:
            done.result()
    recipe.step("Done")
    recipe.say(comparison.write())


if __name__ == "__main__":
    main()
