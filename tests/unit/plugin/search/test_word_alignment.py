"""Attention of given target tokens, not of the most probable ones."""

import pytest
import torch

from convs2s_plugin.search.generator import TranslationGenerator
from convs2s_plugin.search.word_alignment import ReferenceScorer
from tests.support.adapters import dictionary, make
from tests.support.batches import random_batch

BATCH = [(7, 5), (3, 4), (11, 2)]


def of_words(models, source, words):
    """The mean attention T x S of the models to one sentence for given target tokens."""
    prefix = words.roll(1)
    prefix[0] = dictionary().eos()
    found = [
        model(
            source.unsqueeze(0),
            None,
            prefix.unsqueeze(0),
            need_attn=True,
            target_tokens=words.unsqueeze(0),
        )[1]["attn"]
        for model in models
    ]
    return sum(attention[0][0] for attention in found) / len(models)


@pytest.mark.parametrize("names", [["pervasive"], ["pervasive-max-attn-gated", "convs2s"]])
@torch.no_grad()
def test_every_hypothesis_has_the_attention_of_its_tokens(names):
    models, batch = [make(name) for name in names], random_batch(BATCH)
    for model in models:
        model.make_generation_fast_()
    symbols = dictionary()
    options = dict(vocab_size=len(symbols), beam_size=4, max_len_b=7)
    plain = TranslationGenerator(models, symbols, **options)
    aligned = TranslationGenerator(models, symbols, alignment="soft", **options)
    expected = plain.generate(models, batch)
    for i, hypotheses in enumerate(aligned.generate(models, batch)):
        source = batch["net_input"]["src_tokens"][i]
        for hypothesis, same in zip(hypotheses, expected[i]):
            assert hypothesis["tokens"].tolist() == same["tokens"].tolist()
            attention = hypothesis["attention"]
            torch.testing.assert_close(attention.t(), of_words(models, source, same["tokens"]))
            assert not same["attention"].numel()


@torch.no_grad()
def test_a_reference_is_scored_with_the_attention_of_its_tokens():
    models, batch = [make("pervasive")], random_batch(BATCH)
    scorer = ReferenceScorer(dictionary(), "soft")
    for i, (hypothesis,) in enumerate(scorer.generate(models, batch)):
        words = batch["target"][i]
        words = words[words.ne(dictionary().pad())]
        source = batch["net_input"]["src_tokens"][i]
        expected = of_words(models, source, words)
        torch.testing.assert_close(hypothesis["attention"][: len(words)], expected)
