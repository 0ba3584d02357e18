"""``convs2s doctor`` says what is missing and what to do."""

import json
import os
import subprocess
import sys

import pytest

from convs2s import __version__
from tests import ROOT
from tests.support.commands import server

# A module that is not there, and one that is broken.
BROKEN = """
import sys
sys.modules["eflomal"] = None
"""


def doctor(folder, *options):
    """The exit code and the output of the command, with what a folder changes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, "-m", "convs2s", "doctor", *options],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def quick_doctor(folder, *options):
    """The same in a fork of the server, which has imported what is neither missing nor broken."""
    code = f"sys.path.insert(0, {str(folder)!r}); from convs2s.cli import main; sys.exit(main())"
    done = subprocess.run(
        [server().programs / "python", "-c", BROKEN + code, "doctor", *options],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_what_is_missing_or_broken(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    (tmp_path / "matplotlib.py").write_text("raise OSError('no\\nfonts')")
    code, printed = doctor(tmp_path)
    assert code == 0 and f"convs2s {__version__}" in printed
    lines = dict(line.split(": ", 1) for line in printed.split("\n\n")[1].splitlines())
    assert lines["translate, score and the rest"] == "works"
    assert lines["plot, plot-attention (pictures)"] == (
        "matplotlib cannot be imported: no fonts: pip install 'convs2s-plugin[plot]'"
    )
    assert "eflomal is not installed" in lines["lexicon (without --alignments)"]
    code, printed = quick_doctor(tmp_path, "--json")
    assert code == 0 and json.loads(printed)["commands"] == lines


@pytest.mark.parametrize("module", ["torch", "sacrebleu"])
def test_without_what_all_commands_need(tmp_path, module):
    (tmp_path / f"{module}.py").write_text("raise ImportError('libc is too old')")
    code, printed = doctor(tmp_path)
    assert code == 1 and f"{module} cannot be imported: libc is too old" in printed
