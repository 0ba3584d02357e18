"""Nothing is printed on standard error but what a command has to say itself.

tensorboardX, which fairseq asks for when it is imported, is hidden: not every user has it.
"""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from convs2s.common.programs import find_program
from convs2s.common.quiet import hiding_variable
from tests import ROOT
from tests.support.commands import NEEDS_FAIRSEQ

pytestmark = [NEEDS_FAIRSEQ, pytest.mark.slow]

WITHOUT_TENSORBOARD = """
import sys
sys.modules["tensorboardX"] = sys.modules["torch.utils.tensorboard"] = None
"""
# It reports the scores there.
RERANK = "rerank lists --utility bleu --references prepared/text/test.en --output chosen"
PREPARE = "prepare --train text.de text.en --tokenizer none --out prepared"
TRAIN = (
    "train prepared --max-update 2 --encoder-layers '[(8, 3)]' --decoder-layers '[(8, 3)]' --cpu "
    "--encoder-embed-dim 8 --decoder-embed-dim 8 --decoder-out-embed-dim 8"
)
COMMANDS = [
    "translate --path prepared --input prepared/text/test.de --nbest 2 --output lists",
    "evaluate prepared --source prepared/text/test.de --references prepared/text/test.en",
    RERANK,
    "plot-attention eins --path prepared --output a.png",
    "plot training prepared/checkpoints/train.log --output training.png",
    "quantize prepared/checkpoints/average.pt small.pt",
    "average prepared/checkpoints/checkpoint_last.pt --output average.pt",
    "flops --arch convs2s_iwslt_de_en",
    "flops --arch transformer",
    "train prepared --print",
]
# Importing torch takes most of the time: each command runs in a fork of one new interpreter that
# has imported it, and nothing else. Exit codes are printed, what was said is in files.
FORKS = """
import json, os, sys
import torch._dynamo
for number, arguments in enumerate(json.loads(sys.argv[1])):
    process = os.fork()
    if process == 0:
        os.dup2(os.open(f"said{number}", os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["convs2s", *arguments]
        from convs2s.cli import main
        sys.exit(main(arguments))
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a trained model in ``prepared``, and how commands are run there."""
    folder = tmp_path_factory.mktemp("silence")
    (folder / "sitecustomize.py").write_text(WITHOUT_TENSORBOARD)
    words = "eins zwei drei vier".split()
    lines = [" ".join(words[i // 4**k % 4] for k in range(4)) for i in range(256)]
    for language in ("de", "en"):
        (folder / f"text.{language}").write_text("".join(f"{line}\n" for line in lines))
    return folder


def run(folder, commands):
    """The exit code and standard error of each of some commands of this package."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    environment.pop("PYTHONWARNINGS", None)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, json.dumps([shlex.split(each) for each in commands])],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = [(folder / f"said{number}").read_text("utf-8") for number in range(len(commands))]
    return list(zip(map(int, done.stdout.split()), said, strict=True))


def test_every_command_is_silent(folder):
    prepared, (code, said), *others = run(folder, [PREPARE, TRAIN, *COMMANDS])
    assert prepared == (0, "")
    first, head, *rows = said.splitlines()
    assert code == 0 and "on 232 pairs" in first and head.startswith("epoch")
    assert [row for row in rows if not row.strip()[0].isdigit()] == []
    told = dict(zip(COMMANDS, others, strict=True))
    quiet = {command: (0, "") for command in COMMANDS}
    quiet[RERANK] = told[RERANK]
    assert told == quiet
    log = (folder / "prepared/checkpoints/train.log").read_text("utf-8")
    assert "Warning" not in log
    shared = re.findall("detected shared parameter: (.*) <- (.*)", log)
    embeddings = ("decoder.embed.words.weight", "decoder.output.words.weight")
    assert shared == [("encoder.embed.words.weight", name) for name in embeddings]
    code, scores = told[RERANK]
    assert (code, [line for line in scores.splitlines() if "BLEU" not in line]) == (0, [])


def test_fairseq_train_is_silent_as_the_page_says(tmp_path):
    """With tensorboardX, which the extra ``fairseq`` installs, and the filter of the page."""
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    (filters,) = re.findall(r"^export PYTHONWARNINGS='(.*)'$", page, re.MULTILINE)
    assert filters == hiding_variable(None)
    done = subprocess.run(
        [*find_program("fairseq-train"), "--user-dir", str(ROOT / "convs2s_plugin"), "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": filters},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")


def test_the_plugin_hides_warnings_about_code_of_fairseq(tmp_path):
    command = [sys.executable, "-W", "default", "-c"]
    options = {"cwd": tmp_path, "capture_output": True, "text": True}
    options["env"] = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown, hidden = (
        subprocess.run([*command, f"import {name}"], **options).stderr
        for name in ("fairseq", "convs2s_plugin")
    )
    assert "`torch.jit.script` is deprecated" in shown
    assert "`torch.jit.script` is deprecated" not in hidden
