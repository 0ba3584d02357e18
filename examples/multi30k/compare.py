"""Compare three model families on Multi30k, all trained in the same way.

Each command is printed before it runs; its output is in OUT/logs. Finished runs are not repeated,
and interrupted runs resume from their last checkpoint.
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

from captions import BPE_MERGES, LANGUAGES, SPLITS, write_text  # noqa: E402
from recipe import LOG_INTERVAL, Recipe  # noqa: E402
from results import each, fastest, mean, read_bleu, read_logs, table  # noqa: E402
from training import average_checkpoints, training_options  # noqa: E402


class ModelSettings(NamedTuple):
    """The options that differ between the models.

    Attributes:
        lr: learning rate after the warm-up.
        dropout: dropout of the model.
        arch: architecture.
        options: further options of the model.
    """

    lr: float
    dropout: float
    arch: str
    options: tuple = ()


# Sizes that one CPU core trains in one to two hours.
TRANSFORMER = ("--model-dim", 256, "--ff-dim", 1024)
GRID = ("--num-layers", 12, "--kernel-size", 3)
MODELS = {
    "convs2s": ModelSettings(2e-3, 0.2, "convs2s_iwslt_de_en"),
    "transformer": ModelSettings(1e-3, 0.2, "adl_transformer", TRANSFORMER),
    "pervasive": ModelSettings(1e-3, 0.2, "pervasive_iwslt_de_en", GRID),
    "pervasive_max_attn": ModelSettings(1e-3, 0.2, "pervasive_iwslt_de_en_max_attn", GRID),
}
# The settings that options of this script change.
CHANGEABLE = ("lr", "dropout")
DEFAULT_MODELS = list(MODELS)[:3]

COLUMNS = {
    "parameters without embeddings": lambda runs: f"{runs[0]['parameters_without_embeddings']:,}",
    "with embeddings": lambda runs: f"{runs[0]['parameters']:,}",
    "minutes of training": lambda runs: f"{mean(runs, 'training_minutes'):.1f}",
    "tokens/s in training, fastest run": lambda runs: f"{fastest(runs, 'tokens_per_second'):,.0f}",
    "sentences/s with beam 5, fastest run": lambda runs: (
        f"{fastest(runs, 'sentences_per_second'):.1f}"
    ),
    "BLEU valid": lambda runs: f"{mean(runs, 'bleu_valid'):.2f}",
    "BLEU test": lambda runs: f"{mean(runs, 'bleu_test'):.2f}",
    "test, each seed": lambda runs: each(runs, "bleu_test"),
}


class Comparison:
    """Trains and translates with all models, and updates OUT/results.json and OUT/table.md.

    Args:
        recipe: a recipe whose data is binarized.
        args: the options of this script.
        settings: the settings that all runs share.
    """

    def __init__(self, recipe: Recipe, args: argparse.Namespace, settings: dict):
        self.recipe = recipe
        self.args = args
        self.settings = settings
        self.runs = recipe.out / "runs"
        self.task = ["--task", "convs2s_translation", "--autocast-dtype", args.autocast_dtype]
        self.lock = Lock()

    def run(self, model: str, seed: int) -> None:
        """Train, average and translate, unless that is done, and write the run's result.json."""
        recipe, name = self.recipe, f"{model}.{seed}"
        folder, log = self.runs / name, recipe.logs / f"train.{name}.log"
        if (folder / "result.json").exists():
            recipe.say(f"\n{name} has been trained already.")
            return
        if not (log.exists() and "done training in" in log.read_text(encoding="utf-8")):
            recipe.train(name, self.args.updates, self.train_options(model, seed), f"runs/{name}")
        checkpoint = average_checkpoints(recipe, folder)
        bleus = {
            f"bleu_{split}": self.score(checkpoint, split, name) for split in ("valid", "test")
        }
        training, generation = (
            path.read_text(encoding="utf-8") for path in (log, recipe.logs / f"test.{name}.log")
        )
        logged = read_logs(training, generation)
        last = torch.load(folder / "checkpoint_last.pt", map_location="cpu", weights_only=False)
        # All embeddings share one matrix with the output projection, which adds a bias.
        names = ("decoder.output.words.weight", "decoder.output.bias")
        embeddings = sum(last["model"][name].numel() for name in names)
        self.save(
            {
                "model": model,
                "seed": seed,
                **logged,
                "parameters_without_embeddings": logged["parameters"] - embeddings,
                "training_minutes": last["extra_state"]["previous_training_time"] / 60,
                **bleus,
                **self.args.model_settings[model]._asdict(),
                **self.settings,
                "jobs": self.args.jobs,
                "device": device(),
            },
            folder,
        )

    def train_options(self, model: str, seed: int) -> list[object]:
        """The options of fairseq-train."""
        lr, dropout, arch, options = self.args.model_settings[model]
        return [
            *("--arch", arch, *options, "--criterion", "convs2s_cross_entropy", "--seed", seed),
            *training_options(lr, dropout, self.args.updates, self.args.max_tokens),
            *self.task,
        ]

    def score(self, checkpoint: Path, split: str, name: str) -> float:
        """Translate a split and return its BLEU."""
        output = self.runs / f"{split}.{name}.out"
        self.recipe.generate(checkpoint, split, output, self.task)
        return read_bleu(output.read_text(encoding="utf-8"))

    def save(self, result: dict, folder: Path) -> None:
        """Write the result of a run and the table, and remove all checkpoints but the average."""
        with self.lock:
            write_json(folder / "result.json", result)
            self.write_table()
        for checkpoint in folder.glob("checkpoint*.pt"):
            checkpoint.unlink()
        self.recipe.say(f"  {folder.name}: BLEU on test {result['bleu_test']:.2f}")

    def write_table(self) -> str:
        """Write OUT/results.json and OUT/table.md from all finished runs, and return the table."""
        paths = sorted(self.runs.glob("*/result.json"))
        results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        write_json(self.recipe.out / "results.json", results)
        text = table(results, "bleu_test", COLUMNS)
        (self.recipe.out / "table.md").write_text(text + "\n", encoding="utf-8")
        return text


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def device() -> str:
    """The name of the GPU, or the number of CPU cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores"


def prepare(args: argparse.Namespace, settings: dict) -> Recipe:
    """Make a recipe and binarize its data; keep the results of earlier calls with these settings.

    Exits if earlier calls had other settings.
    """
    # This folder is created after the data, so it marks complete data.
    runs = args.out.resolve() / "runs"
    recipe = Recipe(args.out, resume=runs.exists())
    if args.data_bin:
        recipe.data_bin = args.data_bin.resolve()
    if not runs.exists():
        if not args.data_bin:
            write_text(recipe, args.raw_dir)
            recipe.binarize(recipe.out / "text", SPLITS, LANGUAGES, BPE_MERGES)
        runs.mkdir()
        write_json(runs / "settings.json", settings)
    earlier = json.loads((runs / "settings.json").read_text(encoding="utf-8"))
    settings = json.loads(json.dumps(settings))
    different = [name for name in settings if settings[name] != earlier[name]]
    if different:
        sys.exit(
            f"The runs in {runs} have another {', '.join(different)}: choose another folder with "
            "--out."
        )
    return recipe


def model_and_value(text: str) -> tuple[str, float]:
    """Parse 'NAME=VALUE'."""
    name, _, value = text.partition("=")
    if name not in MODELS:
        raise argparse.ArgumentTypeError(f"there is no model {name}; choose {', '.join(MODELS)}")
    return name, float(value)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--models", nargs="+", choices=list(MODELS), default=DEFAULT_MODELS, metavar="NAME",
        help=f"any of {', '.join(MODELS)} (default: the first three)")  # fmt: skip
    add("--seeds", nargs="+", type=int, default=[1], help="default: 1")
    add("--updates", type=int, default=4000, help="default: %(default)s")
    add("--max-tokens", type=int, default=1000, help="tokens in a batch (default: %(default)s)")
    for option in CHANGEABLE:
        add(f"--{option}", nargs="+", type=model_and_value, default=[], metavar="NAME=VALUE",
            help="change it for a model (default: see MODELS in this file)")  # fmt: skip
    add("--autocast-dtype", choices=["none", "bfloat16", "float16"], default="none",
        help="precision of training and translation (default: %(default)s)")  # fmt: skip
    add("--jobs", type=int, default=1, help="runs in parallel (default: %(default)s)")
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--raw-dir", type=Path,
        help="folder with train|val|test.{de,en}.gz (default: download the captions)")  # fmt: skip
    data.add_argument("--data-bin", type=Path,
        help="binarized data with a joined dictionary")  # fmt: skip
    add("--out", type=Path, default=Path("multi30k_compare_out"),
        help="output folder (default: %(default)s)")  # fmt: skip
    args = parser.parse_args()
    if min(args.jobs, args.max_tokens) < 1 or args.updates < LOG_INTERVAL:
        parser.error(
            f"--jobs and --max-tokens must be at least 1, and --updates at least {LOG_INTERVAL}, "
            "the interval at which fairseq-train logs its speed."
        )
    lr, dropout = dict(args.lr), dict(args.dropout)
    args.model_settings = {
        name: settings._replace(
            lr=lr.get(name, settings.lr), dropout=dropout.get(name, settings.dropout)
        )
        for name, settings in MODELS.items()
    }
    return args


def main() -> None:
    args = parse_arguments()
    settings = {name: getattr(args, name) for name in ("updates", "max_tokens", "autocast_dtype")}
    recipe = prepare(args, {**settings, "--lr or --dropout": args.model_settings})
    comparison = Comparison(recipe, args, settings)
    with ThreadPoolExecutor(args.jobs) as pool:
        pairs = [(model, seed) for seed in args.seeds for model in args.models]
        # A failed run ends the recipe, but only after the other runs.
        for future in [pool.submit(comparison.run, *pair) for pair in pairs]:
            future.result()
    recipe.step("Done")
    recipe.say(comparison.write_table())


if __name__ == "__main__":
    main()
