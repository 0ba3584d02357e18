"""The commands of the Dockerfile, run one after the other in clean folders instead of containers.

``pip install`` takes all packages from the index, as in an image. The user is the one who runs the
tests.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.repository import copy_repository
from tests.support.translation import LINES, copied

INSTRUCTION = re.compile(r"([A-Z]+) (.+)")


def instructions(text):
    """The stages of a Dockerfile: instructions and their arguments, without comments."""
    stages = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, arguments = INSTRUCTION.fullmatch(line).groups()
            if name == "FROM":
                stages.append([])
            stages[-1].append((name, arguments))
    return stages


class Stage:
    """The files and the environment of one stage, in a folder instead of ``/``."""

    def __init__(self, root, context):
        self.root, self.context = root, context
        self.environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        # How the machine reaches the package index is no part of an image.
        for name, value in os.environ.items():
            if name.startswith(("PIP_", "SSL_", "REQUESTS_", "UV_")) or name.endswith("_proxy"):
                self.environment[name] = value
        self.folder, self.found = root, {}

    def inside(self, text):
        """A text whose absolute paths are those of the folder."""
        return re.sub(
            r"(?<![\w./])/(opt|work|src|tmp)\b", lambda found: f"{self.root}{found[0]}", text
        )

    def do(self, name, arguments, others):
        """Do what an instruction says."""
        if name == "ARG":
            variable = arguments.partition("=")[0]
            # As `--build-arg TORCH_INDEX=` sets it: that index is not the default one.
            self.environment[variable] = ""
        elif name == "ENV":
            for part in shlex.split(arguments):
                variable, _, value = part.partition("=")
                value = self.inside(value).replace("$PATH", self.environment["PATH"])
                self.environment[variable] = value
        elif name == "WORKDIR":
            self.folder = Path(self.inside(arguments))
            self.folder.mkdir(parents=True)
        elif name == "COPY":
            *options, source, target = arguments.split()
            (origin,) = [option.removeprefix("--from=") for option in options] or [None]
            start = others[origin].root / source.lstrip("/") if origin else self.context / source
            place = self.folder if target == "." else Path(self.inside(target))
            shutil.copytree(start, place, symlinks=True, dirs_exist_ok=True)
            if origin:
                _move_environment(place, start)
        elif name == "RUN":
            self.run(["/bin/sh", "-c", self.inside(arguments)])
        else:
            assert name in ("FROM", "USER", "EXPOSE", "ENTRYPOINT", "CMD"), name
            self.found[name] = arguments

    def options(self):
        return {"cwd": self.folder, "env": self.environment}

    def run(self, command):
        """Run a command, which must succeed, and return its standard output."""
        done = subprocess.run(command, capture_output=True, text=True, **self.options())
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


def _move_environment(place, start):
    """Let the programs of a virtual environment, which know its path, find a copy of it."""
    for program in (place / "bin").iterdir():
        if program.is_file() and not program.is_symlink():
            text = program.read_bytes()
            if text.startswith(b"#!"):
                program.write_bytes(text.replace(str(start).encode(), str(place).encode()))


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The last stage, with the files of the checkout and a demo of a few updates."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    version = ".".join(map(str, sys.version_info[:2]))
    if f"FROM python:{version}-slim" not in text:
        pytest.skip(f"the image has another Python than {version}")
    folder = tmp_path_factory.mktemp("image")
    context = folder / "context"
    copy_repository(context)
    demo = context / "examples/demo/run.py"
    recipe = demo.read_text(encoding="utf-8")
    assert "UPDATES = 900" in recipe
    demo.write_text(recipe.replace("UPDATES = 900", "UPDATES = 8"), encoding="utf-8")
    stages = {}
    for number, stage in enumerate(instructions(text)):
        name = stage[0][1].partition(" AS ")[2] or str(number)
        stages[name] = Stage(folder / name, context)
        for instruction in stage:
            stages[name].do(*instruction, stages)
    found = stages[name]
    shutil.rmtree(stages["build"].root)
    assert int(found.found["USER"]) > 0
    assert [json.loads(found.found[name]) for name in ("ENTRYPOINT", "CMD")] == [
        ["convs2s"],
        ["--help"],
    ]
    copied("adl", found.folder / "prepared")
    return found


@pytest.mark.slow
def test_the_commands_of_the_image(image):
    assert "from text to text:" in image.run(["convs2s", "--help"])
    assert "translate and the rest" not in image.run(["convs2s", "doctor"])
    folder = image.folder
    (folder / "new.de").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    command = ["convs2s", "translate", "--path", "prepared", "--input", "new.de"]
    image.run([*command, "--output", "new.en"])
    translations = (folder / "new.en").read_text(encoding="utf-8").splitlines()
    assert len(translations) == len(LINES) and all(translations)

    command = ["convs2s", "serve", "--model", "multi30k-de-en", "--host", "0.0.0.0"]
    command += ["--port", "0"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **image.options())
    try:
        _, _, address = served.stdout.readline().partition("Open ")
        assert address, "the server has not started"
        body = json.dumps({"lines": ["Zwei Hunde rennen."]}).encode()
        request = urllib.request.Request(
            f"{address.split()[0]}translate", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)["translations"]
        served.terminate()
        assert served.wait(60) == 0
    finally:
        served.kill()
    assert [one["text"] for one in found] in (["two dogs are running."], ["two dogs running."])

    printed = image.run(["python", str(image.root / "opt/examples/demo/run.py")])
    assert "BLEU = " in printed and (folder / "demo_out/attention.png").is_file()


def test_the_commands_in_its_comments_are_tested():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    started = re.findall(r"^#   docker run .* convs2s (\S+)", text, re.MULTILINE)
    assert started == ["translate", "serve", "/opt/examples/demo/run.py"]
