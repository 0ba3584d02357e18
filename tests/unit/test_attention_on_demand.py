"""Attention is computed only on request, and costs nothing otherwise."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

from convs2s_plugin.search.generator import TranslationGenerator
from tests.support.adapters import dictionary, make
from tests.support.batches import random_batch
from tests.support.families import MODELS, count_calls

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 2)]


@EVERY_MODEL
@pytest.mark.parametrize("training", [True, False])
def test_the_caller_decides(name, training):
    model = make(name, need_attn=False).train(training)
    batch = random_batch(LENGTHS)["net_input"]
    logits, extra = model(**batch)
    assert extra["attn"] == [None]
    asked, extra = model(**batch, need_attn=True)
    assert extra["attn"][0].shape == (*batch["prev_output_tokens"].shape, 11)
    torch.testing.assert_close(asked, logits, atol=1e-5, rtol=1e-5)
    model.decoder.need_attn = True
    assert model(**batch)[1]["attn"][0] is not None
    assert model(**batch, need_attn=False)[1]["attn"] == [None]


@EVERY_MODEL
def test_generation_asks_for_it_with_print_alignment_only(name):
    model = make(name)
    model.make_generation_fast_(need_attn=False)
    assert model(**random_batch(LENGTHS)["net_input"])[1]["attn"] == [None]
    model = make(name, need_attn=False)
    model.make_generation_fast_(need_attn=True)
    assert model(**random_batch(LENGTHS)["net_input"])[1]["attn"] != [None]


@EVERY_MODEL
@torch.no_grad()
def test_validation_projects_once(name):
    model = make(name, need_attn=False)
    task = Namespace(target_dictionary=dictionary())
    calls = count_calls(model.decoder.output)
    LabelSmoothedCrossEntropyCriterion(task, False, 0.1)(model, random_batch(LENGTHS))
    assert len(calls) == 1


@EVERY_MODEL
@pytest.mark.parametrize("alignment", [None, "hard"])
def test_a_step_of_the_search_projects_once(name, alignment):
    model = make(name)
    batch = random_batch(LENGTHS)
    symbols = dictionary()
    generator = TranslationGenerator(
        [model], symbols, vocab_size=len(symbols), alignment=alignment, beam_size=2, max_len_b=6
    )
    calls = count_calls(model.decoder.output)
    steps = []
    decode = model.decode

    def count(tokens, encoded, state, **options):
        if state is not None:
            steps.append(tokens.shape)
        return decode(tokens, encoded, state, **options)

    model.decode = count
    hypotheses = generator.generate([model], batch)
    assert len(calls) == len(steps) > 1
    for best, *_ in hypotheses:
        if alignment is None:
            assert not best["attention"].numel()
        else:
            assert best["attention"].shape == (11, len(best["tokens"]))
            assert best["alignment"]
