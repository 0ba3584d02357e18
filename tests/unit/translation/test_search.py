"""The library's search against fairseq's and the plugin's, hypothesis by hypothesis, bit by bit."""

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator

from convs2s.translation.decoding import NetworkModel
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from convs2s_plugin.search.decoding import FairseqModel
from convs2s_plugin.search.generator import TranslationGenerator
from tests.support.adapters import dictionary, make, translation_task
from tests.support.batches import random_batch
from tests.support.families import MODELS
from tests.support.network import Network
from tests.support.search import (
    IN_DETAIL,
    LENGTHS,
    OPTIONS,
    SYMBOLS,
    batch,
    build,
    change_logits,
    prefer_the_end,
    round_coarsely,
)
from tests.support.shortlist_model import ShortlistModel


def models_of(name, model):
    """The model as the search needs it: as a network too, if it is one of this package."""
    found = [FairseqModel(model)]
    return [*found, NetworkModel(Network(model))] if name in MODELS else found


def fairseqs(options):
    """The options of fairseq's generators."""
    return dict(
        beam_size=options.beam,
        len_penalty=options.lenpen,
        normalize_scores=not options.unnormalized,
        min_len=options.min_len,
        max_len_a=options.max_len_a,
        max_len_b=options.max_len_b,
    )


def assert_same(expected, found, with_attention=True):
    """Check that all hypotheses of all sentences are the same in every bit."""
    assert [len(hypotheses) for hypotheses in found] == [len(hypotheses) for hypotheses in expected]
    for same, hypotheses in zip(expected, found):
        for reference, hypothesis in zip(same, hypotheses):
            assert torch.equal(hypothesis.tokens, reference["tokens"])
            assert hypothesis.score == float(reference["score"])
            assert torch.equal(hypothesis.token_scores, reference["positional_scores"])
            if with_attention:
                assert torch.equal(hypothesis.attention.t(), reference["attention"])
            else:
                assert hypothesis.attention is None


def expectations(models, symbols, options, prefix=None, need_weights=True, data=None):
    """What the generators of fairseq and of the plugin find."""
    data = batch() if data is None else data
    arguments = {} if prefix is None else {"prefix_tokens": prefix}
    plain = SequenceGenerator(models, symbols, **fairseqs(options))
    ours = TranslationGenerator(models, symbols, vocab_size=len(symbols), **fairseqs(options))
    ours.need_weights = need_weights
    for model in models:
        model.decoder.need_attn = need_weights
    with torch.no_grad():
        return [generator.generate(models, data, **arguments) for generator in (plain, ours)]


def assert_same_search(name, model, prefix=None, need_weights=True, **options):
    """Check that the library finds what the generators find; returns it."""
    options = SearchOptions(**{"max_len_b": 10, **options})
    aligns = getattr(model.decoder, "aligns_tokens", False)
    plain, ours = expectations([model], SYMBOLS, options, prefix, need_weights)
    # fairseq's search has the attention of other tokens than those of the hypothesis.
    given = (ours,) if aligns and need_weights else (plain, ours)
    for expected in given:
        for searched in models_of(name, model):
            found = beam_search(
                [searched],
                batch()["net_input"]["src_tokens"],
                SYMBOLS,
                options,
                prefix=prefix,
                need_weights=need_weights,
            )
            assert_same(expected, found, need_weights)
    return found


@IN_DETAIL
@pytest.mark.parametrize("options", OPTIONS)
def test_options(name, options):
    model = change_logits(build(name), prefer_the_end)
    found = assert_same_search(name, model, **OPTIONS[options])
    lengths = {len(hypothesis.tokens) for hypotheses in found for hypothesis in hypotheses}
    assert len(lengths) > 1 or "cut" in options
    longest = 3 if "cut" in options else 10
    if "ratio" not in options:
        for hypotheses in found:
            for hypothesis in hypotheses:
                assert hypothesis.is_cut_off == (len(hypothesis.tokens) > longest)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("double", [False, True])
def test_every_model(name, double):
    model = change_logits(build(name) if double else build(name).float(), prefer_the_end)
    for need_weights in (True, False):
        assert_same_search(name, model, need_weights=need_weights, beam=4)


@IN_DETAIL
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_equal_scores(name, beam):
    model = change_logits(change_logits(build(name), prefer_the_end), round_coarsely)
    for options in (dict(), dict(min_len=4), dict(max_len_b=4)):
        assert_same_search(name, model, beam=beam, **options)
    assert_same_search(name, model, batch()["target"][:, :2], beam=beam)


@pytest.mark.parametrize("max_len", [3, 10])
def test_all_scores_equal(max_len):
    model = change_logits(build("convs2s"), torch.zeros_like)
    assert_same_search("convs2s", model, max_len_b=max_len)


@pytest.mark.parametrize("size, max_len", [(1, 10), (2, 10), (8, 10), (8, 3)])
@pytest.mark.parametrize("name", ["convs2s", "adl-rnmt"])
def test_prefixes(name, size, max_len):
    model = change_logits(build(name), prefer_the_end)
    prefix = batch()["target"][:, :size]
    assert_same_search(name, model, prefix, beam=4, max_len_b=max_len)


@IN_DETAIL
def test_ensembles(name):
    names = (name, "convs2s-residuals", "adl-transformer")
    models = [change_logits(build(each), prefer_the_end) for each in names]
    options = SearchOptions(beam=4, max_len_b=10)
    plain, ours = expectations(models, SYMBOLS, options)
    aligns = getattr(models[0].decoder, "aligns_tokens", False)
    kinds = zip(*(models_of(each, model) for each, model in zip(names, models)))
    for searched in kinds:
        source = batch()["net_input"]["src_tokens"]
        found = beam_search(searched, source, SYMBOLS, options, need_weights=True)
        assert_same(ours, found)
        if not aligns:
            assert_same(plain, found)


@pytest.mark.parametrize("change", [None, round_coarsely])
@pytest.mark.parametrize("options", [{}, {"lenpen": 0.4}, {"min_len": 4}])
@pytest.mark.parametrize("prefixed", [False, True])
def test_shortlists(change, options, prefixed):
    """Against fairseq's search with models whose vocabulary is the shortlist."""
    names, shortlist = ("convs2s", "adl-transformer"), torch.arange(0, len(SYMBOLS), 2)
    shortlist = torch.cat([torch.arange(4), shortlist]).unique()
    options = SearchOptions(beam=5, max_len_b=10, **options)
    models = [build(name) for name in names]
    if change is not None:
        for model in models:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.copy_(round_coarsely(parameter))
    prefix = batch()["target"][:, :2] // 2 * 2 if prefixed else None
    for count in (1, 2):
        chosen = [ShortlistModel(model, shortlist) for model in models[:count]]
        plain = SequenceGenerator(EnsembleModel(chosen), SYMBOLS, **fairseqs(options))
        plain.vocab_size = len(shortlist)
        arguments = {}
        if prefixed:
            arguments["prefix_tokens"] = torch.searchsorted(shortlist, prefix)
        expected = plain.generate([], batch(), **arguments)
        for hypotheses in expected:
            for hypothesis in hypotheses:
                hypothesis["tokens"] = shortlist[hypothesis["tokens"]]
        kinds = zip(*(models_of(name, model) for name, model in zip(names[:count], models)))
        for searched in kinds:
            found = beam_search(
                searched,
                batch()["net_input"]["src_tokens"],
                SYMBOLS,
                options,
                shortlist=shortlist,
                prefix=prefix,
                need_weights=True,
            )
            assert_same(expected, found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    model = change_logits(build("convs2s").float(), prefer_the_end)
    for beam, max_len in ((1, 1), (5, 1), (5, 10)):
        options = SearchOptions(beam=beam, max_len_b=max_len)
        with torch.autocast("cpu", dtype):
            _, expected = expectations([model], SYMBOLS, options, need_weights=False)
            for searched in models_of("convs2s", model):
                source = batch()["net_input"]["src_tokens"]
                assert_same(expected, beam_search([searched], source, SYMBOLS, options), False)


def test_a_small_vocabulary_is_searched_as_a_whole():
    symbols = dictionary(12)
    model = make("convs2s", task=translation_task(symbols, symbols))
    small = random_batch(LENGTHS, words=12)
    for beam in (5, 6, 10, 20):
        options = SearchOptions(beam=beam, max_len_b=10)
        for expected in expectations([model], symbols, options, data=small):
            found = beam_search(
                [NetworkModel(Network(model))],
                small["net_input"]["src_tokens"],
                symbols,
                options,
                need_weights=True,
            )
            assert_same(expected, found)


def test_impossible_tokens():
    """Fewer tokens are possible than a beam reads."""

    def forbid(logits):
        logits[..., 8:] = -torch.inf
        return logits

    for beam in (2, 5):
        assert_same_search("convs2s", change_logits(build("convs2s"), forbid), beam=beam)


def test_not_a_number():
    """Some hypotheses end even so."""

    def some(logits):
        logits[1000 * logits[..., 5] % 1 > 0.9] = torch.nan
        return logits

    model = change_logits(change_logits(build("convs2s"), prefer_the_end), some)
    assert_same_search("convs2s", model, beam=5)
