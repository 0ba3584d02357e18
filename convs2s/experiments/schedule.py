"""Carry out runs on this machine, several at a time, alongside other commands and machines."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from traceback import format_exception

from ..common.errors import UserError, WorkInterrupted
from ..common.locks import LEASE, Locked
from ..common.programs import ProgramFailed, Stopped
from .choices import TITLES
from .progress import Progress
from .results import Workplace
from .run import Job
from .runs import Run, needs

# Seconds within which a signal that a scheduler sends to all processes of a job reaches this one.
SIGNALED = 0.5


@dataclass
class Schedule:
    """Runs that are carried out.

    Attributes:
        place: the folders of all runs.
        progress: shows their progress.
        jobs: number of runs at a time.
        report: called after each run that is done, with the names of those that failed.
        waits: whether to wait for runs that other processes carry out.
        errors: name of each run that has failed -> why.
        elsewhere: names of the runs that other processes carry out.
    """

    place: Workplace
    progress: Progress
    jobs: int
    report: Callable[[list[str]], object]
    waits: bool = True
    errors: dict[str, BaseException] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)

    def carry_out(self, runs: Sequence[Run]) -> list[Run]:
        """Carry out runs in parallel, each after those that it needs, and show the progress.

        Trials come first; of the runs that are ready, the longest one does.

        Returns:
            The runs that were not started, because one that they need has failed.
        Raises:
            KeyboardInterrupt: if the programs were interrupted.
            Locked: if another process carries out a run, and ``waits`` is false.
            WorkInterrupted: if the lock of a run is lost.
        """
        waiting = sorted(runs, key=lambda run: (run.trial is None, -(run.updates or 0)))
        programs, slots = self.place.programs, list(range(self.jobs))
        running: dict[Future[bool], tuple[Run, int]] = {}
        unfinished = list(waiting)
        with ThreadPoolExecutor(len(slots)) as pool:
            try:
                while True:
                    for run in list(waiting):
                        if not slots or programs.interrupted:
                            break
                        if not any(needs(run, other) for other in unfinished):
                            waiting.remove(run)
                            slot = slots.pop(0)
                            running[pool.submit(self.work, run, slot)] = run, slot
                    if not running:
                        if programs.interrupted and unfinished:
                            raise KeyboardInterrupt
                        return waiting
                    for future in wait(running, 0.2, FIRST_COMPLETED).done:
                        run, slot = running.pop(future)
                        slots.append(slot)
                        error = future.exception()
                        if isinstance(error, Stopped):
                            if programs.interrupted:
                                continue
                            raise WorkInterrupted(
                                f"The lock of {run.name} is gone: its file was removed, or another "
                                f"machine has seen no sign of life for {LEASE:g} seconds. Start "
                                "the same command again."
                            )
                        if isinstance(error, Locked) and not self.waits:
                            raise error
                        if error is not None:
                            self.errors[run.name] = error
                            text = f"{run.name} failed: {describe(error)}"
                            self.progress.end(run, text, False)
                        elif future.result():
                            unfinished.remove(run)
                            self.report([*self.errors])
                        else:
                            # Another process holds it: the others come first.
                            waiting.append(run)
                    self.progress.draw()
            except BaseException:
                programs.stop()
                raise

    def work(self, run: Run, slot: int) -> bool:
        """Carry out one run.

        Returns:
            False if another process does.
        Raises:
            Stopped: if all programs were interrupted or stopped.
        """
        with ExitStack() as stack:
            try:
                held = stack.enter_context(self.place.lock_of(run))
            except Locked as error:
                if not self.waits:
                    raise
                if run.name not in self.elsewhere:
                    self.elsewhere.add(run.name)
                    self.progress.say(str(error).replace(": wait until it ends", ""))
                return False
            failure = self.place.failure(run.name)
            if run.name in self.elsewhere and failure is not None:
                raise UserError(failure)
            if not self.place.is_done(run):
                self.place.forget_failure(run.name)
                self.progress.start(run)
            self.carry_out_one(run, slot, held)
        result = self.place.result(run.name)
        assert result is not None
        text, metric = "diverged" if result.get("diverged") else "done", self.place.metric
        for split in [*result["splits"]][:2]:
            text = f"done: {TITLES[metric]} {result['splits'][split][metric]:.2f} on {split}"
        self.progress.end(run, f"{run.name} {text}", True)
        return True

    def carry_out_one(self, run: Run, slot: int, held: int) -> None:
        """Carry out a run whose lock is held, and record why if it fails."""
        programs = self.place.programs
        try:
            Job(self.place, run, slot, partial(self.progress.step, run), held).carry_out()
        except Exception as error:
            if isinstance(error, ProgramFailed):
                time.sleep(SIGNALED)
            if programs.interrupted or programs.stopped:
                raise Stopped from error
            # The disk may be full.
            with suppress(OSError, UserError):
                self.place.note_failure(run.name, describe(error))
            raise


def describe(error: BaseException) -> str:
    """An error as text: with the end of a log, or with a traceback if no user can correct it."""
    if isinstance(error, ProgramFailed):
        return "\n  ".join([f"{error}", *error.log_end()])
    of_user = isinstance(error, UserError | OSError)
    return str(error) if of_user else "".join(format_exception(error))
