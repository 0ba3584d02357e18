"""Check the options of all runs, and build their models, before the first run starts."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from .commands import (
    FIXES,
    USER_DIR,
    Data,
    find_machine,
    training_command,
    translation_command,
    unless_set,
)

if TYPE_CHECKING:
    from .file import Experiment
    from .runs import Run

# Without the current folder, which may have a folder with the name of a package.
CODE = "import sys; sys.path[0] = sys.argv[1]; from convs2s_plugin.checks import main; main()"


def check_options(
    experiment: "Experiment", runs: Sequence["Run"], data: dict[str, Data], smoke: bool
) -> None:
    """Check the options of runs with fairseq's parsers, and build each model without memory.

    Args:
        experiment: the experiment.
        runs: the runs to check.
        data: the data of each data set, which need not be there yet.
        smoke: whether it is a smoke run.
    Raises:
        UserError: listing all errors with their places in the file.
    """
    commands: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        for command in _commands(run, data[run.data_set]):
            commands.setdefault(tuple(map(str, command)), []).append(run)
    faults: dict[str, dict[str, None]] = {}
    found = find_faults([*commands], experiment.data.joined_dictionary)
    for (words, those), reasons in zip(commands.items(), found):
        for option, reason in reasons:
            for run in those:
                place = _place(experiment, run, words[0], option, smoke)
                faults.setdefault(f"{place}: {reason}", {})[run.system.name] = None
    lines = [
        text if text.startswith("systems.") else f"{text} (in {', '.join(names)})"
        for text, names in faults.items()
    ]
    if lines:
        raise UserError("\n".join(["wrong options:", *lines]).replace("\n", "\n  "))


def find_faults(commands: Sequence[Sequence[str]], joined: bool) -> list[list[tuple[Any, str]]]:
    """What ``convs2s_plugin.checks.check`` finds; only its own process imports fairseq."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(USER_DIR.parent)],
        input=json.dumps({"commands": commands, "joined": joined}),
        capture_output=True,
        encoding="utf-8",
        env=os.environ | unless_set(FIXES),
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise UserError(f"The options cannot be checked, because fairseq fails: {reason}")
    found: list[list[tuple[Any, str]]] = json.loads(done.stdout)
    return found


def _commands(run: "Run", data: Data) -> list[list[object]]:
    """The commands of a run; runs that differ only in their seeds have the same commands."""
    run = replace(run, seed=1, start=None)
    machine, path = find_machine(1, dry=True), Path("any")
    # A run that awaits trials has the options of one of them.
    trained = not run.models and not run.awaits
    commands = [training_command(data, machine, run, path)] if trained else []
    searches = [run.with_search(options) for options in run.searches or [{}]]
    return commands + [
        translation_command(data, machine, each, [path], "valid") for each in searches
    ]


def _place(experiment: "Experiment", run: "Run", program: str, option: Any, smoke: bool) -> str:
    """The place of an option in the file; that of all options if it is not in the file."""
    system = run.system
    # A translation has the task of the training run.
    kind = "train" if program == "fairseq-train" or option == "task" else "generate"
    given = getattr(system, kind)
    if kind == "train" and option in run.tried:
        return f"{system.place}.trials.{option}"
    if kind == "generate" and any(option in each for each in run.searches):
        own = "" if system.searches == experiment.searches else f"{system.place}."
        return f"{own}searches.{option}"
    outer = [("smoke.", experiment.smoke), (f"{system.place}.smoke.", system.smoke)] * smoke
    for place, section in [*outer, ("", experiment)]:
        options = getattr(section, kind)
        if option in options and options[option] == given.get(option):
            return f"{place}{kind}.{option}"
    return f"{system.place}.{kind}" + f".{option}" * (option in given)
