"""``convs2s rerank`` on the n-best lists of a trained model."""

import json
import subprocess

import pytest

from convs2s.evaluation.nbest import read_nbest
from convs2s.evaluation.sentence_scores import SentenceCHRF
from tests.support.commands import TASK, generate, server


@pytest.fixture(scope="module")
def lists(corpus, trained, tmp_path_factory):
    """The folder of the lists of the validation and the test set."""
    folder = tmp_path_factory.mktemp("lists")
    path = trained / "checkpoint_last.pt"
    for subset in ("valid", "test"):
        printed = generate(corpus, path, *TASK, "--beam", "4", "--nbest", "4", subset=subset)
        (folder / subset).write_text(printed, encoding="utf-8")
    return folder


def rerank(*arguments):
    done = subprocess.run(
        [server().programs / "convs2s", "rerank", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    return done


def output(*arguments):
    done = rerank(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines(), done.stderr


def test_minimum_bayes_risk(lists, tmp_path):
    """The chosen hypothesis has the highest mean chrF with those of its list."""
    lines, report = output(lists / "test", "--utility", "chrf")
    utility = SentenceCHRF()
    for each, line in zip(read_nbest(str(lists / "test")), lines, strict=True):
        texts = [hypothesis.text for hypothesis in each.hypotheses]
        means = [sum(utility.score(one, other) for other in texts) for one in texts]
        assert line == texts[means.index(max(means))]
    assert report.count("BLEU") == 4 and "chosen: BLEU" in report
    output(lists / "test", "--utility", "chrf", "--output", tmp_path / "chosen")
    assert (tmp_path / "chosen").read_text(encoding="utf-8").splitlines() == lines


def test_weights_with_another_model(lists, corpus, trained, tmp_path):
    """The other model is the same one, so that its scores are those of the lists."""
    other = f"other={trained / 'checkpoint_last.pt'}"
    models = ("--model", other, "--data", corpus / "bin", "--device", "cpu", "--max-tokens", "90")
    weights = tmp_path / "weights.json"
    all_four = {"score": 1.0, "words": 0.1, "bleu": 2.0, "other": 0.5}
    weights.write_text(json.dumps(all_four), encoding="utf-8")
    lines, _ = output(lists / "test", *models, "--utility", "bleu", "--weights", weights)
    assert len(lines) == 24

    only_other = {"score": 0.0, "words": 0.0, "other": 1.0}
    weights.write_text(json.dumps(only_other), encoding="utf-8")
    by_other, _ = output(lists / "test", *models, "--weights", weights)
    first = [each.hypotheses[0].text for each in read_nbest(str(lists / "test"))]
    assert by_other == first

    scores = tmp_path / "scores"
    flat = [each for lists_ in read_nbest(str(lists / "test")) for each in lists_.hypotheses]
    scores.write_text("".join(f"{-each.score}\n" for each in flat), encoding="utf-8")
    lines, _ = output(lists / "test", "--scores", f"other={scores}", "--weights", weights)
    last = [each.hypotheses[-1].text for each in read_nbest(str(lists / "test"))]
    assert lines == last


def test_lists_with_tokens_that_the_model_does_not_know(lists, corpus, trained, tmp_path):
    joined = (lists / "test").read_text(encoding="utf-8").replace(" eins-th", "eins-th")
    (tmp_path / "joined").write_text(joined, encoding="utf-8")
    model = ("--model", f"m={trained / 'checkpoint_last.pt'}", "--data", corpus / "bin")
    (tmp_path / "weights").write_text('{"score": 1, "words": 0, "m": 1}', encoding="utf-8")
    done = rerank(tmp_path / "joined", *model, "--weights", tmp_path / "weights")
    assert done.returncode == 2 and done.stdout == ""
    assert "The n-best lists have the token '" in done.stderr
    assert "without --remove-bpe" in done.stderr and "Traceback" not in done.stderr


REFUSED = {
    "nothing": ((), "There is nothing to choose by"),
    "temperature": (("--utility", "bleu", "--temperature", "0"), "--temperature is 0.0"),
    "no utility": (("--temperature", "1"), "has no effect without --utility"),
    "no weights": (("--scores", "a=b"), "need weights: give them with --weights FILE"),
    "no name": (
        ("--scores", "file", "--weights", "1.txt"),
        "--scores is 'file', but must be NAME=FI",
    ),
    "taken": (("--scores", "words=file", "--weights", "1.txt"), "another feature called words"),
    "references": (("--utility", "bleu", "--references", "1.txt"), "1.txt has 1 line(s), but"),
    "weights": (("--weights", "1.txt"), "1.txt has no weights"),
    "infinite weights": (("--weights", "nan.txt"), "The weight of words in nan.txt is nan: give"),
    "missing weights": (("--weights", "no.json"), "There is no file no.json"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind, lists, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "1.txt").write_text("1\n", encoding="utf-8")
    (tmp_path / "nan.txt").write_text('{"score": 1, "words": NaN}', encoding="utf-8")
    arguments, message = REFUSED[kind]
    done = rerank(lists / "test", *arguments)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert message in done.stderr and done.stderr.startswith("convs2s rerank: error: ")
