"""``convs2s prepare`` in parts: shards and runs that are killed give the files of a single run."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from convs2s.cli import main
from convs2s.common.locks import shared_lock
from convs2s.text import parts, pipeline, selection
from tests import ROOT
from tests.support.preparing import files, make_pairs, write_pairs

# The command with parts of so many lines, files of at most so many bytes, and a pause of so many
# seconds in each part.
SMALL = """
import resource, sys, time
from convs2s.cli import main
from convs2s.text import parts
parts.LINES = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
check = parts.check_count
parts.check_count = lambda *given: time.sleep(float(sys.argv[3])) or check(*given)
raise SystemExit(main(["prepare", *sys.argv[4:]]))
"""
NO_LIMIT = -1
LINES = 60
# Pairs of the first part that occur in the fourth and in the last one, and bad pairs.
TRAIN = make_pairs(300)
TRAIN += [*TRAIN[:50], ("", "x"), ("a", "b c d e f"), *make_pairs(90, seed=2), *TRAIN[20:60]]
VALID = [*make_pairs(9, seed=2), ("", ""), *make_pairs(70, seed=3)]
OPTIONS = ("--tokenizer", "none", "--bpe-size", 60)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "LINES", LINES)
    monkeypatch.setattr(selection, "SORTED", 100)


@pytest.fixture
def train(tmp_path):
    return ("--train", *write_pairs(tmp_path, "a", TRAIN), *OPTIONS)


@pytest.fixture
def prepare(capsys):
    """Runs the command in this process; returns what it printed.

    It must succeed, unless ``code`` is another exit code.
    """

    def run(*arguments, code=0):
        assert main(["prepare", *map(str, arguments)]) == code
        return " ".join(" ".join(capsys.readouterr()).split())

    return run


def start(*arguments, limit=NO_LIMIT, pause=0):
    given = map(str, (LINES, limit, pause, *arguments))
    command = [sys.executable, "-c", SMALL, *given]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def single(prepare, monkeypatch, out, *arguments):
    """The files of a run whose text is one part."""
    with monkeypatch.context() as patch:
        patch.setattr(parts, "LINES", 10**6)
        patch.setattr(selection, "SORTED", 10**6)
        prepare(*arguments, "--workers", 1, "--out", out)
    return files(out)


CASES = {
    "cut": (),
    "valid": ("--valid",),
    "moses": ("--tokenizer", "moses", "--lowercase"),
    "dropout": ("--bpe-dropout", 0.1, "--segmentations", 3),
    "duplicates": ("--keep-duplicates", "--separate"),
    "words": ("--bpe", "none", "--bpe-size", 30),
    "sentencepiece": ("--bpe", "sentencepiece", "--bpe-size", 60, "--separate"),
}


@pytest.mark.parametrize("case", CASES)
def test_shards_give_the_files_of_a_single_run(prepare, train, tmp_path, monkeypatch, case):
    packages = {"moses": "sacremoses", "sentencepiece": "sentencepiece"}
    if case in packages:
        pytest.importorskip(packages[case])
    options = (*train, *CASES[case])
    if case == "valid":
        options = (*options, *write_pairs(tmp_path, "v", VALID))
    expected = single(prepare, monkeypatch, tmp_path / "single", *options)
    out = ("--out", tmp_path / "out", "--workers", 1)
    for done in ("cleaned", "split into sub-words"):
        for shard, absent in ((2, "0, 1, 2"), (0, "0, 1"), (1, "1")):
            message = prepare(*options, *out, "--num-shards", 3, code=2)
            assert f"Text of --shard-id {absent} has not been {done}" in message
            printed = prepare(*options, *out, "--num-shards", 3, "--shard-id", shard)
            assert f"Shard {shard} of 3 is done." in printed
        printed = prepare(*options, *out, "--num-shards", 3)
        assert ("Sub-words are learned." in printed) == (done == "cleaned")
    assert files(tmp_path / "out") == expected
    # In one process, too, and in two.
    prepare(*options, "--out", tmp_path / "two", "--workers", 2)
    assert files(tmp_path / "two") == expected


def test_shards_at_the_same_time(prepare, train, tmp_path, monkeypatch):
    expected = single(prepare, monkeypatch, tmp_path / "single", *train)
    out = ("--out", tmp_path / "out", "--num-shards", 3, "--workers", 1)
    for _ in range(2):
        running = [start(*train, *out, "--shard-id", shard) for shard in range(3)]
        errors = [process.communicate()[1] for process in running]
        assert [process.returncode for process in running] == [0, 0, 0], errors
        prepare(*train, *out)
    assert files(tmp_path / "out") == expected


def test_one_process_continues_what_shards_of_any_number_began(
    prepare, train, tmp_path, monkeypatch
):
    expected = single(prepare, monkeypatch, tmp_path / "single", *train)
    out = ("--out", tmp_path / "out", "--workers", 1)
    prepare(*train, *out, "--num-shards", 3, "--shard-id", 1)
    # Some parts of this one are there.
    prepare(*train, *out, "--num-shards", 2, "--shard-id", 1)
    prepare(*train, *out)
    assert files(tmp_path / "out") == expected


def inodes(folder):
    """Complete parts -> their numbers on the disk, which are others if they are written again."""
    found = {}
    # It passes over folders that have been renamed or removed by now.
    for parent, names, _ in os.walk(folder):
        for path in (Path(parent, name) for name in names if name.isdigit()):
            with suppress(FileNotFoundError):
                found[str(path.relative_to(folder))] = path.stat().st_ino
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_runs_keep_their_parts(prepare, train, tmp_path, monkeypatch, workers):
    more = ("--bpe-dropout", 0.1, "--segmentations", 3)
    expected = single(prepare, monkeypatch, tmp_path / "single", *train, *more)
    arguments = (*train, *more, "--out", tmp_path / "out", "--workers", workers)
    work = tmp_path / "out" / "work"
    numbers = random.Random(workers)
    # Killed after so many complete parts, of about 39 in all; the last ones are written fast.
    for wanted in sorted(numbers.sample(range(2, 30), 3)):
        before = inodes(work)
        process = start(*arguments, pause=0.05)
        found = {}
        while len(found) < wanted and process.poll() is None:
            found |= inodes(work)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert all(found.get(name, number) == number for name, number in before.items())
    prepare(*arguments)
    assert files(tmp_path / "out") == expected


def test_counts_of_words_are_kept(prepare, train, tmp_path, monkeypatch):
    """A run that ends while words are counted continues with the next part."""
    expected = single(prepare, monkeypatch, tmp_path / "single", *train)
    monkeypatch.setattr(pipeline, "SAVED", 2)
    count, calls = pipeline.count_words, []

    def counted(lines, counts):
        calls.append(lines)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return count(lines, counts)

    monkeypatch.setattr(pipeline, "count_words", counted)
    arguments = (*train, "--out", tmp_path / "out", "--workers", 1)
    prepare(*arguments, code=130)
    prepare(*arguments)
    # Nine parts of each language: six were saved of the seven that were counted.
    assert len(calls) == 8 + 18 - 6
    assert files(tmp_path / "out") == expected


def test_the_page_has_the_number_of_files(prepare, train, tmp_path, monkeypatch):
    """Those of a thousand million pairs, in ten thousand parts of the training text."""
    work, found = tmp_path / "out" / "work", {}
    remove = shutil.rmtree

    def count(path, **options):
        if path.name in ("clean", "parts"):
            found[path.name] = files(work)
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", count)
    options = (*CASES["dropout"], "--workers", 1, "--out", tmp_path / "out")
    prepare(*train, *options)

    def in_parts(step, pattern):
        names = [name for name in found[step] if re.fullmatch(rf"{pattern}/\d{{6}}/.+", name)]
        folders = {name.rpartition("/")[0] for name in names}
        number = len({folder.rpartition("/")[2] for folder in folders})
        return len(names) / number, len(folders) / number

    assert in_parts("clean", "clean/train") == (4, 1)
    assert in_parts("clean", "encode/train") == (3, 1)
    assert in_parts("clean", "sample/segmentation[23]") == (6, 2)
    plain = in_parts("parts", r"binarize/parts/\w+\.train\.\w+")
    sampled = in_parts("parts", r"binarize/parts/\w+\.segmentation2\.\w+")
    assert plain == sampled == (8, 4)
    # More than the seven before, and with ten segmentations, 7 + 9 * 3.
    page = " ".join((ROOT / "docs" / "prepare.md").read_text(encoding="utf-8").split())
    assert "up to 80,000 files in 40,000 folders at a time" in page
    assert "with ten segmentations, 800,000 in 400,000." in page


def test_a_full_disk(prepare, train, tmp_path, monkeypatch):
    """Parts that fit on it stay."""
    expected = single(prepare, monkeypatch, tmp_path / "single", *train)
    largest = max(path.stat().st_size for path in tmp_path.glob("a.*"))
    shard = (*train, "--out", tmp_path / "out", "--num-shards", 2, "--workers", 1)
    for arguments in ((*shard, "--shard-id", 0), (*shard, "--shard-id", 1)):
        process = start(*arguments, limit=2000)
        error = process.communicate()[1]
        assert process.returncode == 2 and "Traceback" not in error
        assert "cannot be written: File too large. The same command continues" in error
        assert start(*arguments).wait() == 0
    prepare(*shard)
    for number in (0, 1):
        prepare(*shard, "--shard-id", number)
    # Now only the joined files are too large.
    process = start(*shard, limit=largest // 2)
    error = process.communicate()[1]
    assert process.returncode == 2 and "join.partial cannot be written" in error
    prepare(*shard)
    assert files(tmp_path / "out") == expected


@pytest.mark.parametrize(
    "options, message",
    [
        (("--shard-id", 0), "--shard-id 0 needs --num-shards"),
        (("--num-shards", 0), "--num-shards is 0"),
        (("--num-shards", 4, "--shard-id", 4), "--shard-id is 4, but must be less than .* 4"),
        (("--num-shards", 4, "--shard-id", -1), "--shard-id is -1"),
        (("--num-shards", 4, "--shard-id", 1, "--overwrite"), "--overwrite with --shard-id 1"),
    ],
)
def test_wrong_numbers(prepare, train, tmp_path, options, message):
    error = prepare(*train, "--out", tmp_path / "out", *options, code=2)
    assert re.search(message, error)
    assert not (tmp_path / "out").exists()


def test_shards_of_other_text_or_settings_are_refused(prepare, train, tmp_path):
    shard = ("--out", tmp_path / "out", "--num-shards", 2, "--workers", 1, "--shard-id")
    prepare(*train, *shard, 0)
    before = files(tmp_path / "out")
    error = prepare(*train, "--lowercase", *shard, 1, code=2)
    assert "was prepared with no --lowercase, now with --lowercase" in error
    os.utime(tmp_path / "a.de", ns=(1, 1))
    error = prepare(*train, *shard, 1, code=2)
    assert "a.en has changed since" in error
    assert files(tmp_path / "out") == before


def test_parts_of_another_version_are_refused(prepare, train, tmp_path, monkeypatch):
    arguments = (*train, "--out", tmp_path / "out", "--workers", 1, "--num-shards", 2)
    prepare(*arguments, "--shard-id", 0)
    monkeypatch.setattr(parts, "LINES", LINES + 1)
    error = prepare(*arguments, "--shard-id", 1, code=2)
    assert "work was written by another version of `convs2s prepare`: start again with" in error


def test_a_shard_that_runs_already(prepare, train, tmp_path):
    shard = (*train, "--out", tmp_path / "out", "--num-shards", 2, "--shard-id")
    prepare(*shard, 0)
    with shared_lock(str(tmp_path / "out" / "work" / "shard0of2.lock"), ""):
        error = prepare(*shard, 0, code=2)
        assert f"--shard-id 0 of {tmp_path}/out is in use by process {os.getpid()}" in error
        prepare(*shard, 1)


def test_a_bad_line_leaves_the_parts_of_other_shards(prepare, tmp_path):
    pairs = make_pairs(200)
    paths = write_pairs(tmp_path, "a", pairs)
    (tmp_path / "a.en").write_bytes(
        b"".join(b"\xff\n" if n == 150 else f"{t}\n".encode() for n, (_, t) in enumerate(pairs))
    )
    arguments = ("--train", *paths, *OPTIONS, "--workers", 1, "--out", tmp_path / "out")
    shards = (*arguments, "--num-shards", 2, "--shard-id")
    prepare(*shards, 1)
    before = inodes(tmp_path / "out" / "work")
    assert "a.en, line 151: byte 0xff" in prepare(*shards, 0, code=2)
    assert before.items() <= inodes(tmp_path / "out" / "work").items()
    assert "a.en, line 151: byte 0xff" in prepare(*arguments, code=2)
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.parametrize("file", ["counts.json", "hashes", "tokens.de"])
def test_a_damaged_part(prepare, train, tmp_path, file):
    arguments = (*train, "--out", tmp_path / "out", "--workers", 1, "--num-shards", 1)
    prepare(*arguments, "--shard-id", 0)
    (tmp_path / "out" / "work" / "clean" / "train" / "000001" / file).write_text("")
    message = "counts.json is damaged: start again with --overwrite"
    if file == "hashes":
        message = "hashes has 0 lines instead of 60"
    if file == "tokens.de":
        prepare(*arguments)
        arguments = (*arguments, "--shard-id", 0)
        message = "lines instead of"
    assert message in prepare(*arguments, code=2)


def test_a_pipe_is_refused(prepare, tmp_path):
    os.mkfifo(tmp_path / "a.de")
    (tmp_path / "a.en").write_text("a\n")
    error = prepare(
        "--train", tmp_path / "a.de", tmp_path / "a.en", "--out", tmp_path / "out", code=2
    )
    assert "a.de (--train) is not a plain file, and could not be read more than once" in error
