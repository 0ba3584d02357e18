"""The examples with ``--smoke``: every step runs, on a little text and with a few updates."""

import os
import random
import shlex
import signal
import subprocess
import sys

import pytest

from convs2s.common.errors import UserError
from tests.integration.examples.conftest import EXAMPLES
from tests.support.commands import NEEDS_FAIRSEQ, server

WORDS = "the a two dogs cats men run runs sleep on in under grass snow trees with".split()


@pytest.fixture
def example(tmp_path):
    """A function that runs an example with --smoke and returns what it has printed."""

    def example(name, *arguments):
        words = ["python", EXAMPLES / name / "run.py", *arguments, "--smoke", "--out", "out"]
        done = server().bash(shlex.join(map(str, words)), tmp_path)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert "CPU time" in done.stdout
        return done.stdout

    return example


@NEEDS_FAIRSEQ
def test_number_to_words(example, tmp_path):
    pytest.importorskip("num2words")
    printed = example("number_to_words")
    assert "| numbers | right with beam 1 | right with beam 5 |" in printed
    for beam in (1, 5):
        assert len((tmp_path / "out" / f"beam{beam}.words").read_text().splitlines()) == 12


def test_a_language_that_num2words_lacks(tmp_path):
    pytest.importorskip("num2words")
    command = f"python {EXAMPLES / 'number_to_words' / 'run.py'} --language xx --out out"
    done = server().bash(command, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("num2words has no language xx: give --language one of ")
    assert not (tmp_path / "out").exists()


@NEEDS_FAIRSEQ
def test_error_correction(example, tmp_path):
    numbers = random.Random(1)
    text = "".join(" ".join(numbers.choices(WORDS, k=6)) + ".\n" for _ in range(40))
    (tmp_path / "text.en").write_text(text)
    printed = example("error_correction", "text.en")
    assert "| precision | recall | F0.5 |" in printed
    assert "sentences without an error stay the same" in printed


@NEEDS_FAIRSEQ
def test_pronunciation(tmp_path):
    numbers = random.Random(1)
    for language, letters in (("aaa", "abcd"), ("bbb", "가나다라")):
        for split, size in (("train", 40), ("dev", 6), ("test", 6)):
            sizes = [numbers.randint(1, 6) for _ in range(size)]
            words = ["".join(numbers.choices(letters, k=length)) for length in sizes]
            text = "".join(f"{word}\t{' '.join(word.upper())}\n" for word in words)
            (tmp_path / f"{language}_{split}.tsv").write_text(text, encoding="utf-8")
    words = [EXAMPLES / "pronunciation/run.py", ".", "--languages", "aaa", "bbb"]
    words += ["--limit-updates", 2, "--systems", "cnn_self_att", "--out", "out"]
    command = "python " + shlex.join(map(str, words))
    done = server().bash(command, tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "## WER on test by data set" in done.stdout and "(here)" in done.stdout
    assert (tmp_path / "out" / "errors.png").read_bytes().startswith(b"\x89PNG")
    assert "ᄀ ᅡ" in (tmp_path / "out/prepared/bbb/tokens/train.word").read_text("utf-8")
    # Nothing is done again.
    assert "2 of 2 runs were finished before" in server().bash(command, tmp_path).stdout
    continued = command.replace("--languages", "--continued --languages")
    done = server().bash(continued, tmp_path)
    assert done.returncode == 1 and "out has no models to continue: train some" in done.stderr
    # One model, which reads the code of the language before the word.
    done = server().bash(command.replace("--languages", "--multilingual --languages"), tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "WER test" in done.stdout and "(here)" in done.stdout
    tokens = (tmp_path / "out/prepared/multilingual/tokens/train.word").read_text("utf-8")
    assert tokens.startswith("a a a ▁ ") and "b b b ▁ ᄀ ᅡ" in tokens
    joined = (tmp_path / "out/text/train.tsv").read_text("utf-8").splitlines()
    assert len(joined) == 80 and joined[79].startswith("bbb ") and joined[79].count("\t") == 1
    # The same model, continued on each language.
    done = server().bash(continued, tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "## WER on test by data set" in done.stdout and "(here)" in done.stdout
    assert (tmp_path / "out" / "continued_errors.png").read_bytes().startswith(b"\x89PNG")
    log = (tmp_path / "out/continued/runs/bbb/cnn_self_att.1/train.log").read_text("utf-8")
    assert "multilingual/runs/cnn_self_att.1/average.pt" in log
    dictionaries = [
        (tmp_path / "out/prepared" / name / "data-bin/dict.word.txt").read_bytes()
        for name in ("multilingual", "continued/aaa", "continued/bbb")
    ]
    assert len({*dictionaries}) == 1
    one = command.replace("--languages aaa bbb", "--multilingual --languages aaa")
    done = server().bash(one, tmp_path)
    assert done.returncode == 2 and "out/text/train.tsv has changed since" in done.stderr
    done = server().bash(command.replace("bbb", "ccc"), tmp_path)
    assert done.returncode == 1 and "has no language ccc: choose aaa, bbb" in done.stderr
    (tmp_path / "bbb_dev.tsv").unlink()
    done = server().bash(command, tmp_path)
    assert done.returncode == 1 and ". has no bbb_dev.tsv." in done.stderr


@pytest.fixture
def words(load, tmp_path):
    """The module of the example, and the files of a language with lines that are not words."""
    for split in ("train", "dev", "test"):
        text = "ab\tA B\r\n\r\n\tX\r\nc\u2028d\tC D \r\ne\t\r\n"
        (tmp_path / f"aaa_{split}.tsv").write_bytes(text.encode())
    return load("pronunciation/run.py"), tmp_path


def test_lines_without_a_word_are_not_joined(words):
    example, folder = words
    joined = example.join(example.find_files(folder), ["aaa"], folder / "text")
    assert joined["train"].read_text("utf-8") == "aaa ab\tA B\naaa c d\tC D \naaa e\t\n"


def test_two_files_of_a_language(words):
    example, folder = words
    (folder / "more").mkdir()
    (folder / "more" / "aaa_test.tsv").touch()
    with pytest.raises(UserError, match=r"aaa_test.tsv and .*more/aaa_test.tsv are both aaa_test"):
        example.find_files(folder)


def test_an_output_folder_that_is_a_file(words):
    _, folder = words
    command = f"python {EXAMPLES / 'pronunciation' / 'run.py'} . --languages aaa --out aaa_dev.tsv"
    done = server().bash(command, folder)
    assert done.returncode == 1
    message = "run.py: error: aaa_dev.tsv cannot be written: Not a directory. Give another --out.\n"
    assert done.stderr == message


def test_a_signal_reaches_the_experiment(words, tmp_path):
    """SIGTERM, unlike Ctrl-C, is sent to one process."""
    code = "import os, run, sys; print(os.getpid(), flush=True); "
    code += "from convs2s.common.signals import exit_on_signals\n"
    code += "with exit_on_signals(): run.run(['sh', '-c', 'trap \"echo ended; exit\" TERM; "
    code += "echo begun; while :; do sleep 0.1; done'])"
    example = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=EXAMPLES / "pronunciation",
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert example.stdout.readline() and example.stdout.readline() == "begun\n"
    example.send_signal(signal.SIGTERM)
    assert example.communicate(timeout=60)[0] == "ended\n"
    assert example.returncode == 128 + signal.SIGTERM
