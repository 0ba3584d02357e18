"""``convs2s adl`` starts at once: it imports neither torch nor fairseq nor numpy."""

import json
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import json, pathlib, re, sys, time
from convs2s.cli import main

assert main(["adl", *json.loads(sys.argv[1])]) == 0
status = pathlib.Path("/proc/self/status").read_text()
kilobytes = int(re.search(r"VmHWM:\\s+(\\d+)", status)[1])
heavy = {"torch", "fairseq", "numpy", "omegaconf"} & set(sys.modules)
print(json.dumps([sorted(heavy), time.process_time(), kilobytes]))
"""


def run(*arguments):
    """The output of ``convs2s adl`` in a new interpreter, and the last line of PROGRAM."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([str(argument) for argument in arguments])],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    return "\n".join(lines), *json.loads(last)


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "adl_transformer_wmt"),
        (
            "explain",
            "pos -> res_nd(birnn)",
            "concat(rnn(lngru), mlp_att) -> linear -> highway(qrnn)",
        ),
        ("explain", "cnn->linear", "mh_dot_att", "--dialect", "sockeye", "--json"),
        ("import", "*-*-*-"),
        ("list",),
        ("layers",),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_little_is_imported(arguments):
    output, heavy, seconds, kilobytes = run(*arguments)
    assert output and heavy == []
    assert seconds < 0.4 and kilobytes < 80_000


def test_drawing_imports_little(tmp_path):
    output, heavy, seconds, kilobytes = run("draw", "adl_transformer", "-o", tmp_path / "model.svg")
    assert output == str(tmp_path / "model.svg") and heavy == []
    assert seconds < 0.4 and kilobytes < 80_000


def test_layers_of_a_user_that_need_no_torch(tmp_path):
    folder = tmp_path / "light_layers"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from convs2s.models.adl import POSITION, register_layer\n"
        "@register_layer('mine', 'nothing much', reach=POSITION, parameters=7)\n"
        "class Mine: pass\n"
    )
    output, heavy, *_ = run("explain", "mine", "mlp_att", "--user-dir", folder)
    assert ["mine", "S", "x", "512", "7"] in [line.split() for line in output.splitlines()]
    assert heavy == []
