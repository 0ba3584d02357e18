"""Run commands, log their output, print progress, and stop if one fails."""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from convs2s.common.errors import UserError
from convs2s.common.programs import ProgramFailed, Programs, command_line, relative_path
from convs2s.common.signals import exit_on_signals
from convs2s.common.tables import markdown_table

# A file in OUT/logs that marks a folder made by a recipe.
MARK = ".recipe"


class Runner:
    """Runs and logs commands, and prints progress.

    Args:
        out: the output folder. If a recipe made it before, its content is removed.
    """

    def __init__(self, out: Path):
        self.out = out.resolve()
        self.logs = self.out / "logs"
        clear_folder(self.out)
        self.programs = Programs(self.logs / "commands.log")
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
        self.say(markdown_table([*map(str, header)], [[*map(str, row)] for row in rows]))

    def step(self, title: str) -> None:
        """Print the title of a step and the time since the start."""
        seconds = int(time.monotonic() - self.start)
        self.say(f"\n[{seconds // 60}:{seconds % 60:02}] {title}")

    def run(
        self,
        name: str,
        command: list[object],
        stdout: Path | None = None,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """Run a command and log its output; if it fails, print the end of the log and exit.

        Args:
            name: name of the log file, without ".log".
            command: the program and its arguments; see ``programs.find_program``.
            stdout: file to redirect stdout to.
            watch: called with every line of the log.
        """
        self.say(f"$ {command_line(command, stdout)}")
        try:
            # A program in a process group of its own would otherwise outlive the recipe.
            with exit_on_signals():
                self.programs.run(command, self.logs / f"{name}.log", stdout, watch=watch)
        except KeyboardInterrupt:
            sys.exit(130)
        except ProgramFailed as error:
            self.say("\n".join(error.log_end()))
            sys.exit(f"{error}.")
        except UserError as error:
            sys.exit(str(error))

    def finish(self, **files: Path) -> None:
        """Print the files of the result, and the CPU time of all commands."""
        self.step("Done")
        for name, path in {**files, "logs": self.logs}.items():
            self.say(f"{name:12} {relative_path(path)}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.say(f"{'CPU time':12} {(used.ru_utime + used.ru_stime) / 60:.1f} minutes")


def clear_folder(out: Path) -> None:
    """Empty a folder that a recipe made, or create it; exit if it holds other files."""
    logs = out / "logs"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not (logs / MARK).exists():
            sys.exit(
                f"{out} holds other files: give --out a new folder, or one that a recipe made."
            )
        # The folder itself stays, which may be the current one. The mark is removed last, so that
        # the rest can be removed after an interruption.
        for path in sorted(out.iterdir(), key=logs.__eq__):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        logs.mkdir()
        (logs / MARK).touch()
    except OSError as error:
        sys.exit(f"{out} cannot be written: {error.strerror or error}. Give --out another folder.")
