"""``convs2s translate`` and ``Translator``: the same translations as fairseq-interactive."""

import hashlib
import io
import json
import os
import shutil
import subprocess
from contextlib import redirect_stdout

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import interactive as interactive_command

from convs2s_plugin.cli import main as convs2s
from convs2s_plugin.errors import UserError
from convs2s_plugin.translation import Translator
from convs2s_plugin.translation.ensemble import Ensemble
from tests import ROOT
from tests.commands import PLUGIN, TASK, alignments, hypotheses, server, train

FIXTURES = ROOT / "tests" / "fixtures" / "old_checkpoints"
DATA = FIXTURES / "data"
MODELS = sorted(path.stem for path in FIXTURES.glob("*.pt"))
LINES = (DATA / "test.de").read_text(encoding="utf-8").splitlines()
# Each position of the models of the fixtures: 20 with the end of the sentence.
LIMIT = 19
SENTENCE = "acht vier fünf zehn elf zwölf eins zwei drei ."


def text_file(folder, lines, name="input.de"):
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def interactive(path, lines, folder, *arguments, data=DATA):
    """The output of fairseq-interactive, run in this process."""
    args = options.parse_args_and_arch(
        options.get_interactive_generation_parser(),
        input_args=[
            *(str(data), "--source-lang", "de", "--target-lang", "en", "--cpu"),
            *("--user-dir", str(PLUGIN), *TASK, "--path", str(path)),
            *("--input", str(text_file(folder, lines, "interactive.de"))),
            *("--buffer-size", "100", *map(str, arguments)),
        ],
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        interactive_command.main(convert_namespace_to_omegaconf(args))
    return printed.getvalue()


def translate(path, lines, folder, *arguments, data=DATA):
    """The lines that ``convs2s translate`` writes."""
    output = folder / "output.en"
    paths = path if isinstance(path, list) else [path]
    code = convs2s(
        [
            *("translate", "--path", *map(str, paths), "--data", str(data), "--device", "cpu"),
            *("--input", str(text_file(folder, lines)), "--output", str(output)),
            *map(str, arguments),
        ]
    )
    assert code == 0
    return output.read_text(encoding="utf-8").split("\n")[:-1]


def assert_same(rows, printed):
    """The rows of ``--nbest`` are the detokenized hypotheses of fairseq-interactive."""
    found = {}
    for number, score, text in (row.split("\t") for row in rows):
        found.setdefault(int(number) - 1, []).append((float(score), text))
    expected = hypotheses(printed, "D")
    assert found.keys() == expected.keys()
    for number, best in expected.items():
        assert [text for _, text in found[number]] == [text for _, text in best]
        scores = [score for score, _ in best]
        assert [score for score, _ in found[number]] == pytest.approx(scores, abs=2e-4)


@pytest.mark.parametrize("name", MODELS)
def test_every_family(name, tmp_path):
    path = FIXTURES / f"{name}.pt"
    aligned = tmp_path / "aligned"
    rows = translate(path, LINES, tmp_path, "--nbest", 2, "--alignment", aligned)
    printed = interactive(
        *(path, LINES, tmp_path, "--nbest", 2, "--max-tokens", 4000),
        *("--print-alignment", "hard"),
    )
    assert_same(rows, printed)
    lines = [line.split("\t", 1)[1] for line in printed.splitlines() if line.startswith("A-")]
    assert aligned.read_text(encoding="utf-8").splitlines() == lines
    # Without alignments, a faster attention may be used.
    best = translate(path, LINES, tmp_path, "--batch-size", 3)
    assert best == [text for ((_, text), *_) in hypotheses(printed, "D").values()]


@pytest.fixture(scope="module")
def transformer(corpus, tmp_path_factory):
    """A checkpoint of fairseq's transformer, trained with fairseq's task."""
    folder = tmp_path_factory.mktemp("transformer")
    train(
        corpus,
        folder,
        options=(
            *("--arch", "transformer_iwslt_de_en", "--encoder-embed-dim", "16"),
            *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-ffn-embed-dim", "16"),
            *("--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16"),
            *("--share-decoder-input-output-embed", "--max-source-positions", "64"),
            *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "3"),
        ),
    )
    return folder / "checkpoint_last.pt"


def test_fairseqs_transformer(transformer, corpus, tmp_path):
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    data = corpus / "bin"
    aligned = tmp_path / "aligned"
    rows = translate(
        *(transformer, lines, tmp_path, "--nbest", 3, "--alignment", aligned), data=data
    )
    printed = interactive(
        *(transformer, lines, tmp_path, "--nbest", 3, "--max-tokens", 4000),
        *("--print-alignment", "hard"),
        data=data,
    )
    assert_same(rows, printed)
    best = [text for _, text in sorted(alignments(printed).items())]
    assert aligned.read_text(encoding="utf-8").splitlines()[2::3] == best


WAYS = {
    "lenpen": ("--beam", 4, "--lenpen", 0.6),
    "unnormalized": ("--beam", 3, "--unnormalized"),
    "greedy": ("--beam", 1),
    "half precision": ("--autocast-dtype", "bfloat16"),
    "short": ("--max-len-b", 4),
    "unknown words": ("--replace-unk",),
    "lexicon": ("--lexicon", "LEXICON", "--frequent-candidates", 3, "--batch-size", 1),
    "translated unknown words": ("--replace-unk", "LEXICON"),
}


@pytest.mark.parametrize("way", WAYS)
def test_options_of_fairseq(way, tmp_path):
    pairs = [f"{line} {line}-th 0.9" for line in "eins zwei drei vier acht zehn foo".split()]
    lexicon = text_file(tmp_path, pairs, "lexicon")
    arguments = [lexicon if value == "LEXICON" else value for value in WAYS[way]]
    lines = [*LINES, "foo acht bar zehn", "zwölf"]
    path = FIXTURES / "convs2s.pt"
    rows = translate(path, lines, tmp_path, "--nbest", 1, *arguments)
    size = () if "--batch-size" in arguments else ("--max-tokens", 4000)
    assert_same(rows, interactive(path, lines, tmp_path, *size, *arguments))


def test_an_ensemble(tmp_path):
    paths = [FIXTURES / f"{name}.pt" for name in ("convs2s", "adl", "pervasive")]
    joined = ":".join(map(str, paths))
    arguments = ("--nbest", 2, "--beam", 4)
    rows = translate(paths, LINES, tmp_path, *arguments)
    printed = interactive(joined, LINES, tmp_path, *arguments, "--max-tokens", 4000)
    assert_same(rows, printed)
    assert translate(joined, LINES, tmp_path, *arguments) == rows
    assert translate(paths[:1], LINES, tmp_path, *arguments) != rows


def test_sub_words(tmp_path):
    codes = text_file(tmp_path, ["#version: 0.2", "a b</w>"], "codes")
    lines = ["eins zwei", "acht\u2028vier"]
    path = FIXTURES / "adl.pt"
    rows = translate(path, lines, tmp_path, "--nbest", 1, "--bpe-codes", codes)
    printed = interactive(path, lines, tmp_path, "--bpe", "subword_nmt", "--bpe-codes", codes)
    assert_same(rows, printed)


def test_every_line_has_its_translation(tmp_path, capsys):
    """Empty lines, a line of several sentences that is too long, and odd white space."""
    lines = ["", "acht vier", " \t", f"{SENTENCE} {SENTENCE} {SENTENCE}", "zehn\u2028elf", ""]
    report = tmp_path / "report"
    aligned = tmp_path / "aligned"
    path = FIXTURES / "pervasive.pt"
    arguments = ("--report", report, "--alignment", aligned, "--scores")
    rows = [row.split("\t") for row in translate(path, lines, tmp_path, *arguments)]
    assert "1 line(s) of more than 19 tokens were split." in capsys.readouterr().err
    apart = ["acht vier", SENTENCE, "zehn elf"]
    alone = [row.split("\t") for row in translate(path, apart, tmp_path, "--scores")]
    assert [text for _, text in rows] == [
        *("", alone[0][1], "", " ".join([alone[1][1]] * 3), alone[2][1], "")
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
    assert line.startswith("2\t10\t1\ttranslation as long as --max-len-b allows")
    assert "give a larger --max-len-b than 4" in capsys.readouterr().err


def test_workers(tmp_path):
    lines = [*LINES, "", f"{SENTENCE} {SENTENCE}"] * 5
    path = FIXTURES / "adl_recurrent.pt"
    arguments = ("--nbest", 2, "--max-tokens", 60, "--buffer-size", 7, "--replace-unk")
    one = translate(path, lines, tmp_path, *arguments)
    assert translate(path, lines, tmp_path, *arguments, "--workers", 2) == one


def test_a_worker_that_crashes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Ensemble, "translate", lambda self, sentences: os._exit(9))
    output = tmp_path / "output"
    arguments = ["--input", str(text_file(tmp_path, LINES)), "--output", str(output)]
    path = str(FIXTURES / "convs2s.pt")
    common = ["translate", "--path", path, "--data", str(DATA), "--device", "cpu"]
    assert convs2s([*common, *arguments, "--workers", "2"]) == 1
    assert "ended with exit code 9" in capsys.readouterr().err
    assert not list(tmp_path.glob("output*"))


def test_python():
    translator = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu", alignment=True)
    assert translator.languages == ("de", "en") and translator.max_source_tokens == LIMIT
    first, empty = translator.translate(["eins zwei drei", ""])
    assert first.text == " ".join(first.hypotheses[0].tokens) and first.score < 0
    assert first.hypotheses[0].score == pytest.approx(
        sum(first.hypotheses[0].token_scores) / len(first.hypotheses[0].token_scores), abs=1e-5
    )
    assert (empty.text, empty.hypotheses[0].alignment) == ("", [])
    assert next(translator.stream(iter(["eins zwei drei"]))) == first
    with pytest.raises(UserError, match="--workers is 0"):
        Translator(FIXTURES / "convs2s.pt", data=DATA, workers=0)


def test_dictionaries_beside_the_checkpoint(tmp_path):
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    shutil.copy(FIXTURES / "convs2s.pt", tmp_path)
    found = Translator(tmp_path / "convs2s.pt", device="cpu", raw=True).translate(["acht"])
    expected = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu").translate(["acht"])
    assert found == expected


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
            *(server().programs / "convs2s", "translate", "--path", FIXTURES / "adl.pt"),
            *("--data", DATA, "--device", "cpu", "--line-by-line", "--scores"),
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
    assert process.returncode == 0 and "taken as tokens" in errors
    assert answers[1] == ["0.0000", ""] and answers[0][1] and answers[2][1]


def test_a_terminal_is_answered_line_by_line():
    master, slave = os.openpty()
    process = subprocess.Popen(
        [
            *(server().programs / "convs2s", "translate", "--path", FIXTURES / "adl.pt"),
            *("--data", DATA, "--device", "cpu", "--raw"),
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


def test_progress(tmp_path, capsys):
    translate(FIXTURES / "convs2s.pt", LINES, tmp_path)
    assert f"] {len(LINES)} lines" in capsys.readouterr().err


ERRORS = {
    "checkpoint": (["--path", "no/such.pt"], "There is no checkpoint no/such.pt."),
    "text as checkpoint": (["--path", "INPUT"], "INPUT is not loaded, because it holds pickled"),
    "dictionaries": (["--data", "FOLDER"], "dict.de.txt and dict.en.txt are not both in FOLDER."),
    "input": (["--input", "no/such/file"], "There is no file no/such/file (--input)."),
    "latin-1": (["--input", "LATIN"], "LATIN, line 2: byte 0xf6 at offset 2 is not valid UTF-8"),
    "output": (["--output", "no/such/file"], "no/such/file cannot be written: there is no folder"),
    "overwritten": (["--output", "INPUT"], "--output is INPUT, which --input names too"),
    "nbest": (["--nbest", "6"], "--nbest is 6, but a beam search with --beam 5"),
    "lexicon": (["--lexicon", "INPUT"], "INPUT"),
    "codes": (["--bpe-codes", "no/codes"], "There is no file no/codes (--bpe-codes)."),
    "raw codes": (["--bpe-codes", "INPUT", "--raw"], "--bpe-codes and --raw exclude each other"),
    "workers": (["--workers", "0"], "--workers is 0"),
    "workers by line": (["--workers", "2", "--line-by-line"], "leave out --workers"),
    "device": (["--device", "tpu9"], "--device tpu9 cannot be used"),
    "user dir": (["--user-dir", "no/dir"], "There is no folder no/dir (--user-dir)."),
    "preparation": (["--preparation", "no/dir"], "no/dir"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind, tmp_path, capsys):
    arguments, message = ERRORS[kind]
    names = {"FOLDER": tmp_path, "INPUT": text_file(tmp_path, LINES), "LATIN": tmp_path / "latin"}
    names["LATIN"].write_bytes(b"eins\nzw\xf6lf\n")
    for name, path in names.items():
        arguments = [str(path) if argument == name else argument for argument in arguments]
        message = message.replace(name, str(path))
    given = ["--path", str(FIXTURES / "convs2s.pt"), "--data", str(DATA), "--device", "cpu"]
    given += ["--input", str(names["INPUT"]), "--output", str(tmp_path / "output")]
    before = names["INPUT"].read_bytes()
    assert convs2s(["translate", *given, *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error and error.startswith("convs2s translate: error: ")
    assert not list(tmp_path.glob("output*")) and names["INPUT"].read_bytes() == before


def test_dictionaries_of_another_model(transformer, corpus, trained, tmp_path):
    """For models of the package, and for those of fairseq."""
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("eins 1\n", encoding="utf-8")
    for path, message in (
        (trained / "checkpoint_last.pt", "trained with a source vocabulary of 16 tokens"),
        (transformer, "was trained with other dictionaries than those in"),
    ):
        with pytest.raises(UserError, match=message):
            Translator(path, data=tmp_path, source_lang="de", target_lang="en", device="cpu")


def test_languages_that_the_checkpoint_does_not_say(corpus, trained, tmp_path, capsys):
    """Training found them in the names of its data, and its options do not have them."""
    path = trained / "checkpoint_last.pt"
    expected = Translator(path, device="cpu").translate(["eins zwei"])
    assert Translator(path, data=corpus / "bin", device="cpu").translate(["eins zwei"]) == expected
    shutil.copy(path, tmp_path)
    (tmp_path / "data").mkdir()
    for language in ("de", "en"):
        shutil.copy(corpus / "bin" / f"dict.{language}.txt", tmp_path / "data")
    named = Translator(
        tmp_path / "checkpoint_last.pt",
        data=tmp_path / "data",
        source_lang="de",
        target_lang="en",
        device="cpu",
    )
    assert named.translate(["eins zwei"]) == expected
    assert convs2s(
        ["translate", "--path", str(tmp_path / "checkpoint_last.pt"), "--data", str(tmp_path)]
    )
    assert "There are no dictionaries for" in capsys.readouterr().err


def prepared(folder, **changes):
    """A folder as ``convs2s prepare`` leaves it, with the dictionaries of the fixtures."""
    shutil.copytree(DATA, folder / "data-bin")
    sides = {"source": "de", "target": "en"}
    files = {name: f"data-bin/dict.{language}.txt" for name, language in sides.items()}
    content = {
        "format": 1,
        "languages": sides,
        "tokenizer": "none",
        "lowercase": True,
        "subwords": {"method": "none"},
        "dictionaries": {
            name: {
                "file": file,
                "sha256": hashlib.sha256((folder / file).read_bytes()).hexdigest(),
            }
            for name, file in files.items()
        },
    }
    path = folder / "preparation.yaml"
    path.write_text(json.dumps({**content, **changes}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "where", ["given", "beside the checkpoint", "above the checkpoint", "above the data"]
)
def test_preparation(where, tmp_path):
    path = FIXTURES / "convs2s.pt"
    expected = Translator(path, data=DATA, device="cpu").translate(["eins zwei acht", ""])
    file = prepared(tmp_path)
    given = {}
    if where == "beside the checkpoint":
        path = shutil.copy(path, tmp_path)
    elif where == "above the checkpoint":
        (tmp_path / "checkpoints").mkdir()
        path = shutil.copy(path, tmp_path / "checkpoints")
    elif where == "above the data":
        given = {"data": tmp_path / "data-bin"}
    else:
        given = {"preparation": file}
    found = Translator(path, device="cpu", **given).translate(["  EINS \u00a0zwei Acht", "\ufeff"])
    assert [translation.text for translation in found] == [
        translation.text for translation in expected
    ]


def test_preparation_of_another_model(tmp_path):
    other = {name: {"file": "data-bin/dict.de.txt", "sha256": "0"} for name in ("source", "target")}
    for name, changes, message in (
        ("dictionary", {"dictionaries": other}, "is not the dictionary data-bin/dict.de.txt that"),
        (
            "languages",
            {"languages": {"source": "fr", "target": "en"}},
            "prepares text for translation from fr to en, but .* translates from de to en",
        ),
    ):
        (tmp_path / name).mkdir()
        file = prepared(tmp_path / name, **changes)
        with pytest.raises(UserError, match=message):
            Translator(FIXTURES / "adl.pt", device="cpu", data=DATA, preparation=file)
