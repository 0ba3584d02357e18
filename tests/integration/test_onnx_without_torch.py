"""``examples/onnx/translate.py`` translates as this package does, without torch."""

import subprocess
import sys

import pytest

from convs2s.cli import main as convs2s
from convs2s.translation import Translator, precision
from tests import ROOT
from tests.support.translation import DATA, FIXTURES, LIMIT, LINES

SCRIPT = ROOT / "examples" / "onnx" / "translate.py"
# What is not installed where the script runs.
WITHOUT = """
import runpy, sys
sys.modules.update(dict.fromkeys(("torch", "fairseq", "convs2s", "onnx")))
runpy.run_path(sys.argv.pop(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_8_bits", [False, True])
@pytest.mark.parametrize("model", ["convs2s", "adl", "pervasive", "pervasive_adl"])
def test_the_same_translations(model, in_8_bits, tmp_path, monkeypatch):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    checkpoint = FIXTURES / f"{model}.pt"
    if in_8_bits:
        small = tmp_path / "small.pt"
        assert convs2s(["quantize", str(checkpoint), str(small)]) == 0
        checkpoint = small
        # As where a CPU cannot: graphs compute in single precision.
        monkeypatch.setattr(precision, "is_int8_supported", lambda: False)
    arguments = ["export-onnx", checkpoint, tmp_path / "onnx", "--data", DATA]
    assert convs2s([*map(str, arguments)]) == 0
    lines = [*LINES, "", "neverseen words"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, SCRIPT, tmp_path / "onnx"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
    )
    translator = Translator(checkpoint, data=DATA, device="cpu", raw=True, beam=5)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [each.text for each in translator.translate(lines)]


@pytest.mark.slow
def test_a_line_that_is_too_long(tmp_path):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    folder = tmp_path / "onnx"
    assert (
        convs2s(["export-onnx", f"{FIXTURES / 'convs2s.pt'}", f"{folder}", "--data", f"{DATA}"])
        == 0
    )
    done = subprocess.run(
        [sys.executable, SCRIPT, folder],
        input=f"{'vier ' * LIMIT}\n{'vier ' * (LIMIT + 1)}\n",
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1
    assert done.stderr == f"Line 2 has {LIMIT + 1} tokens; the model takes at most {LIMIT}.\n"
