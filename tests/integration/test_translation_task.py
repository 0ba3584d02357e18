"""``--task convs2s_translation`` in fairseq's commands: precision, filters, equal lengths."""

import re

import pytest
import torch

from convs2s.translation.precision import is_supported
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    TINY,
    alignments,
    fairseq,
    generate,
    hypotheses,
    refused,
    run,
    train,
    train_arguments,
    validation_losses,
)

SMOOTHED = (*CRITERION, "--label-smoothing", "0.1")


def test_the_same_training_as_with_fairseqs_task_and_criterion(corpus, tmp_path):
    common = ("--max-epoch", "2", "--no-save", "--label-smoothing", "0.1", "--seed", "3")
    theirs = train(corpus, tmp_path, *common, "--criterion", "label_smoothed_cross_entropy")
    ours = train(corpus, tmp_path, *common, *TASK, *SMOOTHED)
    losses = validation_losses(ours)
    assert len(losses) == 2 and losses == pytest.approx(validation_losses(theirs), abs=2e-3)


def test_the_same_translations_as_with_fairseqs_task(corpus, trained):
    checkpoint = trained / "checkpoint_last.pt"
    arguments = ("--beam", "4", "--nbest", "2", "--print-alignment", "hard")
    assert generate(corpus, checkpoint, *arguments, *TASK) == generate(
        corpus, checkpoint, *arguments
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_trains_and_translates(dtype, corpus, tmp_path):
    log = train(corpus, tmp_path, "--max-epoch", "6", *TASK, *SMOOTHED, "--autocast-dtype", dtype)
    losses = validation_losses(log)
    assert losses[-1] < losses[0] - 1
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}
    state = saved["last_optimizer_state"]["state"][0]
    assert state["exp_avg"].dtype == torch.float32

    checkpoint = tmp_path / "checkpoint_last.pt"
    arguments = ("--score-reference", *TASK)
    exact = hypotheses(generate(corpus, checkpoint, *arguments))
    computed = is_supported(getattr(torch, dtype), torch.device("cpu"))
    assert ("computes in single precision" in log) != computed
    rough = hypotheses(generate(corpus, checkpoint, *arguments, "--autocast-dtype", dtype))
    for i in exact:
        assert rough[i][0][0] == pytest.approx(exact[i][0][0], abs=0.1)
        assert (rough[i] != exact[i]) == computed
    found = hypotheses(generate(corpus, checkpoint, *TASK, "--autocast-dtype", dtype))
    assert sorted(found) == sorted(exact)


def test_eval_bleu_leaves_the_weights_alone(corpus, tmp_path):
    log = train(
        *(corpus, tmp_path, "--max-epoch", "1", *TASK, *SMOOTHED, "--autocast-dtype", "bfloat16"),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 2}'),
    )
    assert "| bleu " in log
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}


def test_two_kinds_of_half_precision_are_refused(corpus, tmp_path):
    done = run(
        "train",
        *train_arguments(corpus, tmp_path, "--max-update", "1", *TASK),
        "--autocast-dtype",
        "bfloat16",
        "--amp",
    )
    assert "--autocast-dtype cannot be combined" in refused(done)


def test_filters_apply_to_the_training_set_only(corpus, tmp_path):
    log = train(
        corpus,
        tmp_path,
        *TASK,
        "--max-epoch",
        "1",
        "--no-save",
        "--max-train-words",
        "4",
        "--max-length-ratio",
        "1.5",
    )
    sizes = [len(line.split()) for line in (corpus / "train.de").read_text("utf-8").splitlines()]
    removed = sum(size > 4 for size in sizes)
    assert f"--max-train-words 4 removes {removed} of 240 training pairs" in log
    assert "--max-length-ratio 1.5 removes 0 of 240 training pairs" in log
    theirs = train(corpus, tmp_path, "--max-epoch", "1", "--no-save")
    words = re.compile(r"valid on .*? \| wpb ([\d.]+)")
    assert words.search(log).group(1) == words.search(theirs).group(1)


def test_equal_lengths_change_no_translation(corpus, trained):
    checkpoint = trained / "checkpoint_last.pt"
    arguments = (*TASK, "--max-len-b", "20")
    found = hypotheses(generate(corpus, checkpoint, *arguments, "--equal-length-batches"))
    expected = hypotheses(generate(corpus, checkpoint, *arguments))
    assert {i: h[0][1] for i, h in found.items()} == {i: h[0][1] for i, h in expected.items()}


def test_equal_lengths_in_interactive(corpus, trained):
    printed = fairseq(
        "interactive",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        trained / "checkpoint_last.pt",
        "--cpu",
        *TASK,
        "--equal-length-batches",
        "--buffer-size",
        "4",
        "--max-tokens",
        "99",
        text="eins zwei drei\nvier\nfünf sechs sieben\nacht\n",
    )
    assert sorted(hypotheses(printed)) == [0, 1, 2, 3]


def test_the_options_are_kept_in_the_checkpoint(corpus, tmp_path):
    train(
        corpus,
        tmp_path,
        *TASK,
        "--max-update",
        "1",
        "--max-train-words",
        "5",
        options=TINY,
    )
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert saved["cfg"]["task"]["max_train_words"] == 5


def test_alignments_in_interactive(corpus, trained):
    arguments = (
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        trained / "checkpoint_last.pt",
        "--cpu",
        *TASK,
        "--print-alignment",
    )
    printed = fairseq("interactive", *arguments, "hard", text="eins zwei drei\n")
    pairs = [tuple(map(int, pair.split("-"))) for pair in alignments(printed)[0].split()]
    assert [target for _, target in pairs] == list(range(len(pairs))) and pairs
    assert all(0 <= source < 3 for source, _ in pairs)
    done = run("interactive", *arguments, "soft", text="eins zwei drei\n")
    assert "fairseq-interactive prints only hard alignments" in refused(done)
