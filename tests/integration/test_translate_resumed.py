"""``convs2s translate`` in shards, and with ``--resume`` after it was killed."""

import json
import random
import re
import shutil
import subprocess

import pytest

from tests.support.commands import server
from tests.support.translation import DATA, FIXTURES, SENTENCE, text_file

MODEL = ("--path", FIXTURES / "adl.pt", "--data", DATA, "--device", "cpu", "--raw", "--beam", "2")
# With all files, in small buffers.
OUTPUTS = {"--output": "out", "--report": "report", "--alignment": "alignment"}
BUFFERS = ("--buffer-size", "8", "--workers", "1")
# The exit code of a fork that was killed, see command_server.py
ENDED = 70
# The command, which is killed before or after it has written a file to the disk for the Nth time.
KILLED = """
import os, signal, sys
left = int(sys.argv.pop(1))
fsync = os.fsync
def killing(file):
    global left
    left -= 1
    if left == 0: os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)
    if left == -1: os.kill(os.getpid(), signal.SIGKILL)
os.fsync = killing
from convs2s.cli import main
sys.exit(main())
"""

# The command, whose files may have only some bytes.
SMALL_FILES = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from convs2s.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def lines():
    numbers = random.Random(1)
    words = SENTENCE.split()
    found = [" ".join(numbers.choices(words, k=numbers.randint(0, 2))) for _ in range(200)]
    # Some are split.
    for number in (0, 77, 199):
        found[number] = f"{SENTENCE} {SENTENCE}"
    return found


@pytest.fixture
def folder(tmp_path, lines):
    text_file(tmp_path, lines)
    return tmp_path


def start(folder, *arguments, program=("convs2s",), text=None, **options):
    return subprocess.run(
        [server().programs / program[0], *program[1:], "translate", *map(str, arguments)],
        cwd=folder,
        input=text or "",
        capture_output=True,
        encoding="utf-8",
        **options,
    )


def arguments(outputs=OUTPUTS, name="", source=("--input", "input.de")):
    named = [part for option, path in outputs.items() for part in (option, path + name)]
    return (*MODEL, *source, *named)


def translate(folder, *more, outputs=OUTPUTS, name="", **options):
    """The content of each output; the command must succeed."""
    done = start(folder, *arguments(outputs, name), *more, **options)
    assert done.returncode == 0, done.stderr
    return {path: (folder / (path + name)).read_bytes() for path in outputs.values()}


def error(folder, *given, **options):
    """The sentence of a command that is refused, without its beginning."""
    done = start(folder, *given, **options)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("convs2s translate: error: ")
    return sentence.removeprefix("convs2s translate: error: ")


@pytest.mark.parametrize("more", [(), ("--nbest", "2", "--workers", "2")])
def test_a_translation_that_is_killed_five_times(more, folder):
    whole = translate(folder, *BUFFERS, *more)
    numbers = random.Random(len(more))
    split = "3 line(s) of more than 19 tokens were split.\n"
    folder_files = {each.name for each in folder.iterdir()}
    for _ in range(5):
        program = ("python", "-c", KILLED, str(numbers.randint(2, 16)))
        done = start(folder, *arguments(name=".new"), *BUFFERS, *more, "--resume", program=program)
        assert done.returncode == ENDED, done.stderr
        left = {each.name for each in folder.iterdir()} - folder_files
        assert not left & {f"{path}.new" for path in OUTPUTS.values()}
    assert translate(folder, *BUFFERS, *more, "--resume", name=".new") == whole
    done = start(folder, *arguments(name=".new"), *BUFFERS, *more, "--resume")
    assert (done.returncode, done.stderr) == (0, f"out.new is complete: 200 lines.\n{split}")


@pytest.mark.parametrize("more", [(), ("--nbest", "2")])
def test_shards_are_the_whole(more, folder):
    """Together, with the numbers of lines that the whole has; scores depend on the batch."""
    more = (*more, "--batch-size", "1", "--workers", "1")
    whole = translate(folder, *more)
    found = [
        translate(folder, *more, "--num-shards", 3, "--shard-id", number, name=f".{number}")
        for number in range(3)
    ]
    assert {path: b"".join(each[path] for each in found) for path in whole} == whole
    assert all(each["out"] for each in found)


def test_more_shards_than_lines(tmp_path):
    text_file(tmp_path, ["eins", "", "zwei drei"])
    only = {"--output": "out"}
    whole = translate(tmp_path, outputs=only)
    shards = [
        translate(tmp_path, "--num-shards", 5, "--shard-id", i, outputs=only) for i in range(5)
    ]
    assert b"".join(each["out"] for each in shards) == whole["out"]


def interrupted(folder, *more, source=("--input", "input.de"), text=None):
    """Begin a translation that is killed after some buffers."""
    given = (*arguments({"--output": "out"}, source=source), *BUFFERS, *more, "--resume")
    done = start(folder, *given, program=("python", "-c", KILLED, "9"), text=text)
    assert done.returncode == ENDED, done.stderr
    return given


def test_other_inputs_than_before_are_refused_and_nothing_is_lost(folder, lines):
    shutil.copyfile(FIXTURES / "adl.pt", folder / "model.pt")
    given = interrupted(folder, "--path", "model.pt")
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert 0 < json.loads(before["out.resume"])["position"]["lines"] < len(lines)
    begun = "out was started with "
    assert error(folder, *given, "--beam", "1").startswith(f"{begun}--beam 2, but now it is 1: ")
    assert error(folder, *given, "--scores").startswith(f"{begun}--scores False, but now it is Tr")
    assert error(folder, *given, "--report", "report").startswith(f"{begun}--report False, but")
    shards = ("--num-shards", "2", "--shard-id", "0")
    assert error(folder, *given, *shards).startswith(f"{begun}--num-shards None, but now it is 2")
    assert "give --resume to continue, or remove " in error(folder, *arguments({"--output": "out"}))
    (folder / "model.pt").write_bytes((FIXTURES / "convs2s.pt").read_bytes())
    assert error(folder, *given).startswith(f"{begun}--path SHA-256 ")
    (folder / "model.pt").write_bytes(before["model.pt"])
    text_file(folder, ["other", *lines[1:]])
    other = f"{begun}another text than that of input.de: give the earlier text, or remove "
    assert error(folder, *given).startswith(other)
    text_file(folder, lines[:10])
    assert error(folder, *given).startswith(other)
    (folder / "input.de").write_bytes(before["input.de"])
    after = {each.name: each.read_bytes() for each in folder.iterdir()}
    # What is not in the record would be translated again.
    assert before.pop("out.partial").startswith(partial := after.pop("out.partial"))
    assert after == before and len(partial) == json.loads(after["out.resume"])["sizes"]["--output"]
    assert start(folder, *given).stderr.startswith("out has ")
    assert (folder / "out").read_bytes() == translate(folder, name=".whole")["out"]
    # The beginning is the same, but there is more.
    text_file(folder, [*lines, "zehn"])
    assert error(folder, *given).startswith(other)


def test_standard_input_is_continued(folder, lines):
    text = "".join(f"{line}\n" for line in lines)
    given = interrupted(folder, source=(), text=text)
    assert "another text than that of standard input" in error(folder, *given, text=text[9:])
    done = start(folder, *given, text=text)
    assert done.returncode == 0, done.stderr
    assert (folder / "out").read_bytes() == translate(folder, name=".whole")["out"]


def test_a_full_disk(folder):
    """The next start goes on after what was written."""
    given = (*arguments({"--output": "out"}), "--nbest", "2", *BUFFERS, "--resume")
    assert (
        error(folder, *given, program=("python", "-c", SMALL_FILES))
        == "out cannot be written: File too large."
    )
    assert start(folder, *given).stderr.startswith("out has ")
    whole = translate(folder, *BUFFERS, "--nbest", 2, outputs={"--output": "whole"})
    assert (folder / "out").read_bytes() == whole["whole"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--resume", "--resume continues a file: give --output."),
        ("--resume --output no/out", "no/out cannot be written: there is no folder no."),
        ("--resume --output out --report out.resume", "--resume is .*out.resume, which --report"),
        ("--resume --output out --line-by-line", "--resume continues after whole buffers of lines"),
        ("--num-shards 2", "--num-shards and --shard-id go together: give both, or neither."),
        ("--shard-id 0", "--num-shards and --shard-id go together: give both, or neither."),
        ("--num-shards 0 --shard-id 0", "--num-shards is 0: it must be at least 1."),
        ("--num-shards 2 --shard-id -1", "--shard-id is -1: it must be at least 0."),
        ("--num-shards 2 --shard-id 2", "--shard-id is 2, but must be less than --num-shards, 2:"),
        ("--num-shards 2 --shard-id x", "argument --shard-id: invalid int value: 'x'"),
    ],
)
def test_options_that_do_not_fit(given, message, folder):
    found = error(folder, *MODEL, "--input", "input.de", *given.split())
    assert re.match(message, found), found
    assert [each.name for each in folder.iterdir()] == ["input.de"]


def test_shards_of_standard_input(folder):
    shards = ("--num-shards", "2", "--shard-id", "1")
    assert error(folder, *MODEL, *shards, text="eins\n").startswith("--num-shards needs a file: ")
