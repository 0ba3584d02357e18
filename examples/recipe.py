"""What the examples share: run a command, log its output, and stop if it fails; train; score."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch

from convs2s_plugin.errors import UserError
from convs2s_plugin.preparation import Preparation
from convs2s_plugin.programs import find_program, relative_path

USER_DIR = Path(__file__).resolve().parents[1] / "convs2s_plugin"

# Lines of a failed command's log that are printed.
TAIL = 15
# Updates between two lines in the log of fairseq-train.
LOG_INTERVAL = 20
# A file in OUT/logs that marks a folder made by a recipe.
MARK = ".recipe"


class Recipe:
    """Runs and logs commands, and prints progress.

    Args:
        out: the output folder. If a recipe made it before, its content is removed.
    """

    def __init__(self, out: Path):
        self.out = out.resolve()
        self.logs = self.out / "logs"
        self.data_bin = self.out / "data-bin"
        clear_folder(self.out)
        self.start = time.monotonic()
        self.at_line_start = True

    def say(self, text: str = "") -> None:
        """Print a line."""
        print(("" if self.at_line_start else "\n") + text, flush=True)
        self.at_line_start = True

    def progress(self, text: str) -> None:
        """Print a line; in a terminal, the next line of progress replaces it."""
        if sys.stdout.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            print(f"\r\033[K{text}", end="", flush=True)
            self.at_line_start = False
        else:
            self.say(text)

    def echo(self, line: str) -> None:
        """Print a line of a program's output."""
        self.say(line.rstrip("\n"))

    def table(self, header: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
        """Print a table in Markdown."""
        for row in (header, ["---"] * len(header), *rows):
            self.say(f"| {' | '.join(map(str, row))} |")

    def step(self, title: str) -> None:
        """Print the title of a step and the time since the start."""
        seconds = int(time.monotonic() - self.start)
        self.say(f"\n[{seconds // 60}:{seconds % 60:02}] {title}")

    def run(
        self,
        name: str,
        command: list[object],
        stdin: Path | None = None,
        stdout: Path | None = None,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """Run a command and log its output; if it fails, print the end of the log and exit.

        Args:
            name: name of the log file, without ".log".
            command: the program and its arguments. See ``find_program``.
            stdin, stdout: files to redirect to.
            watch: called with every line of the log.
        """
        try:
            arguments = [*find_program(str(command[0])), *map(str, command[1:])]
        except UserError as error:
            sys.exit(str(error))
        shown = shlex.join([relative_path(argument) for argument in arguments])
        for sign, path in (("<", stdin), (">", stdout)):
            shown += f" {sign} {shlex.quote(relative_path(path))}" if path else ""
        self.say(f"$ {shown}")
        log = self.logs / f"{name}.log"
        with contextlib.ExitStack() as files:
            source = files.enter_context(open(stdin, "rb")) if stdin else subprocess.DEVNULL
            sink = files.enter_context(open(stdout, "wb")) if stdout else subprocess.PIPE
            lines = files.enter_context(open(log, "w", encoding="utf-8"))
            # The log has stderr, and stdout unless that is redirected.
            errors = subprocess.PIPE if stdout else subprocess.STDOUT
            process = subprocess.Popen(arguments, stdin=source, stdout=sink, stderr=errors)
            for raw in process.stderr if stdout else process.stdout:
                line = raw.decode("utf-8", errors="replace")
                lines.write(line)
                if watch:
                    watch(line)
        if process.wait() != 0:
            tail = log.read_text(encoding="utf-8").splitlines()[-TAIL:]
            self.say("\n".join(tail))
            sys.exit(f"{command[0]} failed with exit code {process.returncode}; its log is {log}.")

    def binarize(
        self, text: Path, splits: Iterable[str], languages: tuple[str, str], merges: int
    ) -> None:
        """Learn BPE on both languages, apply it, and write fairseq's format to OUT/data-bin.

        Args:
            text: a folder of SPLIT.LANGUAGE.
            splits: train, valid and test.
            languages: source and target.
            merges: number of BPE merges; the codes are written to OUT/codes.bpe.
        """
        self.step(f"Sub-words ({merges:,} merges, learned on both languages)")
        both, codes = self.out / "train.both", self.out / "codes.bpe"
        both.write_bytes(b"".join((text / f"train.{lang}").read_bytes() for lang in languages))
        self.run("learn-bpe", ["subword-nmt", "learn-bpe", "-s", merges], both, codes)
        (self.out / "bpe").mkdir()
        for file in [f"{split}.{lang}" for split in splits for lang in languages]:
            self.run(
                f"apply-bpe.{file}",
                ["subword-nmt", "apply-bpe", "-c", codes],
                stdin=text / file,
                stdout=self.out / "bpe" / file,
            )
        self.step("fairseq's binary format")
        bpe = self.out / "bpe"
        prefixes = [item for split in splits for item in (f"--{split}pref", bpe / split)]
        self.run(
            "preprocess",
            ["fairseq-preprocess", "-s", languages[0], "-t", languages[1], "--joined-dictionary"]
            + [*prefixes, "--destdir", self.data_bin, "--workers", 1],
        )

    def prepare(
        self, out: Path, texts: Mapping[str, Sequence[Path]], *options: object, show: bool = False
    ) -> Preparation:
        """Prepare text with ``convs2s prepare``.

        Args:
            out: its output folder.
            texts: split -> a file of each language. Without valid and test, pairs of train are
                held out.
            options: further options of the command.
            show: print what it prints.
        Returns:
            The preparation, whose ``folder`` is OUT.
        """
        files = [item for split, paths in texts.items() for item in (f"--{split}", *paths)]
        self.run(
            out.name,
            ["convs2s", "prepare", *files, "--out", out, "--workers", 1, *options],
            watch=self.echo if show else None,
        )
        return Preparation.read(out)

    def binarize_pairs(
        self, preparation: Preparation, folder: Path, sources: list[str], targets: list[str]
    ) -> None:
        """Binarize other training pairs.

        Args:
            preparation: its dictionaries and its validation set are used.
            folder: for the tokens; the data is in its folder data-bin.
            sources, targets: lines of tokens.
        """
        languages = preparation.source.language, preparation.target.language
        for language, lines in zip(languages, (sources, targets)):
            write_text(folder / f"train.{language}", lines)
        prepared = preparation.folder
        self.run(
            f"{folder.name}.preprocess",
            ["fairseq-preprocess", "-s", languages[0], "-t", languages[1]]
            + ["--srcdict", prepared / f"data-bin/dict.{languages[0]}.txt"]
            + ["--tgtdict", prepared / f"data-bin/dict.{languages[1]}.txt"]
            + ["--trainpref", folder / "train", "--validpref", prepared / "tokens" / "valid"]
            + ["--destdir", folder / "data-bin", "--workers", 1],
        )

    def train(
        self,
        title: str,
        updates: int,
        options: list[object],
        data: Path | None = None,
        name: str = "",
    ) -> Path:
        """Run fairseq-train and print its progress.

        Args:
            title: the model's name, for the progress.
            updates: number of updates.
            options: options of fairseq-train.
            data: folder of the binarized data (default: OUT/data-bin).
            name: suffix of the names of the log and of the folder of the checkpoints.
        Returns:
            The last checkpoint.
        """
        suffix = f".{name}" if name else ""
        folder = self.out / f"checkpoints{suffix}"
        command = ["fairseq-train", data or self.data_bin]
        command += ["--user-dir", USER_DIR, *options, "--max-update", updates, "--save-dir", folder]
        self.run_training(title, command, f"train{suffix}", updates)
        return folder / "checkpoint_last.pt"

    def run_training(
        self, title: str, command: list[object], name: str = "train", updates: int | None = None
    ) -> None:
        """Run a command of fairseq-train and print its progress.

        Args:
            title: the model's name, for the progress.
            command: the command, without options for the device and the log.
            name: name of the log file, without ".log".
            updates: number of updates, if it is known.
        """
        self.step(f"Training {title}")
        self.run(
            name,
            [*command, *device_options(), "--log-format", "json", "--log-interval", LOG_INTERVAL],
            watch=TrainingProgress(self, title, updates),
        )

    def translate(
        self, checkpoint: Path, source: Path, output: Path, *options: object
    ) -> list[str]:
        """Translate a file with ``convs2s translate``.

        Args:
            checkpoint: the model.
            source: the file.
            output: file for the translations.
            options: further options of the command.
        Returns:
            One translation for each line.
        """
        self.run(
            f"translate.{output.name}",
            ["convs2s", "translate", "--path", checkpoint, "--input", source, "--output", output]
            + [*options],
        )
        return read_text(output)

    def bleu(self, reference: Path, translations: Path) -> str:
        """Score translations with sacreBLEU.

        Returns:
            BLEU, with two digits after the point.
        """
        output = self.out / f"{translations.name}.bleu"
        self.run(
            f"sacrebleu.{translations.name}",
            ["sacrebleu", reference, "-i", translations, "-m", "bleu", "-b", "-w", 2, "--force"],
            stdout=output,
        )
        return output.read_text(encoding="utf-8").strip()

    def compare(self, reference: Path, baseline: Path, *others: Path) -> str:
        """Compare translations with a baseline: BLEU and sacreBLEU's paired bootstrap test.

        Returns:
            What sacreBLEU has printed.
        """
        output = self.out / "compare.bleu"
        self.run(
            "sacrebleu.compare",
            ["sacrebleu", reference, "-i", baseline, *others, "-m", "bleu", "-w", 2, "--force"]
            + ["--paired-bs", "--format", "text"],
            stdout=output,
        )
        return output.read_text(encoding="utf-8").strip()

    def parameters(self, name: str) -> str:
        """The number of parameters that fairseq-train has printed in a log."""
        log = (self.logs / f"{name}.log").read_text(encoding="utf-8")
        return re.search(r"num\. shared model params: ([\d,]+)", log)[1]

    def finish(self, **files: Path) -> None:
        """Print the files of the result, and the CPU time of all commands."""
        self.step("Done")
        for name, path in {**files, "logs": self.logs}.items():
            self.say(f"{name:12} {relative_path(path)}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.say(f"{'CPU time':12} {(used.ru_utime + used.ru_stime) / 60:.1f} minutes")

    def generate(self, checkpoint: Path, subset: str, output: Path) -> None:
        """Translate a split with fairseq-generate and beam 5, and write its stdout to a file."""
        self.run(
            output.stem,
            ["fairseq-generate", self.data_bin, "--user-dir", USER_DIR, *device_options()]
            + ["--path", checkpoint, "--gen-subset", subset]
            + ["--beam", 5, "--max-tokens", 4000, "--remove-bpe"],
            stdout=output,
        )


class TrainingProgress:
    """Turns the JSON log of fairseq-train into lines of progress.

    Args:
        recipe: prints the lines.
        title: the model's name.
        updates: number of updates of the whole training, if it is known.
    """

    def __init__(self, recipe: Recipe, title: str, updates: int | None):
        self.recipe = recipe
        self.title = title
        self.of_all = f"/{updates}" if updates else ""
        self.start = time.monotonic()

    def __call__(self, line: str) -> None:
        found = re.search(r"\| (train_inner|valid) \| (\{.*\})", line)
        if found is None:
            return
        kind, stats = found[1], json.loads(found[2])
        if kind == "train_inner":
            seconds = int(time.monotonic() - self.start)
            self.recipe.progress(
                f"  {self.title}  epoch {stats['epoch']}"
                f"  update {stats['num_updates']}{self.of_all}"
                f"  loss {stats['loss']}  ppl {stats['ppl']}"
                f"  {float(stats['wps']):,.0f} tokens/s  {seconds // 60}:{seconds % 60:02}"
            )
        else:
            self.recipe.progress(
                f"  {self.title}  epoch {stats['epoch']} done:"
                f" validation loss {stats['valid_loss']}  ppl {stats['valid_ppl']}"
            )
            if not self.recipe.at_line_start:
                self.recipe.say()


def device_options() -> list[object]:
    """fairseq's options for one GPU, or for the CPU if torch finds no GPU."""
    return ["--distributed-world-size", 1] if torch.cuda.is_available() else ["--cpu"]


def small_model(
    channels: int, encoder_layers: int, decoder_layers: int, decoder_kernel: int = 3
) -> list[object]:
    """fairseq's options for a small ConvS2S model; the kernels of the encoder have 3 tokens."""
    encoder = f"[({channels}, 3)] * {encoder_layers}"
    decoder = f"[({channels}, {decoder_kernel})] * {decoder_layers}"
    return (
        ["--task", "convs2s_translation", "--criterion", "convs2s_cross_entropy"]
        + ["--arch", "convs2s_iwslt_de_en", "--dropout", 0.1, "--label-smoothing", 0.1]
        + ["--encoder-embed-dim", channels, "--encoder-layers", encoder]
        + ["--decoder-embed-dim", channels, "--decoder-layers", decoder]
        + ["--decoder-out-embed-dim", channels]
    )


def optimization(updates: int, lr: float, max_tokens: int, seed: int) -> list[object]:
    """fairseq's options for a training of this length with Adam.

    The learning rate rises for a tenth of the updates, and then falls to 0.
    """
    return (
        ["--optimizer", "adam", "--lr", lr, "--clip-norm", 1.0]
        + ["--lr-scheduler", "polynomial_decay", "--warmup-updates", max(1, updates // 10)]
        + ["--total-num-update", updates, "--max-tokens", max_tokens, "--seed", seed]
        + ["--no-epoch-checkpoints", "--num-workers", 0]
    )


def clear_folder(out: Path) -> None:
    """Empty a folder that a recipe made, or create it; exit if it holds other files."""
    if out.exists():
        if any(out.iterdir()) and not (out / "logs" / MARK).exists():
            sys.exit(
                f"{out} holds other files: give --out a new folder, or one that a recipe made."
            )
        shutil.rmtree(out)
    (out / "logs").mkdir(parents=True)
    (out / "logs" / MARK).touch()


def example_parser(description: str, out: str) -> argparse.ArgumentParser:
    """A parser with the options of every example.

    Args:
        description: the docstring of the example.
        out: default output folder.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--out", type=Path, default=Path(out), help="output folder, emptied first (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the data and of training (%(default)s)"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a few updates on a little data, to see whether everything works",
    )
    return parser


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the examples that take parallel text."""
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        help="source and target text, line by line (default: the corpus of the demo)",
    )


def parallel_text(
    recipe: Recipe, args: argparse.Namespace, pairs: int
) -> tuple[list[Path], list[object]]:
    """The user's files; if there are none, files with the corpus of the demo.

    Args:
        recipe: writes the corpus to OUT/text.
        args: see ``add_text_arguments`` and ``example_parser``.
        pairs: pairs of the demo's corpus; a fiftieth of them with --smoke.
    Returns:
        The files, and options of ``convs2s prepare`` for them.
    """
    if args.files:
        if len(args.files) != 2:
            sys.exit(
                f"There are {len(args.files)} files: give a source and a target file, or none."
            )
        return args.files, []
    sys.path.append(str(Path(__file__).resolve().parent / "demo"))
    from make_corpus import LANGUAGES, make_corpus

    corpus = make_corpus(args.seed, {"corpus": pairs // 50 if args.smoke else pairs})["corpus"]
    files = [
        write_text(recipe.out / "text" / f"corpus.{language}", sentences)
        for language, sentences in zip(LANGUAGES, zip(*corpus))
    ]
    return files, ["--tokenizer", "none"]


def read_text(path: Path) -> list[str]:
    """The lines of a text file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write_text(path: Path, lines: Iterable[str]) -> Path:
    """Write lines to a text file, whose folder is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
