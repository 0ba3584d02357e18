"""``convs2s score`` on files of text, beside fairseq-generate and in Python."""

import gzip
import subprocess

import pytest

from convs2s.evaluation.nbest import marked
from convs2s.translation import Translator
from tests.support.commands import generate, server
from tests.support.translation import DATA, FIXTURES, LINES, prepared, text_file

MODEL = FIXTURES / "convs2s.pt"
GIVEN = ("--path", MODEL, "--data", DATA, "--device", "cpu", "--raw")


def score(folder, *arguments):
    return subprocess.run(
        [server().programs / "convs2s", "score", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def rows(done):
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_scores_are_those_of_fairseq(corpus, trained, tmp_path):
    path = trained / "checkpoint_last.pt"
    files = ("--input", corpus / "test.de", "--target-input", corpus / "test.en")
    model = ("--path", path, "--data", corpus / "bin", "--raw", "--device", "cpu")
    found = rows(score(tmp_path, *model, *files, "--tokens", "--max-tokens", "50"))
    printed = generate(corpus, path, "--score-reference")
    expected, targets = marked(printed, "P"), marked(printed, "T")
    assert len(found) == len(expected) == 24
    for number, (total, mean, tokens, of_tokens) in enumerate(found):
        scores = [float(one) for one in of_tokens.split(" ")]
        fairseqs = [float(one) for one in expected[number][0].split()]
        assert scores == pytest.approx(fairseqs, abs=1.01e-4)
        assert tokens.split(" ") == [*targets[number][0].split(), "</s>"]
        assert float(total) == pytest.approx(sum(scores), abs=1e-3)
        assert float(mean) == pytest.approx(float(total) / len(scores), abs=1e-3)


def test_ensembles_compressed_text_and_empty_lines(tmp_path):
    sources, targets = ["eins zwei", "", "drei", ""], ["zwei-th eins-th", "eins-th", "", ""]
    with gzip.open(tmp_path / "de.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in sources)
    text_file(tmp_path, targets, "en")
    paths = [FIXTURES / f"{name}.pt" for name in ("convs2s", "adl", "pervasive")]
    given = ("--path", *paths, "--data", DATA, "--device", "cpu")
    files = ("--input", "de.gz", "--target-input", "en", "--output", "scores.tsv")
    done = score(tmp_path, *given, *files)
    assert done.returncode == 0 and done.stdout == ""
    assert "There is no preparation.yaml" in done.stderr
    expected = Translator(paths, data=DATA, device="cpu").score(sources, targets)
    lines = [f"{pair.log_prob:.4f}\t{pair.score:.4f}\n" for pair in expected]
    assert (tmp_path / "scores.tsv").read_text(encoding="utf-8") == "".join(lines)
    assert [len(pair.tokens) for pair in expected] == [3, 2, 1, 1]


def test_text_is_prepared_on_both_sides(tmp_path):
    (tmp_path / "codes.bpe").write_text("#version: 0.2\nq q\n", encoding="utf-8")
    files = {"source": "codes.bpe", "target": "codes.bpe"}
    prepared(tmp_path, subwords={"method": "subword_nmt", "files": files})
    text_file(tmp_path, ["EI"], "de")
    text_file(tmp_path, ["ON two"], "en")
    given = ("--path", MODEL, "--data", tmp_path / "data-bin", "--device", "cpu", "--tokens")
    done = score(tmp_path, *given, "--input", "de", "--target-input", "en")
    ((_, _, tokens, scores),) = rows(done)
    # "o@@ n t@@ w@@ o", which the dictionary does not have.
    assert tokens.split() == ["<unk>"] * 5 + ["</s>"] and len(scores.split()) == 6


REFUSED = {
    "fewer lines": ("de", "one", "de, line 2: one has no such line: it ends after 1; both must"),
    "no file": ("de", "no", "There is no file no (--target-input)."),
    "too long": ("long", "en", "Sentence pair 2 (counted from 1) has 31 x 2 tokens"),
    "not text": ("de", "latin1", "latin1, line 1: byte 0xfc at offset 0 is not valid UTF-8"),
    "output": ("de", "en", "no folder missing"),
    "is read": ("de", "en", "de"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind, tmp_path):
    for name, lines in {"de": 2, "en": 2, "one": 1}.items():
        text_file(tmp_path, ["eins"] * lines, name)
    text_file(tmp_path, ["eins", "eins " * 30], "long")
    (tmp_path / "latin1").write_bytes(b"\xfcber\n\n")
    source, target, message = REFUSED[kind]
    more = {"output": ("--output", "missing/scores"), "is read": ("--output", "de")}.get(kind, ())
    done = score(tmp_path, *GIVEN, "--input", source, "--target-input", target, *more)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.startswith("convs2s score: error: ") and message in done.stderr


def test_text_is_checked_before_the_model_is_loaded(tmp_path):
    text_file(tmp_path, ["eins"] * 2, "de")
    text_file(tmp_path, ["eins"], "en")
    files = ("--input", "de", "--target-input", "en")
    text_file(tmp_path, ["not a checkpoint"], "model.pt")
    done = score(tmp_path, "--path", "model.pt", *files)
    assert done.returncode == 2 and "en has no such line" in done.stderr
    text_file(tmp_path, LINES[:2], "en")
    done = score(tmp_path, "--path", "model.pt", *files)
    assert done.returncode == 2 and "is not a complete checkpoint" in done.stderr
