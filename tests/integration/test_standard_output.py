"""Commands whose standard output is a closed pipe or a full device, and odd names of outputs."""

import os
import subprocess
import sys

import pytest

from convs2s.cli import main as convs2s
from tests import ROOT
from tests.support.commands import server
from tests.support.translation import DATA, FIXTURES, MODELS, text_file

PATH = [sys.executable, "-c", "import sys; from convs2s.cli import main; sys.exit(main())", "path"]


def layers():
    return [server().programs / "convs2s", "adl", "layers"]


def translation(folder):
    return [
        server().programs / "convs2s",
        "translate",
        "--path",
        FIXTURES / f"{MODELS[0]}.pt",
        "--data",
        DATA,
        "--device",
        "cpu",
        "--input",
        text_file(folder, ["eins zwei"]),
    ]


def write_to(output, command):
    """Run a command whose standard output is an open file."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def to_closed_pipe(command):
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    return process.wait(), errors


def test_a_closed_pipe(tmp_path):
    for command in (PATH, layers()):
        assert to_closed_pipe(command) == (0, "")
    code, errors = to_closed_pipe(translation(tmp_path))
    assert code == 0 and "Traceback" not in errors and "error" not in errors


def test_closed_streams(tmp_path):
    """As in services that are started without them."""
    # Programs of the server of the tests take over all three.
    command = [sys.executable, "-m", "convs2s", *map(str, translation(tmp_path)[1:])]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert done.returncode == 0 and done.stdout
    without_input = command[: command.index("--input")]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *without_input], stderr=subprocess.PIPE, cwd=ROOT
    )
    assert done.returncode == 2
    assert b"error: Standard input is closed: give a file with --input." in done.stderr


def test_a_full_device(tmp_path):
    for name, command in (
        ("path", PATH),
        ("adl", layers()),
        ("translate", translation(tmp_path)),
    ):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = write_to(full, command)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == (
            f"convs2s {name}: error: Standard output cannot be written: No space left on device."
        )


def test_missing_parents_are_not_made(tmp_path, capsys):
    for language in ("de", "en"):
        text_file(tmp_path, ["eins"], f"text.{language}")
    text = [str(tmp_path / "text.de"), str(tmp_path / "text.en")]
    out = tmp_path / "missing" / "out"
    experiment = str(ROOT / "examples" / "adl" / "tables.yaml")
    for command in (
        ["prepare", "--train", *text, "--out", str(out)],
        ["experiment", experiment, "--text", str(tmp_path), "--out", str(out)],
    ):
        assert convs2s(command) == 2
        assert f"there is no folder {out.parent}" in capsys.readouterr().err
    assert not out.parent.exists()


@pytest.mark.parametrize("output", ["", "/proc/new", "/dev/full"])
def test_odd_outputs(output, capsys):
    """Each is refused in one sentence; nothing is written."""
    checkpoint = str(FIXTURES / "convs2s.pt")
    for command in (
        ["average", "--inputs", checkpoint, "--output", output],
        ["clean-checkpoint", checkpoint, output],
        ["export-onnx", checkpoint, output, "--data", str(DATA)],
    ):
        assert convs2s(command) == 2
        error = capsys.readouterr().err
        assert "cannot be written" in error or "The name of the output is empty" in error
        assert "enforce" not in error


@pytest.mark.parametrize(
    "command",
    [
        "rerank lists --utility chrf",
        "evaluate modèle=hyp --references hyp",
        "translate --path nöpe.pt",
    ],
)
def test_text_is_utf_8_in_every_locale(command, tmp_path):
    (tmp_path / "hyp").write_text("dög\n", encoding="utf-8")
    (tmp_path / "lists").write_text("S-0\thünd\nH-0\t-0.1\tdög\n", encoding="utf-8")
    done = subprocess.run(
        [*PATH[:-1], *command.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    printed = (done.stdout + done.stderr).decode("utf-8")
    assert done.returncode == (2 if "nöpe" in command else 0) and "Traceback" not in printed
    assert any(word in printed for word in ("dög", "modèle", "nöpe"))
