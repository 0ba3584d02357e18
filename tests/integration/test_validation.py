"""Validation in fairseq-train: metrics that choose the best checkpoint, BLEU, subsets."""

import re
import shutil

import pytest

from tests.support.commands import CRITERION, TASK, refused, run, train, train_arguments

BLEU = ("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric")
ONE = ("--max-epoch", "1", "--no-epoch-checkpoints")


def refusal(corpus, folder, *options):
    """The sentence of a training that is refused before its first update."""
    done = run("train", *train_arguments(corpus, folder, *ONE, *options))
    assert "Start iterating" not in done.stdout + done.stderr
    return refused(done)


METRICS = {
    "unknown": (
        ("--best-checkpoint-metric", "bleuu"),
        "is bleuu, but validation computes only loss,",
    ),
    "bleu is not computed": (BLEU, "ppl; add --eval-bleu."),
    "near": (
        ("--eval-bleu", "--best-checkpoint-metric", "blue"),
        "ppl (did you mean 'bleu'?)",
    ),
    "accuracy": (
        ("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"),
        "add --report-accuracy",
    ),
    "the lowest BLEU": (
        ("--eval-bleu", *BLEU[:2]),
        "bleu is best if it is high: add --maximize-best-checkpoint-metric",
    ),
    "the lowest BLEU of sentences": (
        (*TASK, "--criterion", "convs2s_sequence_risk", *BLEU[:1], "sentence_bleu"),
        "sentence_bleu is best if it is high: add --maximize-best-checkpoint-metric",
    ),
    "the highest loss": (
        ("--maximize-best-checkpoint-metric",),
        "loss is best if it is low: omit --maximize-best-checkpoint-metric",
    ),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("ours", [(), (*TASK, *CRITERION)], ids=["fairseq's", "ours"])
def test_metrics_that_do_not_exist(name, ours, corpus, tmp_path):
    options, reason = METRICS[name]
    if name == "accuracy" and not ours:
        options = (*options, "--criterion", "label_smoothed_cross_entropy")
    assert reason in refusal(corpus, tmp_path, *ours, *options)
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize(
    "options",
    [
        ("--best-checkpoint-metric", "ppl"),
        ("--eval-bleu", *BLEU),
        (
            *("--criterion", "label_smoothed_cross_entropy", "--report-accuracy"),
            *("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"),
        ),
    ],
    ids=["perplexity", "BLEU", "accuracy"],
)
def test_metrics_that_exist(options, corpus, tmp_path):
    """The check draws no random numbers: the training is the same as without it."""
    train(corpus, tmp_path, *ONE, *options)
    assert (tmp_path / "checkpoint_best.pt").exists()


def test_the_check_changes_no_results(corpus, tmp_path):
    common = (*ONE, *TASK, "--criterion", "convs2s_sequence_risk", "--sequence-search", "sampling")
    loss = train(corpus, tmp_path / "loss", *common)
    perplexity = train(corpus, tmp_path / "ppl", *common, "--best-checkpoint-metric", "ppl")
    for log in (loss, perplexity):
        assert re.search(r"valid on .* \| loss", log)
    found = [re.findall(r"\| loss ([\d.]+)", log) for log in (loss, perplexity)]
    assert found[0] == found[1]


EMPTY = """
from fairseq.data import Dictionary
string, calls = Dictionary.string, []
def some_empty(self, tensor, *args, **options):
    text = string(self, tensor, *args, **options)
    is_hypothesis = options.get("unk_string") == "UNKNOWNTOKENINHYP"
    return "" if is_hypothesis and ({which}) else text
Dictionary.string = some_empty
"""


def validation_bleu(corpus, folder, which, *options):
    from tests.support.faults import train as train_after

    done = train_after(
        corpus,
        folder,
        *(*ONE, "--eval-bleu", *BLEU, "--lr", "0.03", "--max-epoch", "12", *options),
        setup=EMPTY.format(which=which),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (folder / "checkpoint_best.pt").exists()
    return [float(each) for each in re.findall(r" \| bleu ([\d.]+)", done.stdout + done.stderr)]


def test_bleu_of_empty_hypotheses_is_0(corpus, tmp_path):
    assert set(validation_bleu(corpus, tmp_path, "True", "--max-epoch", "2")) == {0.0}


def test_a_batch_of_empty_hypotheses_counts(corpus, tmp_path):
    """fairseq leaves out its references, too, which makes BLEU higher."""
    size = ("--batch-size-valid", "12")
    whole = validation_bleu(corpus, tmp_path / "whole", "False", *size)
    half = validation_bleu(
        corpus, tmp_path / "half", "calls.append(1) or len(calls) % 24 < 12", *size
    )
    assert whole[-1] > 5 and half[-1] < 0.8 * whole[-1]


OPTIONS = {
    "no JSON": (("--eval-bleu-args", "{bad"), "--eval-bleu-args is {bad, but must be a JSON"),
    "no object": (("--eval-bleu-args", "5"), "--eval-bleu-args is 5, but must be a JSON object"),
    "unknown": (
        ("--eval-bleu-args", '{"bem": 1}'),
        "bem is not an option of --eval-bleu-args (did you mean 'beam'?)",
    ),
    "type": (("--eval-bleu-args", '{"beam": "x"}'), '--eval-bleu-args has "x" as beam'),
    "number in quotes": (("--eval-bleu-args", '{"beam": "2"}'), 'has "2" as beam'),
    "list": (("--eval-bleu-args", '{"lenpen": [1]}'), "has [1] as lenpen"),
    "null": (("--eval-bleu-detok-args", "null"), "--eval-bleu-detok-args is null, but must"),
    "detokenizer": (("--eval-bleu-detok", "mose"), "--eval-bleu-detok is mose, but must be one"),
    "detokenizer twice": (
        ("--eval-bleu-detok-args", '{"tokenizer": "moses"}'),
        "--eval-bleu-detok-args has 'tokenizer'",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_bleu(name, corpus, tmp_path):
    options, reason = OPTIONS[name]
    assert reason in refusal(corpus, tmp_path, "--eval-bleu", *options)


def test_good_options_of_bleu(corpus, tmp_path):
    good = '{"beam": 2, "max_len_a": 1, "max_len_b": 5, "lenpen": 0.5}'
    log = train(corpus, tmp_path, *ONE, "--eval-bleu", "--eval-bleu-args", good)
    assert " | bleu " in log


def test_subsets(corpus, tmp_path):
    """The first one decides; a second one that is missing is refused before training."""
    log = train(corpus, tmp_path, *ONE, "--valid-subset", "valid,test")
    assert "valid on 'test' subset" in log
    assert "There is no data set valid1" in refusal(
        corpus, tmp_path, "--valid-subset", "valid,valid1"
    )


def test_a_subset_that_is_not_validated(corpus, tmp_path):
    data = tmp_path / "corpus" / "bin"
    shutil.copytree(corpus / "bin", data)
    for file in data.glob("test.de-en.*"):
        shutil.copy(file, data / file.name.replace("test", "valid1"))
    sentence = refusal(data.parent, tmp_path / "new")
    assert "valid1" in sentence and "--ignore-unused-valid-subsets" in sentence
    for number, options in enumerate(
        (
            ("--ignore-unused-valid-subsets",),
            ("--combine-valid-subsets",),
            # fairseq refuses the name that it asks for.
            ("--valid-subset", "valid,valid1"),
        )
    ):
        log = train(data.parent, tmp_path / f"{number}", *ONE, *options)
        assert ("valid on 'valid1' subset" in log) == ("--valid-subset" in options)
