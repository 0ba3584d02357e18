"""``convs2s adl import`` as a user starts it."""

import json
import subprocess

import pytest

from tests.support.commands import server

LAYERS = ["full_attention"] * 2 + ["recurrent", "full_attention"] * 3


def adl(folder, *arguments):
    program = server().programs / "convs2s"
    return subprocess.run([program, "adl", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_explain_takes_what_is_printed(side, tmp_path):
    for pattern in ("*-*-**-", json.dumps(LAYERS)):
        done = adl(tmp_path, "import", pattern, "--side", side)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("let ") and done.stdout.endswith(" -> norm\n")
        sides = [done.stdout, "mlp_att"] if side == "encoder" else ["rnn", done.stdout]
        explained = adl(tmp_path, "explain", *sides)
        assert explained.returncode == 0 and "Warning" not in explained.stdout
        (tmp_path / "pattern").write_text(f"{pattern}\n", encoding="utf-8")
        assert adl(tmp_path, "import", "pattern", "--side", side).stdout == done.stdout


def test_a_configuration(tmp_path):
    config = {"layer_types": ["full_attention"] * 4, "num_hidden_layers": 4, "model_type": "x"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = adl(tmp_path, "import", "config.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "let full_attention = res_nd(mh_dot_self_att) -> res_nd(ffl);\n"
        "pos -> repeat(4, full_attention) -> norm\n"
    )
    (tmp_path / "model.adl").write_text(done.stdout, encoding="utf-8")
    assert adl(tmp_path, "explain", "@model.adl", "mlp_att").returncode == 0


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["*-?-"], "PATTERN, line 1, column 3: there is no symbol '?'; symbols are"),
        (["config.json"], "There is no file config.json."),
        (["latin.txt"], "latin.txt is not UTF-8: byte 0xe9 at 2, counted from 0."),
        (["large"], "large has more than 1 MB, the most that such a file may have."),
        (["broken.json"], "broken.json, line 2, column 1: not valid JSON"),
        (['["full_atention"]'], "is 'full_atention' (did you mean 'full_attention'?)"),
        ([""], "PATTERN, line 1, column 1: the pattern is empty"),
        (["*-", "--side", "both"], "argument --side"),
        ([], "the following arguments are required: PATTERN"),
        (["a\ud800"], "PATTERN, line 1, column 1: there is no symbol 'a'"),
    ],
)
def test_errors_are_sentences(arguments, sentence, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"*-\xe9")
    (tmp_path / "large").write_bytes(b"*" * (2**20 + 1))
    (tmp_path / "broken.json").write_text('{"layer_types": [\n', encoding="utf-8")
    raw = [argument.encode("utf-8", "surrogatepass") for argument in arguments]
    done = adl(tmp_path, "import", *raw)
    assert done.returncode == 2 and done.stdout == ""
    assert sentence in done.stderr and "Traceback" not in done.stderr
