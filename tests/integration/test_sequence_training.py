"""Sequence-level training with fairseq's commands."""

import re

import pytest
import torch

import convs2s_plugin  # noqa: F401  (lets torch read fairseq's checkpoints)
from convs2s.checkpoints.files import num_updates
from tests.conftest import WORDS
from tests.integration.test_several_workers import free_port, launch
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    TINY,
    assert_same_weights,
    fairseq,
    generate,
    quick_command,
    refused,
    run,
    train,
    train_arguments,
)

RISK = (*TASK, "--criterion", "convs2s_sequence_risk", "--sequence-candidates", "4")
# One update at a time from the same start, so that trainings can be compared.
FROM_START = ("--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler")
SGD = TINY[:-2] + ("--batch-size", "60", "--optimizer", "sgd", "--dropout", "0.0", "--lr", "1")


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    """A model after a short training with likelihood, which still makes errors."""
    folder = tmp_path_factory.mktemp("start")
    train(corpus, folder, *TASK, *CRITERION, "--max-epoch", "5")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def nbest(corpus, start, tmp_path_factory):
    """The n-best lists of the training data."""
    path = tmp_path_factory.mktemp("nbest") / "train.nbest"
    path.write_text(
        generate(corpus, start, *TASK, "--beam", "4", "--nbest", "4", subset="train"),
        encoding="utf-8",
    )
    return path


def numbers(log, name, kind="valid"):
    """The values of a metric in a log."""
    lines = [line for line in log.splitlines() if f"| {kind}" in line or f"{kind} on" in line]
    found = (re.search(rf"\| {name} (\S+)", line) for line in lines)
    return [float(match[1]) for match in found if match]


def continued(corpus, folder, start, *arguments, options=TINY):
    return train(
        corpus, folder, *RISK, "--restore-file", start, *FROM_START, *arguments, options=options
    )


RISK_ONLY = ("--sequence-weight", "1", "--sequence-temperature", "0.2")


def test_the_risk_falls_and_the_best_bleu_is_kept(corpus, start, tmp_path):
    log = continued(
        *(corpus, tmp_path, start, "--max-epoch", "3", "--sequence-weight", "0.9"),
        *("--sequence-temperature", "0.2", "--sequence-dropout"),
        *("--lr", "0.003", "--patience", "2"),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 4, "max_len_b": 30}'),
        *("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
    )
    risks, scores = numbers(log, "risk"), numbers(log, "sentence_bleu")
    assert len(risks) == 3 and risks[-1] < risks[0] and scores[-1] > scores[0]
    assert numbers(log, "oracle_bleu")[0] > scores[0]
    assert numbers(log, "best_bleu")[-1] == max(numbers(log, "bleu"))
    shares = numbers(log, "search_share", kind="train")
    assert shares and all(0 < share < 1 for share in shares)

    printed = fairseq(
        "validate",
        *(corpus / "bin", "--user-dir", PLUGIN, "--path", tmp_path / "checkpoint_last.pt"),
        *(*RISK, "--valid-subset", "valid", "--batch-size", "24", "--cpu", "--no-progress-bar"),
        *("--log-format", "simple", "--sequence-temperature", "0.2"),
    )
    assert numbers(printed, "risk")[-1] == pytest.approx(risks[-1], abs=2e-4)
    assert numbers(printed, "sentence_bleu")[-1] == pytest.approx(scores[-1], abs=0.02)


@pytest.mark.parametrize("search", ["beam", "sampling"])
def test_a_training_that_diverges(search, corpus, tmp_path):
    options = (*SGD[:-2], "--lr", "1e30", "--sequence-search", search, "--max-update", "5")
    done = run("train", *train_arguments(corpus, tmp_path, *RISK, options=options))
    assert "a smaller --lr" in refused(done)


VALIDATE = ("--valid-subset", "valid", "--batch-size", "24", "--cpu", "--no-progress-bar")


def validated(corpus, path, *arguments):
    """What fairseq-validate prints, without ``--task``."""
    options = ("--user-dir", PLUGIN, "--path", path, *VALIDATE, "--log-format", "simple")
    return fairseq("validate", corpus / "bin", *options, "--num-workers", "0", *arguments)


def test_fairseq_validate_takes_another_criterion(corpus, start, tmp_path):
    """The task and the other options of the criterion are those of the checkpoint."""
    likelihood = validated(corpus, start)
    assert not numbers(likelihood, "risk")
    risk = validated(corpus, start, "--criterion", "convs2s_sequence_risk")
    assert numbers(risk, "nll_loss") == numbers(likelihood, "nll_loss")
    assert len(numbers(risk, "risk")) == len(numbers(risk, "sentence_bleu")) == 1

    log = continued(corpus, tmp_path, start, "--max-update", "1", "--sequence-cost", "chrf")
    last = tmp_path / "checkpoint_last.pt"
    assert numbers(validated(corpus, last), "sentence_chrf") == numbers(log, "sentence_chrf")
    tokens = validated(corpus, last, "--criterion", "convs2s_cross_entropy")
    assert numbers(tokens, "nll_loss") == numbers(log, "nll_loss")
    assert not numbers(tokens, "risk")


def test_the_time_of_the_training_before_does_not_count(corpus, start, tmp_path):
    before = tmp_path / "before.pt"
    checkpoint = torch.load(start, weights_only=False)
    checkpoint["extra_state"]["previous_training_time"] = 36000
    torch.save(checkpoint, before)
    limits = ("--stop-time-hours", "5", "--max-update", "2")
    stopped = "cumulative_training_time: "

    folder = tmp_path / "new"
    log = train(corpus, folder, *RISK, "--finetune-from-model", before, *limits)
    assert stopped not in log and numbers(log, "num_updates")[-1] == 2
    log = continued(corpus, tmp_path / "reset", before, *limits)
    assert stopped not in log and numbers(log, "num_updates")[-1] == 2

    last = folder / "checkpoint_last.pt"
    checkpoint = torch.load(last, weights_only=False)
    assert checkpoint["extra_state"]["previous_training_time"] < 18000
    checkpoint["extra_state"]["previous_training_time"] = 36000
    torch.save(checkpoint, last)
    more = ("--stop-time-hours", "5", "--max-update", "5")
    log = train(corpus, folder, *RISK, "--finetune-from-model", before, *more)
    assert stopped in log and not numbers(log, "num_updates")
    assert num_updates(str(last)) == 2


FAIRSEQ_TRANSFORMER = (
    *("--arch", "transformer_iwslt_de_en", "--encoder-embed-dim", "16"),
    *("--decoder-embed-dim", "16", "--encoder-layers", "1", "--decoder-layers", "1"),
    *("--optimizer", "adam", "--lr", "0.001", "--batch-size", "40"),
)


def test_checkpoint_activations_are_refused(corpus, tmp_path):
    options = (*FAIRSEQ_TRANSFORMER, "--checkpoint-activations")
    done = run("train", *train_arguments(corpus, tmp_path, *RISK, options=options))
    assert "--checkpoint-activations and --offload-activations do not allow" in refused(done)


@pytest.fixture(scope="module")
def one_update(corpus, start, tmp_path_factory):
    """The model after one update with all training pairs in one batch."""
    folder = tmp_path_factory.mktemp("one")
    arguments = ("--batch-size", "240", "--max-update", "1", *RISK_ONLY)
    log = continued(corpus, folder, start, *arguments, options=SGD)
    assert numbers(log, "num_updates")[-1] == 1
    return folder / "checkpoint_last.pt"


def test_update_freq_is_a_larger_batch(corpus, start, one_update, tmp_path):
    arguments = ("--batch-size", "120", "--update-freq", "2", "--max-update", "1", *RISK_ONLY)
    continued(corpus, tmp_path, start, *arguments, options=SGD)
    assert_same_weights(one_update, tmp_path / "checkpoint_last.pt", atol=1e-6, rtol=1e-4)


def test_two_workers_are_one_with_a_larger_batch(corpus, start, one_update, tmp_path):
    program, *_ = quick_command("train")
    log = launch(
        "--nproc-per-node",
        "2",
        "--master-port",
        free_port(),
        "--no-python",
        program,
        *train_arguments(
            corpus,
            tmp_path,
            *RISK,
            "--restore-file",
            start,
            *FROM_START,
            *RISK_ONLY,
            "--batch-size",
            "120",
            "--max-update",
            "1",
            options=SGD,
        ),
    )
    assert "training on 2 devices" in log and 0 < numbers(log, "risk")[-1] < 1
    assert_same_weights(one_update, tmp_path / "checkpoint_last.pt", atol=1e-6, rtol=1e-4)


def test_candidates_of_a_file_are_those_of_the_search(corpus, start, nbest, one_update, tmp_path):
    """The search of the first update is that of fairseq-generate with the same model."""
    arguments = ("--batch-size", "240", "--max-update", "1", *RISK_ONLY)
    from_file = ("--sequence-candidate-file", nbest)
    continued(corpus, tmp_path, start, *arguments, *from_file, options=SGD)
    assert_same_weights(one_update, tmp_path / "checkpoint_last.pt", atol=1e-6, rtol=1e-4)


def test_a_resumed_training_samples_the_same_candidates(corpus, start, tmp_path):
    arguments = ("--sequence-search", "sampling", "--sequence-reference", "--sequence-dropout")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    continued(corpus, whole, start, *arguments, "--max-update", "5")
    continued(corpus, resumed, start, *arguments, "--max-update", "2")
    train(corpus, resumed, *RISK, *arguments, "--max-update", "5")
    assert_same_weights(whole / "checkpoint_last.pt", resumed / "checkpoint_last.pt")


def test_training_among_candidate_vocabularies(corpus, start, tmp_path):
    lexicon = tmp_path / "lexicon"
    lexicon.write_text("".join(f"{word} {word}-th 0.9\n" for word in WORDS), encoding="utf-8")
    log = continued(
        *(corpus, tmp_path, start, "--max-update", "2", "--batch-size", "2"),
        *("--lexicon", lexicon, "--frequent-candidates", "0", "--sequence-search", "sampling"),
        *("--sequence-cost", "chrf", "--sequence-loss", "margin"),
        options=TINY[:-2],
    )
    sizes = numbers(log, "candidates", kind="train")
    assert sizes and all(5 < size < 16 for size in sizes)
    assert 0 < numbers(log, "sentence_chrf")[-1] < 100


FAMILIES = {
    "adl": ("--arch", "adl_transformer_small", "--model-dim", "16", "--ff-dim", "16"),
    "pervasive": (
        *("--arch", "pervasive_iwslt_de_en", "--num-layers", "2", "--growth-rate", "4"),
        *("--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--max-cells", "2000"),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_other_families_in_half_precision(family, corpus, tmp_path):
    log = train(
        corpus,
        tmp_path,
        *RISK,
        "--max-update",
        "2",
        "--autocast-dtype",
        "bfloat16",
        options=(*FAMILIES[family], "--optimizer", "adam", "--lr", "0.001", "--batch-size", "20"),
    )
    assert 0 < numbers(log, "risk")[-1] <= 1


def other_text(text):
    return text.replace("S-3\t", "S-3\tacht ", 1)


BAD_FILES = {
    "other text": (other_text, "does not fit the training data: sentence 3 (counted from 0)"),
    "other tokens": (
        lambda text: text.replace("-th\n", "-th mehr\n"),
        "has the token 'mehr', which is not in it",
    ),
    "a sentence is missing": (
        lambda text: "".join(
            line for line in text.splitlines(True) if not re.match(r"[A-Z]-7\t", line)
        ),
        "has no candidates for sentence 7 of the training data",
    ),
    "one candidate": (
        lambda text: "".join(
            line
            for number in range(240)
            for line in re.findall(rf"^H-{number}\t.*\n", text, re.M)[:1]
        ),
        "has one candidate for each sentence, but the loss needs at least 2",
    ),
    "translations": (lambda text: "eins-th zwei-th\n", "has no n-best lists"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_does_not_fit_is_refused(kind, corpus, nbest, tmp_path):
    change, message = BAD_FILES[kind]
    path = tmp_path / "nbest"
    path.write_text(change(nbest.read_text(encoding="utf-8")), encoding="utf-8")
    arguments = ("--sequence-candidate-file", path, "--batch-size", "240", "--max-update", "1")
    done = run("train", *train_arguments(corpus, tmp_path, *RISK, *arguments, options=TINY[:-2]))
    assert message in refused(done)
