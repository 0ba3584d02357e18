"""Print a command, run it, log its output, and stop if it fails."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from convs2s_plugin.errors import UserError
from convs2s_plugin.programs import find_program, relative_path

USER_DIR = Path(__file__).resolve().parents[2] / "convs2s_plugin"

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

    def train(self, title: str, updates: int, options: list[object]) -> None:
        """Run fairseq-train and print its progress.

        Args:
            title: the model's name, for the progress.
            updates: number of updates.
            options: options of fairseq-train.
        """
        self.step(f"Training {title}")
        self.run(
            "train",
            ["fairseq-train", self.data_bin, "--user-dir", USER_DIR, *device_options(), *options]
            + ["--max-update", updates, "--save-dir", self.out / "checkpoints"]
            + ["--log-format", "json", "--log-interval", LOG_INTERVAL],
            watch=TrainingProgress(self, title, updates),
        )

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
        updates: number of updates of the whole training.
    """

    def __init__(self, recipe: Recipe, title: str, updates: int):
        self.recipe = recipe
        self.title = title
        self.updates = updates
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
                f"  update {stats['num_updates']}/{self.updates}"
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
