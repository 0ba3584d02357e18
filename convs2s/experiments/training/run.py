"""Carry out one training run: its progress in a table, and the average of its last checkpoints."""

import math
import re
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...checkpoints.folders import LAST, saved_checkpoints
from ...common.errors import UserError
from ...common.locks import lock_folder, locked_file, release
from ...common.logs import read_stats
from ...common.output_files import make_folder
from ...common.programs import ProgramFailed, Programs, Stopped
from ...common.progress import show_progress
from ...common.quiet import Shown
from ...common.resuming import check_unchanged
from ...common.signals import not_ignored
from ..checks import find_faults
from ..commands import FIXES, unless_set
from ..records import read_json, write_json
from .request import Request

if TYPE_CHECKING:
    from tqdm.std import tqdm

AVERAGE, LOG, RECORD, COMMANDS = "average.pt", "train.log", "training.json", "commands"
LOCK = "lock"
# The average takes the checkpoints of this last share of a training run.
SHARE = 1 / 8
# Signals that ask for the end.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
COLUMNS = ("epoch", "updates", "  loss", "validation loss", " BLEU", "minutes", "minutes left")


def train(request: Request) -> Path | None:
    """Train, or continue from the last checkpoint, and average the last checkpoints.

    Args:
        request: what to train.
    Returns:
        The average; None if training was interrupted.
    Raises:
        UserError: if the folder has another training run, or fairseq-train fails.
    """
    folder = request.checkpoints
    make_folder(str(folder))
    message = (
        f"Another training run saves its checkpoints in {folder}: wait until it ends, or choose "
        "another folder with --save-dir."
    )
    with locked_file(str(folder / LOCK), message):
        # fairseq-train locks the folder itself.
        release(lock_folder(str(folder), message))
        return _train(request)


def _train(request: Request) -> Path | None:
    """The same, in a folder that no other process uses."""
    folder = request.checkpoints
    seconds = earlier_seconds(request)
    record = {"options": request.settings, "seconds": seconds}
    write_json(folder / RECORD, record)
    (folder / AVERAGE).unlink(missing_ok=True)
    table = Table(request.length().get("max-epoch"), request.minutes, seconds)
    log = folder / LOG
    programs = Programs(folder / COMMANDS)
    interrupts = Interrupts(programs)
    try:
        with interrupts:
            programs.run(request.command(), log, environment=unless_set(FIXES), watch=table.watch)
    except Stopped:
        return None
    except ProgramFailed as error:
        if interrupts.received:
            return None
        reason = error.reason.removesuffix(".")
        raise UserError(f"The training failed: {reason}. Its log is {log}.") from error
    finally:
        table.close()
        write_json(folder / RECORD, {**record, "seconds": table.seconds})
    return _average(folder)


def earlier_seconds(request: Request) -> float:
    """The seconds that the training run in the folder has taken so far.

    Raises:
        UserError: if the folder has checkpoints of another training run.
    """
    folder = request.checkpoints
    if not (folder / "checkpoint_last.pt").exists():
        return 0.0
    advice = "choose another folder with --save-dir, or move it away"
    record = read_json(folder / RECORD)
    if record is None:
        raise UserError(
            f"{folder} has checkpoints of a training run that `convs2s train` did not start: "
            f"{advice}."
        )
    options, seconds = record.get("options"), record.get("seconds")
    if not isinstance(options, dict) or not isinstance(seconds, int | float):
        raise UserError(f"{folder / RECORD} is damaged: {advice}.")
    made = f"{folder} has a training run with --"
    try:
        check_unchanged(_of_model(options), _of_model(request.settings), made, advice)
    except UserError:
        # A misspelled option does not make another training run.
        check_command(request)
        raise
    return float(seconds)


def _of_model(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without those of what a validation prints."""
    return {name: value for name, value in settings.items() if not name.startswith("eval-bleu")}


def check_command(request: Request) -> None:
    """Check the options of a run with fairseq's parser, and build its model without memory.

    Raises:
        UserError: if an option is wrong.
    """
    (faults,) = find_faults([[*map(str, request.command())]], request.data.joined)
    for option, reason in faults:
        raise UserError(f"--{option}: {reason}." if option else f"{reason}.")


class Interrupts:
    """Passes signals that end this program on to fairseq-train, as Ctrl-C; the third ends both.

    Args:
        programs: the running programs.
    """

    def __init__(self, programs: Programs):
        self.programs = programs
        self.received = 0

    def __enter__(self) -> None:
        self.before = {
            number: signal.signal(number, self.forward) for number in not_ignored(SIGNALS)
        }

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def forward(self, number: int, frame: Any) -> None:
        """Handle a signal."""
        self.received += 1
        if self.received > 2:
            raise KeyboardInterrupt
        if self.received == 1:
            print("Saving after this update; Ctrl-C again ends at once.", file=sys.stderr)
        self.programs.interrupt()


def _average(folder: Path) -> Path:
    """Average the last checkpoint and those before it in the last part of the training run."""
    saved = saved_checkpoints(folder)
    total = saved.get(LAST, 0)
    names = [
        name
        for name, updates in sorted(saved.items(), key=lambda item: item[1])
        if re.fullmatch(r"checkpoint\d+\.pt", name) and total * (1 - SHARE) <= updates < total
    ]
    # Only this needs torch.
    from ...checkpoints.averaging import save_average

    path = folder / AVERAGE
    save_average([str(folder / name) for name in (*names, LAST)], str(path))
    return path


@dataclass
class Table:
    """The progress of training on standard error: a row for each validation, in a terminal a bar.

    Attributes:
        epochs, minutes: what ends training, as in ``Request``.
        before: seconds that earlier parts of the training run took.
    """

    epochs: int | None
    minutes: float | None
    before: float
    start: float = field(default_factory=time.monotonic)
    values: dict[str, float] = field(default_factory=dict)
    first_share: float = 0.0
    has_head: bool = False
    bar: "tqdm[Any] | None" = None

    def watch(self, line: str) -> None:
        """Read a line of the log."""
        stats = read_stats(line)
        if stats is None or stats.kind == "epoch" or not Shown.progress:
            return
        if not self.has_head:
            print("  ".join(COLUMNS), file=sys.stderr)
            self.has_head = True
        if stats.kind == "valid":
            self.print_row(stats.values)
            return
        is_first, self.values = not self.values, stats.values
        if is_first and self.before:
            self.first_share = self.share
        if sys.stderr.isatty():
            self.advance()

    @property
    def seconds(self) -> float:
        """Seconds of training, earlier parts included."""
        return self.before + time.monotonic() - self.start

    @property
    def share(self) -> float:
        """The share of the training run that has passed."""
        if self.minutes is not None:
            return min(1.0, self.seconds / (60 * self.minutes))
        assert self.epochs is not None
        # fairseq logs the epochs that have passed, with a fraction, as "update".
        return min(1.0, self.values.get("update", 0.0) / self.epochs)

    @property
    def left(self) -> float:
        """Seconds to the end, estimated from this part of the training run."""
        if self.minutes is not None:
            return max(0.0, 60 * self.minutes - self.seconds)
        done = self.share - self.first_share
        passed = time.monotonic() - self.start
        return passed / done * (1 - self.share) if done > 0 else math.nan

    def advance(self) -> None:
        """Move the bar."""
        updates, share = int(self.values["num_updates"]), self.share
        if self.bar is None:
            self.bar = show_progress(unit="updates", initial=updates)
        self.bar.total = round(updates / share) if share else None
        self.bar.set_postfix_str(f"loss {self.values.get('loss', math.nan):.2f}", refresh=False)
        self.bar.update(updates - self.bar.n)

    def print_row(self, valid: dict[str, float]) -> None:
        """Print the numbers of a validation."""
        if self.values.get("num_updates"):
            # The last logged updates may be a while ago.
            epochs_an_update = self.values.get("update", 0.0) / self.values["num_updates"]
            self.values["update"] = epochs_an_update * valid["num_updates"]
            self.values["num_updates"] = valid["num_updates"]
        row = (
            f"{valid.get('epoch', math.nan):.0f}",
            f"{valid['num_updates']:,.0f}",
            f"{self.values['loss']:.2f}" if "loss" in self.values else "-",
            f"{valid.get('loss', math.nan):.2f}",
            f"{valid['bleu']:.1f}" if "bleu" in valid else "-",
            f"{self.seconds / 60:.1f}",
            f"{self.left / 60:.1f}" if math.isfinite(self.left) else "-",
        )
        line = "  ".join(f"{text:>{len(name)}}" for name, text in zip(COLUMNS, row))
        if self.bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self.bar.write(line, file=sys.stderr)

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.leave = False
            self.bar.close()
