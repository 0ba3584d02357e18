"""Carry out the runs of an experiment in parallel, each after those that it needs."""

from collections.abc import Callable, Sequence
from threading import Condition, Thread

from ..common.programs import Stopped
from .runs import Run


class Schedule:
    """Carries out runs in a number of slots.

    Trials come first, and of the runs that are ready the longest one.

    Args:
        runs: the runs that are not done.
        work: carries out a run in a slot; raises an exception if it fails.
        on_error: called with a run and its exception; other runs go on.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        work: Callable[[Run, int], None],
        on_error: Callable[[Run, Exception], None],
    ):
        self.waiting = sorted(runs, key=lambda run: (run.trial is None, -(run.updates or 0)))
        self.work = work
        self.on_error = on_error
        self.running: list[Run] = []
        self.failed: list[Run] = []
        self.skipped: list[Run] = []
        self.changed = Condition()
        self.threads: list[Thread] = []

    def start(self, jobs: int) -> None:
        """Start one thread for each slot."""
        for slot in range(jobs):
            self.threads.append(Thread(target=self.fill, args=(slot,), daemon=True))
            self.threads[-1].start()

    @property
    def active(self) -> bool:
        """Some runs are not finished."""
        return any(thread.is_alive() for thread in self.threads)

    def wait(self, seconds: float) -> None:
        """Wait until a run ends, at most for some seconds."""
        with self.changed:
            self.changed.wait(seconds)

    def stop(self) -> None:
        """Start no more runs."""
        with self.changed:
            self.waiting.clear()
            self.changed.notify_all()

    def join(self) -> None:
        """Wait until all runs have ended."""
        for thread in self.threads:
            thread.join()

    def fill(self, slot: int) -> None:
        """Carry out runs in one slot until none is left."""
        while (run := self.next()) is not None:
            try:
                self.work(run, slot)
            except Stopped:
                pass
            except Exception as error:
                with self.changed:
                    self.failed.append(run)
                self.on_error(run, error)
            finally:
                with self.changed:
                    self.running.remove(run)
                    self.changed.notify_all()

    def next(self) -> Run | None:
        """Wait for a run that is ready; None if no run is left."""
        with self.changed:
            while self.waiting:
                self.skip_impossible()
                for run in self.waiting:
                    if not any(needs(run, other) for other in [*self.waiting, *self.running]):
                        self.waiting.remove(run)
                        self.running.append(run)
                        return run
                if self.waiting:
                    self.changed.wait()
            return None

    def skip_impossible(self) -> None:
        """Give up runs that need one that failed, and those that need these."""
        lost = [*self.failed, *self.skipped]
        while impossible := [
            run for run in self.waiting if any(needs(run, other) for other in lost)
        ]:
            for run in impossible:
                self.waiting.remove(run)
            self.skipped += impossible
            lost = impossible
            self.changed.notify_all()


def needs(run: Run, other: Run) -> bool:
    """``run`` cannot start before ``other`` is done."""
    return other.name in run.awaits or other.name == run.start
