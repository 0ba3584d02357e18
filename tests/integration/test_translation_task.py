"""``--task convs2s_translation``: precision, filters, batches of one length."""

import re

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset

from convs2s_plugin.errors import UserError
from convs2s_plugin.nn.autocast import cast_weights_, to_autocast_dtype
from convs2s_plugin.tasks.autocast import Precision
from convs2s_plugin.tasks.batches import BatchingDataset, filter_pairs
from tests.commands import (
    PLUGIN,
    TINY,
    alignments,
    fairseq,
    generate,
    hypotheses,
    refused,
    run,
    train,
    train_arguments,
)
from tests.families import MODELS, make
from tests.helpers import dictionary, random_batch
from tests.unit.criterions.test_cross_entropy import transformer

OURS = ("--task", "convs2s_translation")
LOSS = ("--criterion", "convs2s_cross_entropy", "--label-smoothing", "0.1")


def losses(log):
    return [float(value) for value in re.findall(r"valid on .*? \| loss ([\d.]+)", log)]


def test_the_same_training_as_with_fairseqs_task_and_criterion(corpus, tmp_path):
    common = ("--max-epoch", "2", "--no-save", "--label-smoothing", "0.1", "--seed", "3")
    theirs = train(corpus, tmp_path, *common, "--criterion", "label_smoothed_cross_entropy")
    ours = train(corpus, tmp_path, *common, *OURS, *LOSS)
    assert losses(ours) == pytest.approx(losses(theirs), abs=2e-3) and len(losses(ours)) == 2


def test_the_same_translations_as_with_fairseqs_task(corpus, trained):
    checkpoint = trained / "checkpoint_last.pt"
    arguments = ("--beam", "4", "--nbest", "2", "--print-alignment", "hard")
    assert generate(corpus, checkpoint, *arguments, *OURS) == generate(
        corpus, checkpoint, *arguments
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_trains_and_translates(dtype, corpus, tmp_path):
    log = train(corpus, tmp_path, "--max-epoch", "6", *OURS, *LOSS, "--autocast-dtype", dtype)
    values = losses(log)
    assert values[-1] < values[0] - 1
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}
    state = saved["last_optimizer_state"]["state"][0]
    assert state["exp_avg"].dtype == torch.float32

    checkpoint = tmp_path / "checkpoint_last.pt"
    arguments = ("--score-reference", *OURS)
    exact = hypotheses(generate(corpus, checkpoint, *arguments))
    rough = hypotheses(generate(corpus, checkpoint, *arguments, "--autocast-dtype", dtype))
    for i in exact:
        assert rough[i][0][0] == pytest.approx(exact[i][0][0], abs=0.1)
        assert rough[i] != exact[i]
    found = hypotheses(generate(corpus, checkpoint, *OURS, "--autocast-dtype", dtype))
    assert sorted(found) == sorted(exact)


def test_eval_bleu_leaves_the_weights_alone(corpus, tmp_path):
    log = train(
        *(corpus, tmp_path, "--max-epoch", "1", *OURS, *LOSS, "--autocast-dtype", "bfloat16"),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 2}'),
    )
    assert "| bleu " in log
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}


MAKERS = {**{name: lambda name=name: make(name) for name in MODELS}, "transformer": transformer}


@pytest.mark.parametrize("name", MAKERS)
@torch.no_grad()
def test_weights_cast_once_give_what_autocast_gives(name):
    model, batch = MAKERS[name]().eval(), random_batch([(5, 7), (3, 4)])
    precision = Precision("bfloat16")
    with precision.autocast(model):
        expected, _ = model(**batch["net_input"])
    if name.startswith("convs2s"):
        model.make_generation_fast_()
    precision.cast_(model)
    types = {p.dtype for p in model.parameters()}
    assert types == {torch.float32, torch.bfloat16}
    with precision.autocast(model):
        scores, _ = model(**batch["net_input"])
    assert scores.dtype == torch.bfloat16
    # Embeddings that are also the weights of the output layer are rounded too.
    torch.testing.assert_close(scores.float(), expected.float(), rtol=0.05, atol=0.05)


@torch.no_grad()
def test_what_stays_in_single_precision():
    """Softmax and sums of layers in a pass under autocast, whatever the products give."""
    model, batch = make("convs2s"), random_batch([(5, 7), (3, 4)])
    with torch.autocast("cpu", torch.bfloat16):
        _, extra = model(**batch["net_input"])
        padding = torch.zeros(2, 4, dtype=torch.bool)
        embedded = model.encoder.embed(batch["net_input"]["src_tokens"][:, :4], padding)
        summed, _ = model.encoder.blocks(model.encoder.input(embedded).to(embedded.dtype))
    assert extra["attn"][0].dtype == torch.float32
    torch.testing.assert_close(extra["attn"][0].sum(-1), torch.ones(2, 7))
    assert summed.dtype == torch.float32


def test_cast_matrices_keeps_vectors_and_tables():
    model = torch.nn.ModuleDict(
        {
            "table": torch.nn.Embedding(5, 3),
            "map": torch.nn.Linear(3, 5),
            "n": torch.nn.LayerNorm(3),
        }
    )
    cast_weights_(model, torch.bfloat16)
    assert model["map"].weight.dtype == torch.bfloat16
    kept = [model["table"].weight, model["map"].bias, model["n"].weight]
    assert {tensor.dtype for tensor in kept} == {torch.float32}


def test_autocast_to_outside_of_autocast_is_no_copy():
    x = torch.ones(2)
    assert to_autocast_dtype(x) is x


def test_two_kinds_of_half_precision_are_refused(corpus, tmp_path):
    done = run(
        "train",
        *train_arguments(corpus, tmp_path, "--max-update", "1", *OURS),
        *("--autocast-dtype", "bfloat16", "--amp"),
    )
    assert "--autocast-dtype cannot be combined" in refused(done)


def pairs(sizes, **options):
    """A data set of sentences of these lengths, end of sentence not counted."""
    symbols = dictionary()

    def text(side):
        return [torch.tensor([4] * size[side] + [symbols.eos()]) for size in sizes]

    sides = []
    for side in range(2):
        sentences = text(side)
        sides += [sentences, np.array([len(s) for s in sentences]), symbols]
    return LanguagePairDataset(*sides, **options)


def test_filters_of_the_paper(caplog):
    dataset = pairs([(3, 2), (3, 3), (6, 4), (7, 4), (4, 7), (9, 9), (2, 0)])
    indices = np.arange(7)
    with caplog.at_level("INFO"):
        kept = filter_pairs(dataset, indices, 8, 1.5)
    assert kept.tolist() == [0, 1, 2]
    assert "--max-train-words 8 removes 1 of 7 training pairs" in caplog.text
    assert "--max-length-ratio 1.5 removes 3 of 7 training pairs" in caplog.text
    assert filter_pairs(dataset, indices, None, None).tolist() == indices.tolist()
    assert filter_pairs(dataset, indices, 3, None).tolist() == [0, 1, 6]
    with pytest.raises(UserError, match="leave none of the 7 training pairs"):
        filter_pairs(dataset, indices, 0, None)


def test_filters_apply_to_the_training_set_only(corpus, tmp_path):
    log = train(
        *(corpus, tmp_path, *OURS, "--max-epoch", "1", "--no-save"),
        *("--max-train-words", "4", "--max-length-ratio", "1.5"),
    )
    sizes = [len(line.split()) for line in (corpus / "train.de").read_text("utf-8").splitlines()]
    removed = sum(size > 4 for size in sizes)
    assert f"--max-train-words 4 removes {removed} of 240 training pairs" in log
    assert "--max-length-ratio 1.5 removes 0 of 240 training pairs" in log
    theirs = train(corpus, tmp_path, "--max-epoch", "1", "--no-save")
    words = re.compile(r"valid on .*? \| wpb ([\d.]+)")
    assert words.search(log).group(1) == words.search(theirs).group(1)


def test_batches_of_one_length_hold_every_sentence_once():
    dataset = BatchingDataset.wrap(pairs([(1 + i % 5, 3) for i in range(103)]), True, None)
    batches = dataset.batch_by_size(
        dataset.ordered_indices(), max_sentences=8, required_batch_size_multiple=8
    )
    assert sorted(np.concatenate(batches)) == list(range(103))
    for batch in batches:
        assert len(set(dataset.src_sizes[batch])) == 1 and len(batch) <= 8
        tokens = dataset.collater([dataset[int(i)] for i in batch])["net_input"]["src_tokens"]
        assert not tokens.eq(dictionary().pad()).any()


def test_equal_lengths_change_no_translation(corpus, trained):
    checkpoint = trained / "checkpoint_last.pt"
    arguments = (*OURS, "--max-len-b", "20")
    found = hypotheses(generate(corpus, checkpoint, *arguments, "--equal-length-batches"))
    expected = hypotheses(generate(corpus, checkpoint, *arguments))
    assert {i: h[0][1] for i, h in found.items()} == {i: h[0][1] for i, h in expected.items()}


def test_equal_lengths_in_interactive(corpus, trained):
    printed = fairseq(
        "interactive",
        *(corpus / "bin", "--user-dir", PLUGIN, "--path", trained / "checkpoint_last.pt"),
        *("--cpu", *OURS, "--equal-length-batches", "--buffer-size", "4", "--max-tokens", "99"),
        text="eins zwei drei\nvier\nfünf sechs sieben\nacht\n",
    )
    assert sorted(hypotheses(printed)) == [0, 1, 2, 3]


def test_the_options_are_kept_in_the_checkpoint(corpus, tmp_path):
    train(
        *(corpus, tmp_path, *OURS, "--max-update", "1", "--max-train-words", "5"),
        options=TINY,
    )
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert saved["cfg"]["task"]["max_train_words"] == 5


def test_alignments_in_interactive(corpus, trained):
    arguments = (
        *(corpus / "bin", "--user-dir", PLUGIN, "--path", trained / "checkpoint_last.pt"),
        *("--cpu", *OURS, "--print-alignment"),
    )
    printed = fairseq("interactive", *arguments, "hard", text="eins zwei drei\n")
    pairs = [tuple(map(int, pair.split("-"))) for pair in alignments(printed)[0].split()]
    assert [target for _, target in pairs] == list(range(len(pairs))) and pairs
    assert all(0 <= source < 3 for source, _ in pairs)
    done = run("interactive", *arguments, "soft", text="eins zwei drei\n")
    assert "fairseq-interactive prints hard alignments only" in refused(done)
