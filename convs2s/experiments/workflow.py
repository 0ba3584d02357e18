"""The whole experiment: data, runs, report."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from traceback import format_exception
from types import FrameType

from ..common.errors import UserError
from ..common.installation import missing_fairseq
from ..common.locks import locked_file
from ..common.output_files import make_folder
from ..common.programs import ProgramFailed, Programs, find_program
from ..common.signals import not_ignored
from .checks import check_options
from .choices import TITLES, best_search
from .commands import find_machine
from .data import DataFolders, expected_data, prepare_data
from .file import Experiment
from .progress import Progress
from .results import Workplace, read_result
from .run import Job, measure_speeds
from .runs import Run, all_runs, needs
from .trials import check_optuna

# The exit code of a program that the user ended with Ctrl-C.
INTERRUPTED = 130


@dataclass(frozen=True)
class Request:
    """The part of the command line that does not describe the experiment.

    Attributes:
        out: the output folder.
        file: the experiment file.
        jobs: number of runs at a time.
        systems: names of the systems to run, and to report on; empty for all.
        seeds: the seeds of the runs; empty for all.
        download: download the text.
        report: write the tables from what is finished, and do no more.
        dry_run: check the options, and print the commands.
        smoke: it is a smoke run.
        speed: measure speeds after the runs.
        keep_checkpoints: keep all checkpoints.
        comet: the model of COMET that scores final runs, too; None for none.
        tracker: name of a tracker that records the report; None for none.
    """

    out: Path
    file: Path
    jobs: int = 1
    systems: Sequence[str] = ()
    seeds: Sequence[int] = ()
    download: bool = False
    report: bool = False
    dry_run: bool = False
    smoke: bool = False
    speed: bool = False
    keep_checkpoints: bool = False
    comet: str | None = None
    tracker: str | None = None


def perform(experiment: Experiment, request: Request) -> int:
    """Do all that is missing of an experiment, and write its report.

    Returns:
        The exit code: 1 if a run failed.
    Raises:
        UserError: if the data or the settings are wrong, or another process uses the folder.
    """
    out = request.out.resolve()
    if request.tracker is not None:
        from .trackers import check_tracker

        check_tracker(request.tracker)
    if request.comet is not None:
        # Only these need the packages of scores.
        from ..evaluation.comet import comet

        comet(request.comet, ())
    if request.dry_run:
        return _Experiment(experiment, request, out, Programs(None)).dry_run()
    if request.report and not (out / "runs").is_dir():
        raise UserError(f"{out} has no results of an experiment: choose its folder with --out.")
    make_folder(str(out))
    if request.report:
        text = _Experiment(experiment, request, out, Programs(out / "commands.log")).report([])
        print(text)
        record(request)
        return 0
    with locked(out) as descriptor, termination():
        programs = Programs(out / "commands.log", keep_open=[descriptor])
        try:
            code = _Experiment(experiment, request, out, programs).perform()
            record(request)
            return code
        except ProgramFailed as error:
            print(describe(error), file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            programs.stop()
            print("Stopped. The same command goes on from here.", file=sys.stderr)
            return INTERRUPTED


class _Experiment:
    """An experiment in its folder."""

    def __init__(self, experiment: Experiment, request: Request, out: Path, programs: Programs):
        self.experiment, self.request, self.out = experiment, request, out
        self.programs = programs
        self.print = (lambda text: None) if programs.dry else print
        self.runs = all_runs(experiment)
        self.data_sets = [*experiment.data.sets] or [""]
        self.errors: dict[str, BaseException] = {}
        self.selected = self.select()

    def select(self) -> list[Run]:
        """The runs of the chosen systems and seeds, and those that they need."""
        systems, seeds = self.request.systems or self.experiment.systems, self.request.seeds
        chosen = [
            run
            for run in self.runs
            if run.system.name in systems
            if not seeds or run.trial is not None or run.seed in seeds
        ]
        for run in chosen:
            chosen += [other for other in self.runs if needs(run, other) and other not in chosen]
        return [run for run in self.runs if run in chosen]

    def check(self) -> None:
        """Check the options of the runs that are not finished.

        Raises:
            UserError: if some are wrong, or there is no fairseq to train with.
        """
        folder, settings = self.out / "runs", self.experiment.data
        data = {
            name: expected_data(settings.of(name), DataFolders(self.out, name))
            for name in self.data_sets
        }
        missing = [run for run in self.selected if not (folder / run.name / "result.json").exists()]
        if any(run.is_adaptive for run in missing):
            check_optuna()
        # All data sets have the same options.
        runs = [
            example
            for run in missing
            if run.data_set == self.data_sets[0]
            for example in run.examples()
        ]
        if not runs:
            return
        if missing_fairseq() is not None:
            print("# The options are not checked, because fairseq is not installed.")
            if not self.programs.dry:
                find_program("fairseq-train")
            return
        try:
            check_options(self.experiment, runs, data, self.request.smoke)
        except UserError as error:
            raise UserError(f"{self.request.file}: {error}") from error

    def prepare(self) -> Workplace:
        """Prepare the data and the machine."""
        request, dry, experiment = self.request, self.programs.dry, self.experiment
        data = {
            name: prepare_data(
                experiment.data.of(name),
                DataFolders(self.out, name),
                request.download,
                dry,
                self.print,
            )
            for name in self.data_sets
        }
        return Workplace(
            self.out,
            data,
            find_machine(request.jobs, dry),
            self.programs,
            experiment.metric,
            request.keep_checkpoints,
            request.comet,
        )

    def dry_run(self) -> int:
        """Check the options, and print all commands that would run."""
        self.check()
        self.place = self.prepare()
        for run in self.selected:
            if not self.place.is_done(run):
                print(f"# {run.name}")
                Job(self.place, run, 0, lambda *_: None).carry_out()
        if self.request.speed:
            self.measure_speeds()
        return 0

    def perform(self) -> int:
        """Check the options, do all runs that are missing, and write the report."""
        self.check()
        self.place = self.prepare()
        done = [run.name for run in self.finished_runs()]
        self.progress = Progress(self.selected, done, sys.stdout)
        if done:
            self.progress.say(f"{len(done)} of {len(self.selected)} runs were finished before.")
        skipped = self.carry_out([run for run in self.selected if run.name not in done])
        self.progress.close()
        failed = [*self.errors, *(run.name for run in skipped)]
        code = 1 if failed else 0
        text = self.report(failed)
        if self.request.speed:
            try:
                self.measure_speeds()
                text = self.report(failed)
            except ProgramFailed as error:
                print(describe(error), file=sys.stderr)
                code = 1
        print(f"\n{text}")
        for name, message in self.errors.items():
            print(f"{name} failed: {message}")
        for run in skipped:
            print(f"{run.name} was not started: it needs a run that failed.")
        return code

    def finished_runs(self) -> list[Run]:
        """The runs that are done, and so are those that they need.

        A final run with the options of a trial that is no longer the best is not among them. It
        fails when it is carried out.

        Raises:
            UserError: if the settings of a run have changed.
        """
        found = []
        for run in self.selected:
            completed = self.place.completed(run)
            if completed is None or self.place.is_stale(completed):
                continue
            self.place.check(completed)
            if self.place.result(run.name) is not None:
                found.append(run)
        waiting = {name for run in self.selected if run not in found for name in run.translations}
        found = [run for run in found if run.name not in waiting or self.place.is_done(run)]
        while lost := [
            run
            for run in found
            if any(needs(run, other) and other not in found for other in self.selected)
        ]:
            found = [run for run in found if run not in lost]
        return found

    def carry_out(self, runs: Sequence[Run]) -> list[Run]:
        """Carry out runs in parallel, each after those that it needs, and show the progress.

        Trials come first, and of the runs that are ready the longest one.

        Returns:
            The runs that were not started, because one that they need has failed.
        """
        # A report and a dry run start sooner without.
        from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

        waiting = sorted(runs, key=lambda run: (run.trial is None, -(run.updates or 0)))
        slots = list(range(self.request.jobs))
        running: dict[Future[None], tuple[Run, int]] = {}
        unfinished = list(waiting)
        with ThreadPoolExecutor(len(slots)) as pool:
            try:
                while True:
                    for run in list(waiting):
                        if slots and not any(needs(run, other) for other in unfinished):
                            waiting.remove(run)
                            slot = slots.pop(0)
                            running[pool.submit(self.work, run, slot)] = run, slot
                    if not running:
                        return waiting
                    for future in wait(running, 0.2, FIRST_COMPLETED).done:
                        run, slot = running.pop(future)
                        slots.append(slot)
                        error = future.exception()
                        if error is None:
                            unfinished.remove(run)
                            self.report([*self.errors])
                        else:
                            self.errors[run.name] = error
                            text = f"{run.name} failed: {describe(error)}"
                            self.progress.end(run, text, False)
                    self.progress.draw()
            except BaseException:
                self.programs.stop()
                raise

    def work(self, run: Run, slot: int) -> None:
        """Carry out one run."""
        self.progress.start(run)
        Job(self.place, run, slot, partial(self.progress.step, run)).carry_out()
        result = self.place.result(run.name)
        assert result is not None
        text, metric = "diverged" if result.get("diverged") else "done", self.experiment.metric
        for split in [*result["splits"]][:2]:
            text = f"done: {TITLES[metric]} {result['splits'][split][metric]:.2f} on {split}"
        self.progress.end(run, f"{run.name} {text}", True)

    def measure_speeds(self) -> None:
        """Measure the speeds of the systems that have a finished run and its model."""
        first: dict[str, Run] = {}
        for run in self.selected:
            if run.system.reverse:
                continue
            models = self.place.models(run)
            finished = self.place.result(run.name) and all(path.exists() for path in models)
            if run.trial is None and (self.programs.dry or finished):
                completed = self.place.completed(run) or run
                chosen = best_search(self.place.searches(run), self.experiment.metric)
                first.setdefault(run.system.name, completed.with_search(chosen))
        alone = replace(self.place, machine=find_machine(1, self.programs.dry))
        measure_speeds(alone, [*first.values()], self.print)

    def report(self, failed: Sequence[str]) -> str:
        """Write the tables from all runs that are finished, and return them."""
        # Its packages for tests of significance would delay a dry run.
        from . import report

        folder, experiment = self.out / "runs", self.experiment
        names = [run.name for run in self.runs if run.name not in failed]
        found = {
            name: read_result(folder / name / "result.json", experiment.metric) for name in names
        }
        results = [result for result in found.values() if result is not None]
        chosen = {*(self.request.systems or experiment.systems)}
        missing = [run for run in self.selected if run.system.name in chosen]
        if not self.request.report:
            # The tables keep what was finished before.
            chosen |= {result["system"] for result in results}
        systems = {
            name: each
            for name, each in experiment.systems.items()
            if name in chosen and not each.reverse
        }
        baseline = experiment.baseline if experiment.baseline in systems else None
        return report.write(
            self.out,
            results,
            replace(experiment, systems=systems, baseline=baseline),
            unfinished=[run.name for run in missing if found.get(run.name, 0) is None],
            failed=failed,
        )


def record(request: Request) -> None:
    """Record the report with the tracker, if there is one."""
    if request.tracker is not None:
        # Its packages would delay a dry run.
        from .trackers import track

        print(track(request.tracker, request.out.resolve()))


def describe(error: BaseException) -> str:
    """An error as text: with the end of a log, or with a traceback if no user can correct it."""
    if isinstance(error, ProgramFailed):
        return "\n  ".join([f"{error}", *error.log_end()])
    return str(error) if isinstance(error, UserError) else "".join(format_exception(error))


def locked(out: Path) -> AbstractContextManager[int]:
    """Keep other processes out of the output folder; see ``locked_file``.

    Programs that are started inherit the lock, so that it lasts as long as any of them runs.

    Raises:
        UserError: if another process holds the lock.
    """
    return locked_file(
        str(out / "lock"),
        f"Another `convs2s experiment`, or a program that it started, uses {out}: wait for its "
        "end, or choose another folder with --out.",
    )


@contextmanager
def termination() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, once."""
    numbers = not_ignored((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

    def interrupt(number: int, frame: FrameType | None) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
