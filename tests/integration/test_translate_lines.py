"""``convs2s translate``: one line for one line, workers, pipes, terminals, progress."""

import os
import subprocess
from contextlib import ExitStack

import pytest

from convs2s.cli import main as convs2s
from convs2s.common import progress
from convs2s.translation import translator
from convs2s.translation.ensemble import Ensemble
from convs2s.translation.workers import Workers
from tests.support.commands import server
from tests.support.translation import DATA, FIXTURES, LIMIT, LINES, SENTENCE, text_file, translate


def test_every_line_has_its_translation(tmp_path, capsys):
    """Empty lines, a line of several sentences that is too long, and odd white space."""
    lines = ["", "acht vier", " \t", f"{SENTENCE} {SENTENCE} {SENTENCE}", "zehn\u2028elf", ""]
    report = tmp_path / "report"
    aligned = tmp_path / "aligned"
    path = FIXTURES / "pervasive.pt"
    arguments = ("--report", report, "--alignment", aligned, "--scores")
    rows = [row.split("\t") for row in translate(path, lines, tmp_path, *arguments)]
    assert "1 line(s) of more than 19 tokens" in capsys.readouterr().err
    apart = ["acht vier", SENTENCE, "zehn elf"]
    alone = [row.split("\t") for row in translate(path, apart, tmp_path, "--scores")]
    assert [text for _, text in rows] == [
        "",
        alone[0][1],
        "",
        " ".join([alone[1][1]] * 3),
        alone[2][1],
        "",
    ]
    assert [row[0] for row in rows[:3]] == ["0.0000", alone[0][0], "0.0000"]
    assert float(rows[3][0]) == pytest.approx(float(alone[1][0]), abs=2e-4)
    assert report.read_text(encoding="utf-8").splitlines() == [
        "line\ttokens\tparts\tremark",
        "4\t30\t3\tlonger than the model allows: split",
    ]
    pairs = aligned.read_text(encoding="utf-8").split("\n")
    assert len(pairs) == len(lines) + 1 and pairs[0] == pairs[2] == pairs[5] == ""
    assert max(int(pair.split("-")[0]) for pair in pairs[3].split()) in range(20, 30)


def test_a_translation_that_may_be_cut_off_is_reported(tmp_path, capsys):
    report = tmp_path / "report"
    path = FIXTURES / "convs2s.pt"
    translate(path, ["zehn", SENTENCE], tmp_path, "--max-len-b", 4, "--report", report)
    (line,) = report.read_text(encoding="utf-8").splitlines()[1:]
    assert line.startswith("2\t10\t1\ttranslation of the largest length")
    assert "give a larger --max-len-b than 4" in capsys.readouterr().err
    translate(path, [SENTENCE], tmp_path, "--min-len", LIMIT)
    assert f"the model allows no more than {LIMIT} tokens" in capsys.readouterr().err


def test_workers(tmp_path):
    lines = [*LINES, "", f"{SENTENCE} {SENTENCE}"] * 5
    path = FIXTURES / "adl_recurrent.pt"
    arguments = ("--nbest", 2, "--max-tokens", 60, "--buffer-size", 7, "--replace-unk")
    one = translate(path, lines, tmp_path, *arguments)
    assert translate(path, lines, tmp_path, *arguments, "--workers", 2) == one


@pytest.mark.parametrize(
    "threads, batch_size, source, expected",
    [
        (3, 2, "--input FILE", [3]),
        (3, 2, "< FILE", [3]),
        # As many as there are batches
        (64, 4, "--input FILE", [2]),
        (3, 100, "--input FILE", []),
        (1, 2, "--input FILE", []),
        (3, 2, "--input FILE --workers 2", [2]),
        # The lines of a pipe may come one by one.
        (3, 2, "cat FILE |", []),
    ],
)
def test_the_number_of_workers(threads, batch_size, source, expected, tmp_path, monkeypatch):
    started = []

    class Counted(Workers):
        def __init__(self, translate):
            started.append(len(translate))
            super().__init__(translate)

    monkeypatch.setattr(translator, "Workers", Counted)
    monkeypatch.setattr(translator, "available_threads", lambda: threads)
    file, output = text_file(tmp_path, LINES), tmp_path / "output"
    arguments = ["translate", "--path", str(FIXTURES / "adl.pt"), "--data", str(DATA)]
    arguments += ["--device", "cpu", "--batch-size", str(batch_size), "--output", str(output)]
    with ExitStack() as stack:
        if source.startswith("--input"):
            arguments += source.replace("FILE", str(file)).split()
        elif source.startswith("<"):
            monkeypatch.setattr("sys.stdin", stack.enter_context(file.open(encoding="utf-8")))
        else:
            command = subprocess.Popen(["cat", file], stdout=subprocess.PIPE, encoding="utf-8")
            monkeypatch.setattr("sys.stdin", stack.enter_context(command).stdout)
        assert convs2s(arguments) == 0
    assert started == expected
    assert output.read_text(encoding="utf-8").count("\n") == len(LINES)


@pytest.mark.parametrize("options", [{}, {"beam": 2, "nbest": 2}])
def test_a_process_for_each_gpu(options, monkeypatch):
    """The devices are CPUs here; each process loads the models, with all options, on its own."""
    loaded = []

    class Loaded(Ensemble):
        def __init__(self, paths, options, places, load):
            loaded.append((os.getpid(), options.device, options.autocast_dtype))
            super().__init__(paths, options, places, load)

        def translate(self, sentences):
            ((number, device, dtype),) = [each for each in loaded if each[0] == os.getpid()]
            assert number != here and (device, dtype) == ("cpu", "bfloat16")
            return super().translate(sentences)

    here = os.getpid()
    arguments = dict(data=DATA, autocast_dtype="bfloat16", batch_size=2)
    expected = translator.Translator(FIXTURES / "adl.pt", device="cpu", **arguments)
    expected = expected.with_options(**options).translate(LINES)
    monkeypatch.setattr(translator, "Ensemble", Loaded)
    monkeypatch.setattr(translator, "usable_gpus", lambda: ["cpu", "cpu"])
    several = translator.Translator(FIXTURES / "adl.pt", workers=None, **arguments)
    assert several.workers == 2
    assert several.with_options(**options).translate(LINES) == expected
    assert loaded == [(here, "cpu", "none")]


def test_a_worker_that_crashes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Ensemble, "translate", lambda self, sentences: os._exit(9))
    output = tmp_path / "output"
    arguments = ["--input", str(text_file(tmp_path, LINES)), "--output", str(output)]
    path = str(FIXTURES / "convs2s.pt")
    common = ["translate", "--path", path, "--data", str(DATA), "--device", "cpu"]
    assert convs2s([*common, *arguments, "--workers", "2"]) == 1
    assert "ended with exit code 9" in capsys.readouterr().err
    assert not list(tmp_path.glob("output*"))


def shell(code, folder):
    """Run shell code with ``convs2s``; MODEL stands for the options of a model."""
    model = f"--path {FIXTURES / 'convs2s.pt'} --data {DATA} --device cpu --raw"
    return server().bash(code.replace("MODEL", model), folder)


def test_pipes(tmp_path):
    done = shell("printf 'eins zwei\\n\\nacht' | convs2s translate MODEL | cat", tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.split("\n")
    assert len(lines) == 4 and lines[0] and lines[2] and lines[1] == lines[3] == ""


def test_a_closed_pipe_ends_silently(tmp_path):
    (tmp_path / "input").write_text("eins zwei\n" * 4000, encoding="utf-8")
    code = "convs2s translate MODEL --beam 1 --buffer-size 20 < input | head -1"
    done = shell(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_line_by_line(tmp_path):
    """Each answer comes before the next line is read."""
    process = subprocess.Popen(
        [
            server().programs / "convs2s",
            "translate",
            "--path",
            FIXTURES / "adl.pt",
            "--data",
            DATA,
            "--device",
            "cpu",
            "--line-by-line",
            "--scores",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    answers = []
    for line in ("eins zwei", "", "fünf"):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answers.append(process.stdout.readline().rstrip("\n").split("\t"))
    _, errors = process.communicate()
    assert process.returncode == 0 and "read as tokens" in errors
    assert answers[1] == ["0.0000", ""] and answers[0][1] and answers[2][1]


def test_a_terminal_is_answered_line_by_line():
    master, slave = os.openpty()
    process = subprocess.Popen(
        [
            server().programs / "convs2s",
            "translate",
            "--path",
            FIXTURES / "adl.pt",
            "--data",
            DATA,
            "--device",
            "cpu",
            "--raw",
        ],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for line in (b"eins zwei\n", b"acht\n"):
        os.write(master, line)
        assert process.stdout.readline().endswith(b"-th\n")
    # The end of the input, as Ctrl-D gives it.
    os.write(master, b"\x04")
    _, errors = process.communicate()
    os.close(master)
    os.close(slave)
    assert process.returncode == 0 and b"Ctrl-D ends" in errors


def test_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    translate(FIXTURES / "convs2s.pt", LINES, tmp_path)
    assert f" {len(LINES)}/{len(LINES)} [" in capsys.readouterr().err
