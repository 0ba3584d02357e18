"""The whole experiment: data, runs, report."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import UserError, nearest
from ..common.installation import missing_fairseq
from ..common.locks import Locked
from ..common.output_files import make_folder
from ..common.programs import ProgramFailed, Programs, find_program
from ..common.signals import ended_by_signals
from .checks import check_options
from .choices import best_search
from .commands import Data, Machine, find_machine
from .data import DataFolders, expected_data, prepare_data
from .file import Experiment
from .progress import Progress
from .results import Workplace, read_result
from .run import Job, measure_speeds
from .runs import Run, all_runs, needs
from .trials import check_optuna

if TYPE_CHECKING:
    from .schedule import Schedule

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
        download: whether to download the text.
        report: whether only to write the tables from what is finished.
        list: whether only to print the runs and their states.
        json: whether to print them as JSON.
        only: name of the only run to carry out; None for all.
        dry_run: whether only to check the options and print the commands.
        smoke: whether it is a smoke run.
        speed: whether to measure speeds after the runs.
        keep_checkpoints: whether to keep all checkpoints.
        job: the command that does one run in a job of Slurm, without the name of the run; None to
            submit no jobs.
        slurm: options of sbatch for these jobs, as KEY=VALUE.
        comet: the model of COMET that also scores final runs; None for none.
        tracker: name of a tracker that records the report; None for none.
    """

    out: Path
    file: Path
    jobs: int = 1
    systems: Sequence[str] = ()
    seeds: Sequence[int] = ()
    download: bool = False
    report: bool = False
    list: bool = False
    json: bool = False
    only: str | None = None
    dry_run: bool = False
    smoke: bool = False
    speed: bool = False
    keep_checkpoints: bool = False
    job: Sequence[str] | None = None
    slurm: Sequence[str] = ()
    comet: str | None = None
    tracker: str | None = None


def perform(experiment: Experiment, request: Request) -> int:
    """Do everything that is missing from an experiment, and write its report.

    Returns:
        The exit code: 1 if a run failed.
    Raises:
        UserError: if the data or the settings are wrong, or another process carries out the only
            run.
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
    if request.speed and (request.list or request.report):
        what = "list" if request.list else "report"
        raise UserError(f"--speed measures after training, and --{what} trains nothing: omit one.")
    if request.list:
        # Other commands start faster without it.
        from .states import show_runs

        whole = _Experiment(experiment, request, out, Programs(None))
        show_runs(whole.place, whole.selected, whole.finished_runs(), request.json)
        return 0
    if request.report and not (out / "runs").is_dir():
        raise UserError(f"{out} has no results of an experiment: choose its folder with --out.")
    make_folder(str(out))
    programs = Programs(out / "commands.log")
    whole = _Experiment(experiment, request, out, programs)
    if request.report:
        whole.check_results(run for run in whole.runs if run.system.name in whole.reported)
        print(whole.report([]))
        record(request)
        return 0
    if request.job is not None:
        whole.submit(request.job)
        return 0
    with ended_by_signals(programs.interrupt):
        try:
            if request.only is not None:
                return whole.perform_one(request.only)
            code = whole.perform()
            record(request)
            return code
        except KeyboardInterrupt:
            programs.stop()
            print("Stopped. The same command continues from here.", file=sys.stderr)
            return INTERRUPTED


class _Experiment:
    """An experiment in its folder."""

    def __init__(self, experiment: Experiment, request: Request, out: Path, programs: Programs):
        self.experiment, self.request, self.out = experiment, request, out
        self.programs = programs
        self.print = (lambda text: None) if programs.dry else print
        self.runs = all_runs(experiment)
        self.data_sets = [*experiment.data.sets] or [""]
        self.selected = self.select()
        # ``prepare`` adds the data and the machine.
        nowhere, kept = Machine("", (), ()), request.keep_checkpoints
        self.place = Workplace(out, {}, nowhere, programs, experiment.metric, kept, request.comet)

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

    def check(self, selected: Sequence[Run]) -> None:
        """Check the options of those of the selected runs that are not finished.

        Raises:
            UserError: if some are wrong, or there is no fairseq to train with.
        """
        folder, settings = self.out / "runs", self.experiment.data
        data = {
            name: expected_data(settings.of(name), DataFolders(self.out, name))
            for name in self.data_sets
        }
        missing = [run for run in selected if not (folder / run.name / "result.json").exists()]
        if any(run.is_adaptive for run in missing):
            check_optuna()
        # All data sets have the same options.
        runs = [
            example
            for run in missing
            if run.data_set == selected[0].data_set
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

    def prepare(self, selected: Sequence[Run]) -> None:
        """Prepare the machine and the data of the selected runs, or wait for another process."""
        request, dry = self.request, self.programs.dry
        if dry:
            data = self.prepare_data(selected)
        else:
            what = f"The data in {self.out}"
            try:
                with self.place.lock("data", what):
                    data = self.prepare_data(selected)
            except Locked as error:
                self.print(str(error).replace("wait until it ends", "this command waits"))
                with self.place.lock("data", what, wait=True):
                    data = self.prepare_data(selected)
        missing = [run for run in selected if not self.place.is_done(run)]
        machine = find_machine(request.jobs, dry, most_gpus(missing))
        self.place = replace(self.place, data=data, machine=machine)

    def prepare_data(self, selected: Sequence[Run]) -> dict[str, Data]:
        """Prepare the data sets of the selected runs."""
        return {
            name: prepare_data(
                self.experiment.data.of(name),
                DataFolders(self.out, name),
                self.request.download,
                self.programs.dry,
                self.print,
            )
            for name in dict.fromkeys(run.data_set for run in selected)
        }

    def dry_run(self) -> int:
        """Check the options, and print all commands that would run."""
        self.check_results(self.others)
        self.check(self.selected)
        self.prepare(self.selected)
        for run in self.selected:
            if not self.place.is_done(run):
                print(f"# {run.name}")
                Job(self.place, run, 0, lambda *_: None).carry_out()
        if self.request.speed:
            self.measure_speeds()
        return 0

    def perform(self) -> int:
        """Check the options, do all runs that are missing, and write the report."""
        from .schedule import describe

        self.check_results(self.others)
        self.check(self.selected)
        self.prepare(self.selected)
        done = [run.name for run in self.finished_runs()]
        schedule = self.schedule(self.selected, done)
        if done:
            schedule.progress.say(f"{len(done)} of {len(self.selected)} runs were finished before.")
        skipped = schedule.carry_out([run for run in self.selected if run.name not in done])
        schedule.progress.close()
        failed = [*schedule.errors, *(run.name for run in skipped)]
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
        for name, message in schedule.errors.items():
            print(f"{name} failed: {message}")
        for run in skipped:
            print(f"{run.name} was not started: it needs a run that failed.")
        return code

    def perform_one(self, name: str) -> int:
        """Do one run, and write the report if it was the last one.

        Raises:
            UserError: if there is no such run, or one that it needs is not done.
        """
        known = {run.name: run for run in self.selected}
        if name not in known:
            raise UserError(
                f"--run is {name}, which is not a run of {self.request.file}"
                f"{nearest(name, known)}: --list shows them."
            )
        self.check_results(self.others)
        run, done = known[name], self.finished_runs()
        missing = [each.name for each in self.selected if needs(run, each) and each not in done]
        if missing:
            raise UserError(
                f"The run {name} needs {', '.join(missing)}, which must be done first: --list "
                "shows their states."
            )
        if run in done:
            print(f"The run {name} was finished before.")
        else:
            self.check([run])
            self.prepare([run])
            schedule = self.schedule([run], [])
            schedule.waits, schedule.report = False, lambda _: None
            schedule.carry_out([run])
            schedule.progress.close()
            if schedule.errors:
                return 1
            done = self.finished_runs()
        print(f"{len(done)} of {len(self.selected)} runs are done.")
        if len(done) == len(self.selected):
            print(f"\n{self.report([])}")
            record(self.request)
        return 0

    def submit(self, job: Sequence[str]) -> None:
        """Check the options, and submit the runs that are missing as jobs of Slurm."""
        # Other commands need no submitit.
        from .slurm import read_options, submit

        options = read_options(self.request.slurm)
        self.check_results(self.others)
        self.check(self.selected)
        submit(self.selected, self.finished_runs(), job, self.out, options)

    def schedule(self, runs: Sequence[Run], done: Sequence[str]) -> "Schedule":
        """What carries out runs, some of which were done before."""
        # It imports what starts threads, which would delay a report and a dry run.
        from .schedule import Schedule

        progress = Progress(runs, done, sys.stdout)
        return Schedule(self.place, progress, self.request.jobs, self.report)

    def finished_runs(self) -> list[Run]:
        """The runs that are done, together with those that they need.

        A final run with the options of a trial that is no longer the best is not among them. It
        fails when it is carried out.

        Raises:
            UserError: if the settings of a run have changed.
        """
        found = [
            run
            for run in self.selected
            if self.has_its_settings(run) and self.place.result(run.name) is not None
        ]
        waiting = {name for run in self.selected if run not in found for name in run.teachers}
        found = [run for run in found if run.name not in waiting or self.place.is_done(run)]
        while lost := [
            run
            for run in found
            if any(needs(run, other) and other not in found for other in self.selected)
        ]:
            found = [run for run in found if run not in lost]
        return found

    def has_its_settings(self, run: Run) -> bool:
        """Whether a run can have started with its settings, and with no others.

        Returns:
            False if it waits for trials, or started when another trial was the best.
        Raises:
            UserError: if it started with other settings.
        """
        completed = self.place.completed(run)
        if completed is None or self.place.is_stale(completed):
            return False
        self.place.check(completed)
        return True

    def is_outdated(self, run: Run) -> bool:
        """Whether a run started with other settings, or was made from runs that had some."""
        try:
            self.has_its_settings(run)
        except UserError:
            return True
        return False

    def check_results(self, runs: Iterable[Run]) -> None:
        """Check the settings of those runs that are finished, and so enter the tables.

        Raises:
            UserError: if those of one have changed.
        """
        for run in runs:
            if self.place.result(run.name) is not None:
                self.has_its_settings(run)

    @property
    def others(self) -> list[Run]:
        """The runs that are not selected; the tables keep what was finished of them."""
        selected = {run.name for run in self.selected}
        return [run for run in self.runs if run.name not in selected]

    @property
    def reported(self) -> Sequence[str]:
        """The names of the systems to report on."""
        return self.request.systems or [*self.experiment.systems]

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
        machine = find_machine(1, self.programs.dry, most_gpus([*first.values()]))
        alone = replace(self.place, machine=machine)
        if self.programs.dry:
            measure_speeds(alone, [*first.values()], self.print)
            return
        with self.place.lock("speed", f"The measurement of speeds in {self.out}"):
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
        for run in self.runs:
            # What it was made from may have been trained again since this command began.
            if run.used and found.get(run.name) is not None and self.is_outdated(run):
                found[run.name] = None
        results = [result for result in found.values() if result is not None]
        chosen = {*self.reported}
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
        with self.place.lock("report", f"The report in {self.out}", wait=True):
            return report.write(
                self.out,
                results,
                replace(experiment, systems=systems, baseline=baseline),
                unfinished=[run.name for run in missing if found.get(run.name, 0) is None],
                failed=failed,
            )


def most_gpus(runs: Sequence[Run]) -> int:
    """The largest number of GPUs of a run on one machine."""
    return max((run.system.gpus for run in runs), default=1)


def record(request: Request) -> None:
    """Record the report with the tracker, if there is one."""
    if request.tracker is not None:
        # Its packages would delay a dry run.
        from .trackers import track

        print(track(request.tracker, request.out.resolve()))
