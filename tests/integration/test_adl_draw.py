"""``convs2s adl draw`` as a user starts it."""

import subprocess
from xml.etree import ElementTree

import pytest

from tests.support.commands import server


def adl(folder, *arguments):
    program = server().programs / "convs2s"
    return subprocess.run([program, "adl", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["adl_transformer_small"],
        ["pos -> res_nd(birnn)", "rnn -> mlp_att", "--model-dim", "64", "--words", "77"],
        ["cnn->linear", "mh_dot_att", "--dialect", "sockeye", "--length", "9"],
        ["rnn", "linear -> mlp_att", "--input-feeding", "--model-dim", "48"],
        [
            "let a = res_nd(cnn); pos -> cycle(5, a, bi(rnn(d=8)) -> linear) -> a",
            "let b = res(rnn); repeat(2, share(b)) -> share(b) -> mlp_att",
        ],
    ],
)
def test_the_drawing_has_what_explain_prints(arguments, tmp_path):
    done = adl(tmp_path, "draw", *arguments, "-o", "model.svg")
    assert (done.returncode, done.stdout, done.stderr) == (0, "model.svg\n", "")
    text = " ".join(ElementTree.parse(tmp_path / "model.svg").getroot().itertext())
    text = " ".join(text.split())
    explained = adl(tmp_path, "explain", *arguments).stdout
    _, _, sentences = explained.partition("\n\n")
    assert all(sentence in text for sentence in sentences.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["rnn", "cn"],
        ["rnn->", "cnn"],
        ["rnn", "birnn"],
        ["adl_transfomer"],
        ["@missing.adl", "rnn"],
        ["rnn", "rnn", "--model-dim", "0"],
        ["rnn", "rnn", "--words", "0"],
        ["rnn", "rnn", "--length", "0"],
        ["rnn", "rnn", "--dialect", "x"],
        ["rnn", "rnn", "--user-dir", "/no/such"],
        ["res(" * 60 + "id" + ")" * 60, "rnn"],
        ["repeat(3000, id)", "rnn"],
    ],
)
def test_what_explain_refuses_is_refused_alike(arguments, tmp_path):
    explained = adl(tmp_path, "explain", *arguments)
    done = adl(tmp_path, "draw", *arguments, "--output", "model.svg")
    assert explained.returncode == done.returncode == 2
    assert "error: " in done.stderr and done.stderr == explained.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "output, message",
    [
        ("model.png", "--output is model.png: its name must end in .svg."),
        ("model", "--output is model: its name must end in .svg."),
        ("", "its name must end in .svg."),
        ("missing/model.svg", "missing/model.svg cannot be written: there is no folder missing."),
        ("folder.svg", "folder.svg cannot be written: it exists and is not a plain file."),
        ("chain.svg", "chain.svg cannot be written: the command also reads this file"),
    ],
)
def test_outputs_that_are_refused(output, message, tmp_path):
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "chain.svg").write_text("rnn")
    done = adl(tmp_path, "draw", "@chain.svg", "rnn", "--output", output)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith("convs2s adl: error: ") and message in done.stderr
    assert (tmp_path / "chain.svg").read_text() == "rnn"


def test_an_output_is_needed(tmp_path):
    done = adl(tmp_path, "draw", "adl_transformer")
    assert done.returncode == 2 and "--output" in done.stderr
