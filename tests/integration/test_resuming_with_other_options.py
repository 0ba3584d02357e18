"""A training run is continued with other options: it works, or one sentence says what to add."""

import re
import shutil

import pytest
import torch

from tests.support.commands import (
    CRITERION,
    TASK,
    TINY,
    assert_same_weights,
    refused,
    run,
    train,
    train_arguments,
)

SMOOTHED = ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1")
OURS = (*CRITERION, "--label-smoothing", "0.1")
# Of 11 batches of an epoch, with 100 tokens.
SMALL = (*TINY, "--max-tokens", "100", *TASK)
MIDDLE = ("--max-update", "4", "--disable-validation")
REST = ("--max-epoch", "1", "--disable-validation")


@pytest.fixture(scope="module")
def middle(corpus, tmp_path_factory):
    """A training in the middle of its first epoch."""
    folder = tmp_path_factory.mktemp("middle")
    train(corpus, folder, *SMOOTHED, *MIDDLE, options=SMALL)
    return folder


@pytest.fixture
def continued(corpus, middle, tmp_path):
    """A function that continues this training with more options."""

    def go_on(*options):
        folder = tmp_path / "continued"
        shutil.copytree(middle, folder)
        return run(
            "train", *train_arguments(corpus, folder, *SMOOTHED, *REST, *options, options=SMALL)
        )

    return go_on


def loaded(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)


def test_the_criterion_of_the_same_loss(corpus, continued, tmp_path):
    """It continues like a training that had this criterion from the beginning."""
    done = continued(*OURS)
    assert done.returncode == 0, done.stderr[-2000:]
    train(corpus, tmp_path / "ours", *OURS, *REST, options=SMALL)
    last = "checkpoint_last.pt"
    assert_same_weights(tmp_path / "ours" / last, tmp_path / "continued" / last, rtol=0, atol=1e-4)


def test_fairseqs_criterion_continues_ours(corpus, tmp_path):
    train(corpus, tmp_path, *OURS, *MIDDLE, options=SMALL)
    train(corpus, tmp_path, *SMOOTHED, *REST, options=SMALL)
    last = loaded(tmp_path)["optimizer_history"][-1]
    assert last["criterion_name"] == "LabelSmoothedCrossEntropyCriterion"
    assert last["num_updates"] > 4


REFUSED = {
    "a criterion of another loss": (
        (*CRITERION, "--ignore-prefix-size", "1"),
        "written with --criterion label_smoothed_cross_entropy, which has another loss than the "
        "convs2s_cross_entropy",
        "--reset-optimizer",
    ),
    "another smoothing and criterion": (
        (*CRITERION, "--label-smoothing", "0.2"),
        "which has another loss than the convs2s_cross_entropy",
        "--reset-optimizer",
    ),
    "a second pass": (
        (*OURS, "--simcut-weight", "3"),
        "which has another loss than the convs2s_cross_entropy",
        "--reset-optimizer",
    ),
    "another smoothing": (
        ("--label-smoothing", "0.2"),
        "written with --label-smoothing 0.1, but this training run has 0.2, which is another loss",
        "--reset-optimizer",
    ),
    "an optimizer": (
        ("--optimizer", "nag"),
        "written with --optimizer adam, whose state nag cannot continue",
        "--reset-optimizer",
    ),
    "a precision": (
        ("--bf16",),
        "Optimizer of the checkpoint and of this training run differ: FairseqAdam",
        "--reset-optimizer",
    ),
    "a scheduler": (
        ("--lr-scheduler", "reduce_lr_on_plateau"),
        "written with --lr-scheduler fixed, whose state reduce_lr_on_plateau cannot continue",
        "--reset-lr-scheduler",
    ),
    "a scheduler of this package": (
        ("--lr-scheduler", "budgeted"),
        "written with --lr-scheduler fixed",
        "--reset-lr-scheduler",
    ),
    "larger batches": (
        ("--max-tokens", "400"),
        "--max-tokens 100 (now 400)",
        "--reset-dataloader",
    ),
    "smaller batches": (
        ("--max-tokens", "50"),
        "--max-tokens 100 (now 50)",
        "--reset-dataloader",
    ),
    "another order": (("--seed", "2"), "--seed 1 (now 2)", "--reset-dataloader"),
    "fewer pairs": (
        ("--max-train-words", "4"),
        "--max-train-words None (now 4)",
        "--reset-dataloader",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_continue(name, continued):
    options, reason, addition = REFUSED[name]
    sentence = refused(continued(*options))
    assert reason in sentence and f"add {addition}" in sentence


@pytest.mark.parametrize("name", REFUSED)
def test_with_what_the_sentence_says(name, continued):
    options, _, addition = REFUSED[name]
    done = continued(*options, addition, "--max-epoch", "2")
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_new_scheduler_has_its_own_learning_rate(continued):
    """fairseq keeps that of the checkpoint."""
    done = continued(
        *("--lr-scheduler", "reduce_lr_on_plateau", "--lr", "0.003", "--reset-lr-scheduler"),
        *("--log-interval", "1"),
    )
    assert "| lr 0.003 |" in done.stdout and "| lr 0.01 |" not in done.stdout


def test_a_new_beginning_ends_with_the_learning_rate_zero(corpus, tmp_path):
    budget = (*OURS, "--lr-scheduler", "budgeted", "--disable-validation")
    train(corpus, tmp_path, *budget, "--max-epoch", "2", "--max-update", "25", options=SMALL)
    log = train(corpus, tmp_path, *budget, "--max-epoch", "2", "--reset-dataloader", options=SMALL)
    updates = loaded(tmp_path)["optimizer_history"][-1]["num_updates"]
    # At the end of each epoch.
    rates = [float(rate) for rate in re.findall(r"\| lr ([\d.e-]+) \|", log)]
    of_an_epoch = (updates - 25) / 2
    assert rates == pytest.approx([0.01 * of_an_epoch / updates, 0.0], abs=1e-6)


def test_another_second_pass(corpus, tmp_path):
    passes = (*OURS, "--simcut-weight", "3")
    train(corpus, tmp_path, *passes, *MIDDLE, options=SMALL)
    arguments = train_arguments(corpus, tmp_path, *passes, *REST, options=SMALL)
    sentence = refused(run("train", *arguments, "--simcut-p", "0.1"))
    assert "written with --simcut-p 0.05, but this training run has 0.1" in sentence
    assert run("train", *arguments).returncode == 0


def test_larger_batches_from_the_next_epoch_on(corpus, tmp_path):
    train(corpus, tmp_path, *SMOOTHED, *REST, options=SMALL)
    updates = loaded(tmp_path)["optimizer_history"][-1]["num_updates"]
    train(corpus, tmp_path, "--max-tokens", "400", *REST[2:], *SMOOTHED, "--max-epoch", "2")
    assert 0 < loaded(tmp_path)["optimizer_history"][-1]["num_updates"] - updates < updates


def test_other_data_in_the_middle_of_an_epoch(corpus, middle, tmp_path):
    """A checkpoint without a digest, of an earlier version, is compared by its options only."""
    data = tmp_path / "corpus" / "bin"
    shutil.copytree(corpus / "bin", data)
    for file in data.glob("valid.de-en.*"):
        shutil.copy(file, data / file.name.replace("valid", "train"))
    folder = tmp_path / "continued"
    shutil.copytree(middle, folder)
    arguments = train_arguments(data.parent, folder, *SMOOTHED, *REST, options=SMALL)
    assert "the data have changed" in refused(run("train", *arguments))


def test_a_checkpoint_without_a_digest(corpus, middle, tmp_path):
    state = loaded(middle)
    del state["extra_state"]["train_iterator"]["batches"]
    torch.save(state, tmp_path / "checkpoint_last.pt")
    arguments = train_arguments(corpus, tmp_path, *SMOOTHED, *REST, options=SMALL)
    sentence = refused(run("train", *arguments, "--max-tokens", "200"))
    assert "--max-tokens 100 (now 200)" in sentence
    assert run("train", *arguments).returncode == 0


def test_another_metric_begins_with_its_own_best_value(corpus, tmp_path):
    train(corpus, tmp_path, "--max-epoch", "1")
    best = tmp_path / "checkpoint_best.pt"
    before = best.read_bytes()
    log = train(corpus, tmp_path, "--max-epoch", "2", "--best-checkpoint-metric", "ppl")
    assert "the best loss of" in log and best.read_bytes() != before


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("reduce_lr_on_plateau", ("--best-checkpoint-metric", "ppl")),
        ("reduce_lr_on_validation", ("--best-checkpoint-metric", "ppl")),
        ("reduce_lr_on_validation", ("--lr-metric", "ppl")),
    ],
)
def test_another_metric_reduces_the_rate_and_ends_training_by_its_own_values(
    scheduler, options, corpus, tmp_path
):
    """The perplexity falls, but is never below a loss in bits."""
    common = ("--lr-scheduler", scheduler, "--lr-patience", "1", "--patience", "1", *TASK)
    train(corpus, tmp_path, *common, "--max-epoch", "1")
    log = train(corpus, tmp_path, *common, *options, "--max-epoch", "4")
    assert "early stop" not in log and (tmp_path / "checkpoint4.pt").exists()
    rates = re.findall(r"train \| epoch .*\| lr ([\d.e-]+)", log)
    assert rates == ["0.01"] * 3


def test_a_checkpoint_without_its_optimizer(corpus, tmp_path):
    train(corpus, tmp_path, "--max-epoch", "1", "--no-save-optimizer-state")
    log = train(corpus, tmp_path, "--max-epoch", "2")
    assert "has no state of the optimizer" in log


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ("{bad", "--optimizer-overrides is {bad, but must be a dictionary"),
        ("5", "must be a dictionary"),
        ("{'lrr': 0.1}", "--optimizer-overrides has 'lrr', but"),
    ],
)
def test_overrides_of_the_optimizer(overrides, reason, continued):
    done = continued("--optimizer-overrides", overrides)
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    assert reason in done.stderr
