"""What every step of the demo does: print a command, run it, log it, stop where it fails."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The last lines of a log that a failing command leaves on the screen.
TAIL = 15


class Demo:
    """Runs commands, logs them, and keeps the one line of progress."""

    def __init__(self, out: Path):
        self.out = out
        self.logs = out / "logs"
        self.start = time.monotonic()
        self.fresh_line = True

    def say(self, text: str = "") -> None:
        """Print a line that stays."""
        print(("" if self.fresh_line else "\n") + text, flush=True)
        self.fresh_line = True

    def progress(self, text: str) -> None:
        """Show a line that the next one replaces, where the output is a screen."""
        if sys.stdout.isatty():
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
    ) -> None:
        """Run a command; when it fails, show the end of its log and end the demo.

        Args:
            name: of the log file.
            command: the program, which is looked up beside this interpreter, and its arguments.
            stdin, stdout: files to redirect to.
            watch: is called with every line that goes to the log.
        """
        words = [self.program(str(command[0])), *map(str, command[1:])]
        shown = shlex.join([short(word) for word in words])
        for sign, path in (("<", stdin), (">", stdout)):
            shown += f" {sign} {shlex.quote(short(path))}" if path else ""
        self.say(f"$ {shown}")
        log = self.logs / f"{name}.log"
        with contextlib.ExitStack() as files:
            source = files.enter_context(open(stdin, "rb")) if stdin else subprocess.DEVNULL
            sink = files.enter_context(open(stdout, "wb")) if stdout else subprocess.PIPE
            lines = files.enter_context(open(log, "w", encoding="utf-8"))
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

    def program(self, name: str) -> str:
        """The path of a console script, first of all the one beside this interpreter."""
        beside = str(Path(sys.executable).parent)
        found = shutil.which(name, path=beside) or shutil.which(name)
        if found is None:
            sys.exit(f'There is no {name} here: run `pip install -e ".[fairseq,demo]"` first.')
        return found


def short(path: object) -> str:
    """A path as it can be typed in the current folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return str(path)
