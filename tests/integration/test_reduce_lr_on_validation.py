"""``--lr-scheduler reduce_lr_on_validation`` in a training, interrupted or not."""

import re
import shutil

import pytest

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

# Four batches per epoch; only the first validation is an improvement of 100.
OPTIONS = (
    *(*TINY[:-2], "--batch-size", "64", "--seed", "1", "--log-interval", "1"),
    *("--lr-scheduler", "reduce_lr_on_validation", "--lr-threshold", "100"),
)


def events(log):
    """The log of fairseq-train in order: the learning rate of an update, None for a validation."""
    return [
        float(found[1]) if found[1] else None
        for found in re.finditer(r", lr=([\d.e-]+)|\| valid on ", log)
    ]


def test_every_validation_counts_once_and_at_once(corpus, tmp_path):
    log = train(
        corpus,
        tmp_path,
        *TASK,
        *CRITERION,
        "--max-update",
        "9",
        "--no-save",
        "--lr-patience",
        "1",
        "--validate-interval-updates",
        "2",
        options=OPTIONS,
    )
    found, reductions = events(log), -1
    # Validations follow updates 2, 4 (end of epoch), 6, 8 and 9 (the last).
    assert [event is None for event in found] == [0, 0, 1] * 4 + [0, 1]
    for event in found:
        if event is None:
            reductions += 1
        else:
            assert event == pytest.approx(0.01 * 0.8 ** max(reductions, 0), rel=1e-3)


def test_a_resumed_training_equals_an_uninterrupted_one(corpus, tmp_path):
    common = ("--lr-patience", "2", "--save-interval-updates", "5", "--max-update", "14")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    log = train(corpus, whole, *TASK, *CRITERION, *common, options=OPTIONS)
    resumed.mkdir()
    # Within an epoch, after a reduction and the first of two validations for the next.
    shutil.copy(whole / "checkpoint_3_10.pt", resumed / "checkpoint_last.pt")
    rest = train(corpus, resumed, *TASK, *CRITERION, *common, options=OPTIONS)
    found = events(rest)
    assert found == events(log)[-len(found) :]
    assert found == pytest.approx([0.008, 0.008, None, 0.0064, 0.0064, None])
    assert_same_weights(
        whole / "checkpoint_last.pt", resumed / "checkpoint_last.pt", atol=0, rtol=0
    )


def test_a_metric_that_validation_does_not_compute_is_refused(corpus, tmp_path):
    # Without label smoothing, the loss itself is that of the tokens.
    plain = ("--criterion", "cross_entropy")
    done = run(
        "train",
        *train_arguments(
            corpus, tmp_path, *TASK, *plain, "--lr-metric", "nll_loss", options=OPTIONS
        ),
    )
    assert "--lr-metric is nll_loss, but validation computes only loss, ppl" in refused(done)


def test_a_task_that_reports_no_validations_is_refused(corpus, tmp_path):
    sentence = refused(run("train", *train_arguments(corpus, tmp_path, options=OPTIONS)))
    assert "add --task convs2s_translation" in sentence
