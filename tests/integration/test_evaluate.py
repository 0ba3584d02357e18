"""``convs2s evaluate``."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from convs2s.cli import main
from convs2s.pictures.attention import compute_attention
from convs2s.translation.translator import Translator
from tests.support.commands import PLUGIN
from tests.support.translation import DATA, FIXTURES, LINES, translate

SOURCE = [line for line in LINES if line.strip()][:6]


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """A source text, a model's translations of it, and references that differ a little."""
    monkeypatch.chdir(tmp_path)
    checkpoint = FIXTURES / "convs2s.pt"
    translations = translate(checkpoint, SOURCE, tmp_path)
    references = [f"{line} indeed" for line in translations]
    for name, lines in (("src", SOURCE), ("hyp", translations), ("ref", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return checkpoint


def evaluate(capsys, *arguments):
    assert main(["evaluate", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_checkpoint_scores_like_its_translations(texts, capsys, tmp_path):
    printed = evaluate(
        *(capsys, f"model={texts}", "file=hyp", "--data", DATA, "--source", "src"),
        *("--references", "ref", "--output", "scores.json", "--translations", "out"),
    )
    assert (tmp_path / "out" / "model.txt").read_text() == (tmp_path / "hyp").read_text()
    content = json.loads((tmp_path / "scores.json").read_text())
    model, file = content["results"]
    assert model["scores"] == file["scores"] and file["tests"]["BLEU"]["p"] == 1
    hypotheses, references = ((tmp_path / name).read_text().splitlines() for name in ("hyp", "ref"))
    expected = BLEU(force=True).corpus_score(hypotheses, [references]).score
    assert model["scores"]["BLEU"] == pytest.approx(expected)
    assert f"{expected:.2f}" in printed and "| source tokens" in printed


def test_the_command_as_a_user_starts_it(texts, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "convs2s", "evaluate", "hyp", "--references", "ref",
         "--metrics", "tokenized_bleu,rouge", "--min-words", "2"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PLUGIN.parent), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "tokenized BLEU" in done.stdout and "ROUGE-L F1" in done.stdout
    assert f"of {len(SOURCE)} outputs have fewer than 2 words" in done.stdout


def program(*arguments):
    """The command as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "convs2s", "evaluate", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONPATH": str(PLUGIN.parent), "PATH": "/usr/bin", "PYTHONUTF8": "1"},
    )


def test_a_tokenizer_for_chinese(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("hyp", "两只狗在草地上跑。\n"), ("ref", "两只狗在草地上奔跑。\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    scores = ["hyp", "--references", "ref", "--output", "scores.json"]
    done = program(*scores, "--tokenize", "zh")
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "scores.json").read_text())
    (result,) = content["results"]
    assert "tok:zh" in content["settings"]["BLEU"] and "tok:zh" in done.stdout
    expected = BLEU(tokenize="zh").corpus_score(*map(_lines, ("hyp", "ref"))).score
    assert result["scores"]["BLEU"] == pytest.approx(expected)
    assert result["by_length"][0]["bleu"] == pytest.approx(expected)
    assert "tok:13a" in program(*scores).stdout
    done = program(*scores, "--tokenize", "moses")
    assert done.returncode == 2 and "choose from none, zh, 13a, intl" in done.stderr
    assert "(default: 13a, that of sacreBLEU)" in " ".join(program("--help").stdout.split())


def _lines(path):
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return lines if path == "hyp" else [lines]


def test_rouge_of_chinese_is_refused_before_anything_is_translated(texts, tmp_path):
    (tmp_path / "zh").write_text("两只狗。\n" * len(SOURCE), encoding="utf-8")
    done = program(
        *(texts, "--data", DATA, "--source", "src", "--references", "zh"),
        *("--metrics", "chrf,rouge", "--translations", "out"),
    )
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert done.stderr.startswith("convs2s evaluate: error: ROUGE cannot score these references")
    assert "Traceback" not in done.stderr and not done.stdout


def test_alignments(texts, tmp_path, capsys):
    (tmp_path / "gold").write_text("1-1 2p2\n")
    (tmp_path / "links").write_text("0-0 0-1\n")
    printed = evaluate(
        capsys,
        "--links",
        "mine=links",
        "--gold-links",
        "gold",
        "--gold-from-one",
        "--output",
        "scores.json",
    )
    assert "| mine  |     50.00 | 100.00 |                33.33 |" in printed
    content = json.loads((tmp_path / "scores.json").read_text())
    assert content["alignments"]["mine"]["recall"] == 100


def test_alignments_of_a_model(texts, tmp_path, capsys):
    """Each sentence pair has the links of its own attention, whatever its batch."""
    translator = Translator(texts, data=DATA)
    targets = (tmp_path / "hyp").read_text(encoding="utf-8").splitlines()
    assert len({len(line.split()) for line in SOURCE}) > 1
    gold = []
    for source, target in zip(SOURCE, targets):
        weights = compute_attention(translator.ensemble, source, target).maps.mean()[0]
        best = weights[:-1, : len(source.split())].argmax(dim=1).tolist()
        gold.append(" ".join(f"{s}-{t}" for t, s in enumerate(best)))
    (tmp_path / "gold").write_text("".join(f"{line}\n" for line in gold))
    shifted = [re.sub(r"(\d+)-", lambda found: f"{int(found[1]) + 1}-", line) for line in gold]
    (tmp_path / "shifted").write_text("".join(f"{line}\n" for line in shifted))
    for file, rate in (("gold", 0.0), ("shifted", 100.0)):
        evaluate(
            *(capsys, "--links", f"model={texts}", "--gold-links", file, "--data", DATA),
            *("--source", "src", "--references", "hyp", "--output", "scores.json"),
        )
        content = json.loads((tmp_path / "scores.json").read_text())
        assert content["alignments"]["model"]["error_rate"] == pytest.approx(rate)


def test_no_sentence_pairs(texts, tmp_path, capsys):
    (tmp_path / "none").write_text("")
    files = (f"--{name}" for name in ("gold-links", "source", "references"))
    arguments = [word for option in files for word in (option, "none")]
    assert main(["evaluate", "--links", str(texts), "--data", str(DATA), *arguments]) == 2
    assert "There are no links to score" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "There is nothing to evaluate"),
        (["hyp"], "Systems need --references"),
        (["--links", "hyp"], "--links needs --gold-links"),
        (["model.pt", "--references", "ref"], "There is no file model.pt"),
        (["{model}", "--references", "ref"], "has nothing to translate"),
        (["hyp", "--references", "ref", "--metrics", "bleurt"], "There is no metric bleurt"),
        (["hyp", "hyp", "--references", "ref"], "Two systems are the same file: hyp and hyp"),
        (["a=hyp", "a=src", "--references", "ref"], "Two systems are called a"),
        (["hyp", "--references", "ref", "--references", "ref"], "ref is given twice"),
        (
            ["--links", "gold", "--links", "b=gold", "--gold-links", "gold"],
            "Two alignments are the same file: gold and b=gold",
        ),
        (["hyp", "--references", "ref", "--min-words", "0"], "--min-words is 0"),
        (["hyp", "--references", "ref", "--length-bounds", "a"], "--length-bounds is a"),
        (["hyp", "--references", "ref", "--output", "no/scores.json"], "there is no folder no"),
        (["hyp", "--references", "ref", "--source", "one"], "one has 1 lines, but ref has 6"),
        (["--links", "{model}", "--gold-links", "gold"], "has nothing to align"),
        (
            [
                "--links",
                "{model}",
                "--gold-links",
                "gold",
                "--source",
                "src",
                "--references",
                "ref",
            ],
            "src has 6 lines, but gold has 1",
        ),
    ],
)
def test_errors(arguments, message, texts, tmp_path, capsys):
    (tmp_path / "one").write_text("one\n")
    (tmp_path / "gold").write_text("0-0\n")
    assert main(["evaluate", *(each.format(model=texts) for each in arguments)]) == 2
    assert message in capsys.readouterr().err
