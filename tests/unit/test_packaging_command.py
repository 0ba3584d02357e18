"""The console script: answers that need no torch come without importing it."""

import json
import subprocess
import sys

import pytest

from convs2s import __version__
from convs2s.cli import main
from convs2s.cli.commands import COMMANDS
from tests import ROOT

PLUGIN = ROOT / "convs2s_plugin"

# Runs the console script in a fresh interpreter; then prints its exit code and what is imported.
REPORT = """
import json, sys
from convs2s.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def run_and_report(*arguments):
    """Exit code, standard output, standard error and imported top-level modules of one command."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=PLUGIN.parent,
    )
    *printed, report = done.stdout.splitlines()
    code, modules = json.loads(report)
    return code, "\n".join(printed), done.stderr, set(modules)


@pytest.mark.parametrize(
    "arguments, code, answer",
    [
        (["path"], 0, str(PLUGIN)),
        (["--version"], 0, __version__),
        (["--help"], 0, "usage: convs2s [-h] [--version] COMMAND ..."),
        (["path", "--help"], 0, COMMANDS["path"].help),
        ([], 2, "convs2s: error: the following arguments are required: COMMAND"),
        (["paht"], 2, "invalid choice: 'paht'"),
        (["path", "more"], 2, "convs2s: error: unrecognized arguments: more"),
    ],
)
def test_answers_without_importing_torch_or_fairseq(arguments, code, answer):
    got, output, errors, modules = run_and_report(*arguments)
    assert got == code
    assert answer in (errors if code else output)
    assert not modules & {"torch", "fairseq", "numpy", "convs2s_plugin"}


def test_help_lists_every_command():
    _, output, _, _ = run_and_report("--help")
    text = " ".join(output.split())
    for name, command in COMMANDS.items():
        assert f"{name} {command.help}" in text


def test_other_commands_go_to_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["average", "--help"])
    assert stop.value.code == 0
    assert "--inputs FILE" in capsys.readouterr().out
    assert main(["adl", "explain", "nonsense"]) == 2
    assert capsys.readouterr().err.startswith("convs2s adl: error: ")


def test_only_the_chosen_command_is_imported():
    code = (
        "import sys; from convs2s.cli import main; main(['path']); "
        "print(*sorted(name for name in sys.modules if name.startswith('convs2s.cli.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=PLUGIN.parent
    )
    path, modules = done.stdout.splitlines()
    assert path == str(PLUGIN)
    assert modules == "convs2s.cli.commands convs2s.cli.path"
