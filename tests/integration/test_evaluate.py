"""``convs2s evaluate``."""

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from convs2s.cli import main
from convs2s.translation.attention import attention_of_pair
from convs2s.translation.translator import Translator
from tests.support.commands import PLUGIN, server
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


def test_an_exported_folder_is_a_model(texts, capsys, tmp_path):
    data = ("--data", str(DATA), "--no-speed")
    assert main(["export", str(texts), str(tmp_path / "folder"), *data]) == 0
    arguments = ("--source", "src", "--references", "ref", "--output", "scores.json")
    evaluate(capsys, f"checkpoint={texts}", "folder=folder", "--data", DATA, *arguments)
    one, other = json.loads((tmp_path / "scores.json").read_text())["results"]
    assert one["scores"] == other["scores"]


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


def program(*arguments, **environment):
    """The command as a user starts it."""
    common = {"PYTHONPATH": str(PLUGIN.parent), "PATH": "/usr/bin", "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, "-m", "convs2s", "evaluate", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**common, **environment},
    )


# Shows a bar at once, and marks each batch.
MARKED_BATCHES = """
import sys
from convs2s.cli import main
from convs2s.common import progress
from convs2s.translation.ensemble import Ensemble
def translate(self, sentences, original=Ensemble.translate):
    print("BATCH", file=sys.stderr)
    return original(self, sentences)
Ensemble.translate = translate
progress.TERMINAL_SECONDS = 0.0
sys.exit(main())
"""


@pytest.mark.parametrize("in_terminal", [True, False])
def test_progress_of_a_checkpoint(in_terminal, texts):
    """In a terminal, a bar moves after each batch; a file has a line after 30 seconds."""
    command = [server().programs / "python", "-c", MARKED_BATCHES, "evaluate", texts]
    options = ["--data", DATA, "--raw", "--max-tokens", "20", "--source", "src", "-b"]
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    with open("errors", "wb") as file:
        done = subprocess.run(
            [*command, *options, "--references", "ref"],
            stdout=subprocess.PIPE,
            stderr=slave if in_terminal else file,
        )
    os.close(slave)
    shown = os.read(master, 100_000).decode() if in_terminal else Path("errors").read_text()
    os.close(master)
    assert done.returncode == 0 and re.fullmatch(r"\d+\.\d\d\n", done.stdout.decode())
    *earlier, last = shown.split("BATCH")
    assert len(earlier) > 2
    if in_terminal:
        assert re.search(rf"[1-9]/{len(SOURCE)} \[", earlier[-1])
        assert f"{len(SOURCE)}/{len(SOURCE)} [" in last
    else:
        assert not shown.replace("BATCH", "").strip()


def test_translations_that_are_cut_off(texts):
    options = ("--data", DATA, "--raw", "--source", "src", "--references", "ref", "-b")
    done = program(texts, *options, "--max-len-b", "1")
    assert done.returncode == 0
    assert "translation(s) may be cut off at the largest length" in done.stderr
    assert done.stderr.count("\n") == 1


def test_only_the_scores(texts):
    metrics = ("--references", "ref", "--metrics", "ter,bleu")
    done = program("hyp", "src", *metrics, "-b")
    assert (done.returncode, done.stderr) == (0, "")
    table = program("hyp", "src", *metrics).stdout.splitlines()[2:4]
    assert done.stdout.split() == [row.split("|")[2].split()[0] for row in table]


def test_confidence_intervals(texts, tmp_path):
    done = program("hyp", "src", "--references", "ref", "--output", "scores.json")
    first, second = json.loads((tmp_path / "scores.json").read_text())["results"]
    for name in first["scores"]:
        score, test = second["scores"][name], second["tests"][name]
        assert f" {score:.2f} ± {test['confidence']:.2f} (p = {test['p']:.3f}) " in done.stdout
        assert f" {first['scores'][name]:.2f} ± {first['tests'][name]['confidence']:.2f} |" in (
            done.stdout
        )


@pytest.fixture
def cache(tmp_path):
    """A folder of sacreBLEU with the English-German and English-Chinese files of wmt17."""
    raw = tmp_path / "cache" / "wmt17" / "raw"
    (raw / "test").mkdir(parents=True)
    (raw / "wmt17.test.tgz").write_bytes(b"archive")
    for pair, side, lines in (
        ("ende", "src.en", ["A dog .", "It is green ."]),
        ("ende", "ref.de", ["Ein Hund .", "Es ist grün ."]),
        ("enzh", "src.en", ["Two dogs run on the grass ."]),
        ("enzh", "ref.zh", ["两只狗在草地上奔跑。"]),
    ):
        text = "".join(f'<seg id="{n}"> {line} </seg>\n' for n, line in enumerate(lines, start=1))
        (raw / "test" / f"newstest2017-{pair}-{side}.sgm").write_text(text, encoding="utf-8")
    return tmp_path / "cache"


def test_a_test_set_of_sacrebleu(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hyp").write_text("Ein Hund .\nEs ist rot .\n", encoding="utf-8")
    done = program(
        "hyp", "-t", "wmt17", "-l", "en-de", "--output", "out.json", SACREBLEU=str(cache)
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    references = [["Ein Hund .", "Es ist grün ."]]
    expected = BLEU(force=True).corpus_score(["Ein Hund .", "Es ist rot ."], references).score
    assert result["scores"]["BLEU"] == pytest.approx(expected)
    assert "| source tokens" in done.stdout
    (tmp_path / "hyp").write_text("两只狗在草地上跑。\n", encoding="utf-8")
    done = program("hyp", "-t", "wmt17", "-l", "en-zh", SACREBLEU=str(cache))
    assert done.returncode == 0 and "tok:zh" in done.stdout, done.stderr


def test_a_checkpoint_translates_the_source_of_a_test_set(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test_set = ("--test-set", "wmt17", "--language-pair", "en-de")
    done = program(
        FIXTURES / "convs2s.pt", "--data", DATA, *test_set, "--translations", "out",
        SACREBLEU=str(cache),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "out").iterdir()
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("-t wmt17 -l en-fi", "cannot be read"),
        ("-t wmt17 -l de-en --references hyp", "--references"),
        ("-t wmt17 -l en-dd", "did you mean 'en-de'"),
        ("-t wmt17", "--language-pair is missing"),
        ("-t wmt-17 -l en-de", "did you mean 'wmt17'"),
        ("-t de", "--target-lang"),
        ("-l en-de --references hyp", "needs --test-set"),
        ("-t wmt18 -l en-de", "`sacrebleu --download wmt18 --language-pair en-de`"),
        # Its archive names the references.
        ("-t wmt22 -l en-de", "`sacrebleu --download wmt22 --language-pair en-de`"),
        ("-t wmt17 -l en-de", "hyp has 1 line(s), but"),
        ("-b --links hyp --gold-links hyp", "--score-only"),
    ],
)
def test_test_sets_that_are_refused(arguments, words, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hyp").write_text("Ein Hund .\n", encoding="utf-8")
    done = program("hyp", *arguments.split(), SACREBLEU=str(cache))
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("convs2s evaluate: error: ")
    assert [path.name for path in cache.iterdir()] == ["wmt17"]


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
    assert done.returncode == 2 and "no tokenizer moses" in done.stderr
    assert "otherwise 13a)" in " ".join(program("--help").stdout.split())


def test_sentences_that_are_too_short_for_bleu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "ein Hund .\nzwei Hunde .\nein Hund läuft durch das Gras .\nzwei Hunde laufen hier .\n"
    (tmp_path / "ref").write_text(text, encoding="utf-8")
    (tmp_path / "bad").write_text("Hund\nHund\nHund\nHund\n", encoding="utf-8")
    arguments = ["good=ref", "bad", "--references", "ref", "--length-bounds", "3"]
    done = program(*arguments, "--output", "scores.json", "--score-only")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "scores.json").read_text())["results"]
    found = [[group["bleu"] for group in result["by_length"]] for result in results]
    # A translation without four tokens is a bad one of a reference that has them.
    assert found == [[None, pytest.approx(100)], [None, 0]]
    printed = program(*arguments).stdout
    assert re.search(r"\| 3 +\| +2 \| +– \| +– \|", printed)
    assert "–: BLEU counts sequences of four tokens" in printed


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
        weights = attention_of_pair(translator.ensemble, source, target).maps[0].mean()[0]
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
        (
            ["a/b={model}", "a_b=copy.pt", "--source", "src", "--references", "ref"]
            + ["--translations", "out"],
            "The systems a/b and a_b would both write out/a_b.txt",
        ),
        (["hyp", "--references", "ref", "--length-bounds", "a"], "--length-bounds is a"),
        (["hyp", "--references", "ref", "--output", "no/scores.json"], "there is no folder no"),
        (["hyp", "--references", "ref", "--source", "one"], "one has 1 line(s), but ref has 6"),
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
            "src has 6 line(s), but gold has 1",
        ),
    ],
)
def test_errors(arguments, message, texts, tmp_path, capsys):
    (tmp_path / "one").write_text("one\n")
    (tmp_path / "copy.pt").write_bytes(texts.read_bytes())
    (tmp_path / "gold").write_text("0-0\n")
    assert main(["evaluate", *(each.format(model=texts) for each in arguments)]) == 2
    assert message in capsys.readouterr().err
