"""Every pair of families, and of fairseq's models, as an ensemble, in both orders.

Each pair is in two of the six tests; with CONVS2S_CASES, as ``make properties`` sets it, in all.
"""

import functools
import os
from argparse import Namespace
from itertools import combinations

import pytest
import torch
from fairseq import __version__ as fairseq_version
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from convs2s.common.errors import UserError
from convs2s.nn.int8 import is_supported
from convs2s.translation.alignment import hard_alignment
from convs2s.translation.shortlist import Shortlist
from convs2s_plugin.models.adapters import has_linear_output
from convs2s_plugin.search.decoding import search_model
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support import search
from tests.support.search import SYMBOLS, WORDS, assert_same

FAMILIES = ("convs2s", "adl-transformer", "adl-rnmt", "pervasive", "bag-of-words")
OF_FAIRSEQ = ("transformer", "lstm", "fconv")
# As in translation: some encoders need the longest sentence first.
BATCH = search.random_batch([(9, 5), (6, 3), (4, 7)], words=WORDS)
SOURCES, TARGETS = BATCH["net_input"]["src_tokens"], BATCH["target"]
NO_MASK = "its transformer stops with 'Mask Type should be defined' under torch >= 2"
PAIRS = [
    pytest.param(
        pair,
        id="-and-".join(pair),
        marks=pytest.mark.skipif(
            "transformer" in pair and fairseq_version == "0.12.2", reason=NO_MASK
        ),
    )
    for pair in combinations((*FAMILIES, *OF_FAIRSEQ), 2)
]
MANY = "CONVS2S_CASES" in os.environ


def of_pairs(first):
    """For every third pair from this one on, or for all."""
    return pytest.mark.parametrize("pair", PAIRS if MANY else PAIRS[first::3])


def ready(name):
    """A model in single precision, as commands prepare it."""
    model = search.build(name).float()
    model.prepare_for_inference_(FairseqConfig(generation=GenerationConfig(beam=1)))
    return model


shared = functools.cache(ready)


def both_orders(pair, make=shared):
    models = [make(name) for name in pair]
    return models, models[::-1]


def generator(models, task=ConvS2STranslationTask, config=ConvS2STranslationConfig, **options):
    given, cfg = dict(beam=3, max_len_b=9), {}
    shortlist = options.pop("shortlist", None)
    if "int8" in options:
        cfg["int8"] = options.pop("int8")
    built = task(config(**cfg), SYMBOLS, SYMBOLS)
    if shortlist is not None:
        built.shortlist = shortlist
    return built.build_generator(models, Namespace(**given, **options))


def generate(models, **options):
    return generator(models, **options).generate(models, dict(BATCH))


def assert_alike(first, second):
    """Check that two orders of models find the same, but for rounding."""
    for found, same in zip(first, second, strict=True):
        for one, other in zip(found, same, strict=True):
            assert one["tokens"].tolist() == other["tokens"].tolist()
            torch.testing.assert_close(one["positional_scores"], other["positional_scores"])
            torch.testing.assert_close(one["attention"], other["attention"])


@torch.no_grad()
def attention_to(models, hypothesis, row):
    """The sum of what the models attend to for the tokens of a hypothesis, T x S, alone."""
    tokens = hypothesis["tokens"].unsqueeze(0)
    previous = tokens.roll(1, dims=1)
    source = SOURCES[row : row + 1]
    num_padding = int(source.eq(SYMBOLS.pad()).sum())
    source = source[:, num_padding:]
    forced = [
        (searched := search_model(model)).score(searched.encode(source), previous, tokens, True)
        for model in models
    ]
    weights = sum(each.attention[0] for each in forced)
    return torch.nn.functional.pad(weights, (num_padding, 0))


@of_pairs(0)
def test_search(pair):
    """What fairseq's own search finds, bit by bit."""
    results = []
    for models in both_orders(pair):
        of_fairseq = generator(models, TranslationTask, TranslationConfig)
        results.append(generate(models))
        expected = of_fairseq.generate(models, dict(BATCH))
        assert_same(expected, results[-1], with_attention=False)
    assert_alike(*results)


@of_pairs(1)
def test_alignments(pair):
    results = []
    for models in both_orders(pair):
        found = generate(models, print_alignment="hard")
        for row, hypotheses in enumerate(found):
            for each in hypotheses:
                weights = attention_to(models, each, row)
                source, target = SOURCES[row], each["tokens"]
                special = SYMBOLS.pad(), SYMBOLS.eos()
                assert each["alignment"] == hard_alignment(weights, source, target, *special)
        results.append(found)
    assert_alike(*results)


@of_pairs(2)
@torch.no_grad()
def test_references(pair):
    """Their scores are those of the mean of the probabilities, with alignments or without."""
    results = []
    for models in both_orders(pair):
        inputs = BATCH["net_input"]
        each = [model.get_normalized_probs(model(**inputs), log_probs=False) for model in models]
        expected = torch.stack(each).mean(dim=0).gather(2, TARGETS.unsqueeze(2)).squeeze(2).log()
        plain = generate(models, score_reference=True)
        aligned = generate(models, score_reference=True, print_alignment="hard")
        for row, ((one,), (other,)) in enumerate(zip(plain, aligned, strict=True)):
            length = len(one["tokens"])
            torch.testing.assert_close(one["positional_scores"], expected[row, :length])
            torch.testing.assert_close(other["positional_scores"], expected[row, :length])
            weights = attention_to(models, other, row)
            found = other["attention"][:length]
            torch.testing.assert_close(found * len(models), weights, atol=1e-5, rtol=0)
        results.append(aligned)
    assert_alike(*results)


@of_pairs(0)
def test_unknown_words(pair):
    for models in both_orders(pair):
        found = generate(models, unkpen=-99, replace_unk="")
        tokens = torch.cat([each["tokens"] for hypotheses in found for each in hypotheses])
        assert SYMBOLS.unk() not in tokens and len(tokens) > 9


@of_pairs(1)
def test_shortlists(pair):
    words = torch.arange(len(SYMBOLS))
    whole, some = (
        Shortlist(words.unsqueeze(1), words, number) for number in (len(SYMBOLS), len(SYMBOLS) // 4)
    )
    results = []
    for models in both_orders(pair):
        if not all(has_linear_output(model.decoder) for model in models):
            with pytest.raises(UserError, match="does not compute logits with one linear layer"):
                generate(models, shortlist=some)
            continue
        assert_alike(generate(models, shortlist=whole), generate(models))
        results.append(generate(models, shortlist=some, print_alignment="hard"))
        allowed = {*some(SOURCES, min_size=7).tolist()}
        assert all({*each["tokens"].tolist()} <= allowed for each in sum(results[-1], []))
    if results:
        assert_alike(*results)


@of_pairs(2)
def test_int8(pair):
    results = []
    for models in both_orders(pair, ready):
        if {*pair} & {*OF_FAIRSEQ}:
            with pytest.raises(UserError, match="--int8 needs a model of this package, but"):
                generate(models, int8=True)
            continue
        results.append(generate(models, int8=True, print_alignment="hard"))
        assert all(model.quantized for model in models) == is_supported()
    if results:
        assert_alike(*results)
