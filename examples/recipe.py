"""What the recipes share: print a command, run it, log it, stop where it fails."""

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
from importlib.util import find_spec
from pathlib import Path

import torch

USER_DIR = Path(__file__).resolve().parent.parent / "convs2s_plugin"

# The last lines of a log that a failing command leaves on the screen.
TAIL = 15
# After so many updates, fairseq-train logs a line.
LOG_INTERVAL = 20
# The file that shows that a folder was made by a recipe.
MARK = ".recipe"
# What console scripts start, for an interpreter that has none beside it.
MODULES = {
    "convs2s": "convs2s_plugin",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-preprocess": "fairseq_cli.preprocess",
    "fairseq-train": "fairseq_cli.train",
    "subword-nmt": "subword_nmt.subword_nmt",
}


class Recipe:
    """Runs commands, logs them, and keeps the one line of progress.

    Args:
        out: the folder for everything that is made.
        go_on: keep what an earlier run of the recipe left there, which is removed otherwise.

    Attributes:
        data_bin: what is trained on and translated, in fairseq's format.
    """

    def __init__(self, out: Path, go_on: bool = False):
        self.out = out.resolve()
        self.logs = self.out / "logs"
        self.data_bin = self.out / "data-bin"
        if not (go_on and (self.logs / MARK).exists()):
            empty(self.out)
        self.start = time.monotonic()
        self.fresh_line = True

    def say(self, text: str = "") -> None:
        """Print a line that stays."""
        print(("" if self.fresh_line else "\n") + text, flush=True)
        self.fresh_line = True

    def progress(self, text: str) -> None:
        """Show a line that the next one replaces, where the output is a screen."""
        if sys.stdout.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            print(f"\r\033[K{text}", end="", flush=True)
            self.fresh_line = False
        else:
            self.say(text)

    def step(self, title: str) -> None:
        """Announce a step with the time that has passed."""
        seconds = int(time.monotonic() - self.start)
        self.say(f"\n[{seconds // 60}:{seconds % 60:02}] {title}")

    def run(
        self,
        name: str,
        command: list[object],
        stdin: Path | None = None,
        stdout: Path | None = None,
        watch: Callable[[str], None] | None = None,
        append: bool = False,
    ) -> None:
        """Run a command; when it fails, show the end of its log and end the recipe.

        Args:
            name: of the log file.
            command: the program, which is looked up beside this interpreter, and its arguments.
            stdin, stdout: files to redirect to.
            watch: is called with every line that goes to the log.
            append: keep what the log has already.
        """
        words = [*self.program(str(command[0])), *map(str, command[1:])]
        shown = shlex.join([short(word) for word in words])
        for sign, path in (("<", stdin), (">", stdout)):
            shown += f" {sign} {shlex.quote(short(path))}" if path else ""
        self.say(f"$ {shown}")
        log = self.logs / f"{name}.log"
        with contextlib.ExitStack() as files:
            source = files.enter_context(open(stdin, "rb")) if stdin else subprocess.DEVNULL
            sink = files.enter_context(open(stdout, "wb")) if stdout else subprocess.PIPE
            lines = files.enter_context(open(log, "a" if append else "w", encoding="utf-8"))
            # What goes to a file is a result; the log then takes what the program says beside it.
            beside = subprocess.PIPE if stdout else subprocess.STDOUT
            process = subprocess.Popen(words, stdin=source, stdout=sink, stderr=beside)
            for raw in process.stderr if stdout else process.stdout:
                line = raw.decode("utf-8", errors="replace")
                lines.write(line)
                if watch:
                    watch(line)
        if process.wait() != 0:
            tail = log.read_text(encoding="utf-8").splitlines()[-TAIL:]
            self.say("\n".join(tail))
            sys.exit(f"{command[0]} failed with exit code {process.returncode}; its log is {log}.")

    def binarise(
        self, text: Path, splits: Iterable[str], languages: tuple[str, str], merges: int
    ) -> None:
        """Learn BPE on both languages, apply it, and write fairseq's format to OUT/data-bin.

        Args:
            text: folder of SPLIT.LANGUAGE.
            splits: train, valid and test.
            languages: source and target.
            merges: of the BPE codes, OUT/codes.bpe.
        """
        self.step(f"Sub-words ({merges:,} merges, learnt on both languages)")
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
        prefixes = [
            word for split in splits for word in (f"--{split}pref", self.out / "bpe" / split)
        ]
        self.run(
            "preprocess",
            ["fairseq-preprocess", "-s", languages[0], "-t", languages[1], "--joined-dictionary"]
            + [*prefixes, "--destdir", self.data_bin, "--workers", 1],
        )

    def train(
        self, title: str, updates: int, options: list[object], name: str = "checkpoints"
    ) -> None:
        """Run fairseq-train for some updates, with a line of progress.

        It goes on from the last checkpoint where there is one, and so does the log.

        Args:
            title: what is trained.
            updates: how many.
            options: of fairseq-train.
            name: folder of the checkpoints in OUT; the log is named after it.
        """
        self.step(f"Training {title}")
        self.run(
            "train" if name == "checkpoints" else f"train.{Path(name).name}",
            ["fairseq-train", self.data_bin, "--user-dir", USER_DIR, *where(), *options]
            + ["--max-update", updates, "--save-dir", self.out / name]
            + ["--log-format", "json", "--log-interval", LOG_INTERVAL],
            watch=TrainingProgress(self, title, updates),
            append=True,
        )

    def generate(
        self, checkpoint: Path, subset: str, output: Path, options: list[object] = ()
    ) -> None:
        """Translate a split with fairseq-generate, beam 5."""
        self.run(
            output.stem,
            ["fairseq-generate", self.data_bin, "--user-dir", USER_DIR, *where()]
            + ["--path", checkpoint, "--gen-subset", subset, *options]
            + ["--beam", 5, "--max-tokens", 4000, "--remove-bpe"],
            stdout=output,
        )

    def program(self, name: str) -> list[str]:
        """How a program is started: the one beside this interpreter, its module, or any on PATH."""
        beside = shutil.which(name, path=str(Path(sys.executable).parent))
        module = MODULES.get(name)
        if beside is None and module and find_spec(module.partition(".")[0]):
            return [sys.executable, "-m", module]
        found = beside or shutil.which(name)
        if found is None:
            sys.exit(f'There is no {name} here: run `pip install -e ".[fairseq,demo]"` first.')
        return [found]


class TrainingProgress:
    """Turns fairseq-train's JSON log into one line of progress."""

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
                f"  {float(stats['wps']):,.0f} words/s  {seconds // 60}:{seconds % 60:02}"
            )
        else:
            self.recipe.progress(
                f"  {self.title}  epoch {stats['epoch']} done: held-out loss {stats['valid_loss']}"
                f"  ppl {stats['valid_ppl']}"
            )
            if not self.recipe.fresh_line:
                self.recipe.say()


def where() -> list[object]:
    """The options that have fairseq compute on one GPU, or on the CPU where there is none."""
    return ["--distributed-world-size", 1] if torch.cuda.is_available() else ["--cpu"]


def empty(out: Path) -> None:
    """Remove what an earlier recipe left, but nothing that is not a recipe's."""
    if out.exists():
        if any(out.iterdir()) and not (out / "logs" / MARK).exists():
            sys.exit(
                f"{out} holds other files: give --out a new folder, or one that a recipe made."
            )
        shutil.rmtree(out)
    (out / "logs").mkdir(parents=True)
    (out / "logs" / MARK).touch()


def short(path: object) -> str:
    """A path as it can be typed in the current folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return str(path)
