"""The library's search against fairseq's, hypothesis by hypothesis and bit by bit."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator

from convs2s.common.errors import UserError
from convs2s.translation import decoding, search
from convs2s.translation.best_tokens import BestTokens
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from convs2s_plugin.search.decoding import search_model
from tests.support.adapters import (
    dictionary,
    make,
    tiny_fairseq_transformer,
    translation_task,
)
from tests.support.batches import random_batch
from tests.support.families import MODELS
from tests.support.search import (
    IN_DETAIL,
    LENGTHS,
    OPTIONS,
    SYMBOLS,
    TRANSFORMER,
    aligns_tokens,
    batch,
    build,
    change_logits,
    prefer_the_end,
    round_coarsely,
)
from tests.support.shortlist_model import ShortlistModel


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


@pytest.fixture(autouse=True, params=[True, False], ids=["table", "whole"])
def with_a_table(request, monkeypatch):
    """The scores of these tests are so few that a search would read all of them."""
    monkeypatch.setattr(search, "MIN_SCORES", 0 if request.param else 2**40)
    return request.param


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


def expectation(models, symbols, options, prefix=None, need_weights=True, data=None):
    """What fairseq's generator finds."""
    data = batch() if data is None else data
    arguments = {} if prefix is None else {"prefix_tokens": prefix}
    for model in models:
        model.decoder.need_attn = need_weights
    generator = SequenceGenerator(models, symbols, **fairseqs(options))
    return generator.generate(models, data, **arguments)


def assert_same_search(models, prefix=None, need_weights=True, **options):
    """Check that the library finds what fairseq finds; returns it."""
    options = SearchOptions(**{"max_len_b": 10, **options})
    expected = expectation(models, SYMBOLS, options, prefix, need_weights)
    found = beam_search(
        [search_model(model) for model in models],
        batch()["net_input"]["src_tokens"],
        SYMBOLS,
        options,
        prefix=prefix,
        need_weights=need_weights,
    )
    assert_same(expected, found, need_weights and not aligns_tokens(models))
    for hypotheses in found:
        assert all((one.attention is not None) == need_weights for one in hypotheses)
    return found


@IN_DETAIL
@pytest.mark.parametrize("options", OPTIONS)
def test_options(name, options):
    model = change_logits(build(name), prefer_the_end)
    found = assert_same_search([model], **OPTIONS[options])
    lengths = {len(hypothesis.tokens) for hypotheses in found for hypothesis in hypotheses}
    assert len(lengths) > 1 or "cut" in options
    longest = 3 if "cut" in options else 10
    for hypotheses in found:
        for hypothesis in hypotheses:
            assert hypothesis.is_cut_off == (len(hypothesis.tokens) > longest)


@IN_DETAIL
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("prefixed", [False, True])
def test_each_sentence_has_a_largest_length_of_its_own(name, beam, prefixed):
    """As fairseq's search has it for a sentence that is alone."""
    model, data = change_logits(build(name), prefer_the_end), batch()
    options = SearchOptions(beam=beam, max_len_a=0.5, max_len_b=1, min_len=3)
    prefix = data["target"][:, :4] if prefixed else None
    source = data["net_input"]["src_tokens"]
    found = beam_search([search_model(model)], source, SYMBOLS, options, prefix=prefix)
    lengths = []
    for row, hypotheses in enumerate(found):
        source = data["net_input"]["src_tokens"][row]
        source = source[source != SYMBOLS.pad()][None]
        limit = max(3, int(0.5 * source.size(1)) + 1)
        alone = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}}
        own = None if prefix is None else prefix[row : row + 1]
        of_batch = replace(options, max_len_a=0, max_len_b=limit)
        (expected,) = expectation([model], SYMBOLS, of_batch, own, False, alone)
        assert len(hypotheses) == len(expected)
        for reference, hypothesis in zip(expected, hypotheses):
            assert torch.equal(hypothesis.tokens, reference["tokens"])
            torch.testing.assert_close(hypothesis.token_scores, reference["positional_scores"])
            assert hypothesis.score == pytest.approx(float(reference["score"]))
            assert hypothesis.is_cut_off == (len(hypothesis.tokens) == limit + 1)
            lengths.append((limit, len(hypothesis.tokens) - 1))
    assert {limit for limit, _ in lengths} == {3, 4, 6}
    assert {limit for limit, length in lengths if limit == length} >= {3, 4}


@pytest.mark.parametrize("name", ["convs2s", "pervasive"])
def test_only_the_best_hypotheses_are_wanted(name):
    """Attention that needs a further pass is computed for these alone."""
    model = search_model(change_logits(build(name), prefer_the_end))
    options, source = SearchOptions(beam=4, max_len_b=10), batch()["net_input"]["src_tokens"]
    everything, best = (
        beam_search([model], source, SYMBOLS, options, need_weights=True, nbest=nbest)
        for nbest in (None, 2)
    )
    for all_hypotheses, hypotheses in zip(everything, best, strict=True):
        assert len(all_hypotheses) == 4 and len(hypotheses) == 2
        for one, other in zip(hypotheses, all_hypotheses):
            assert torch.equal(one.tokens, other.tokens)
            torch.testing.assert_close(one.attention, other.attention)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
def test_every_model(name, double, beam):
    model = change_logits(build(name) if double else build(name).float(), prefer_the_end)
    for need_weights in (True, False):
        assert_same_search([model], need_weights=need_weights, beam=beam)


@IN_DETAIL
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_equal_scores(name, beam):
    model = change_logits(change_logits(build(name), prefer_the_end), round_coarsely)
    for options in (dict(), dict(min_len=4), dict(max_len_b=4)):
        assert_same_search([model], beam=beam, **options)
    assert_same_search([model], batch()["target"][:, :2], beam=beam)


@pytest.mark.parametrize("change", [prefer_the_end, round_coarsely])
@pytest.mark.parametrize("options", ["plain", "prefix", "shortlist", "temperature"])
def test_logits_of_some_hypotheses_at_a_time(change, options, monkeypatch):
    models = [search_model(change_logits(build("convs2s").eval(), change))]
    sample, temperature = batch(), 1.5 if options == "temperature" else 1.0
    given = {
        "prefix": {"prefix": sample["target"][:, :2]},
        "shortlist": {"shortlist": torch.cat([torch.arange(4), torch.arange(4, len(SYMBOLS), 2)])},
    }.get(options, {})

    def search_all():
        source, choices = sample["net_input"]["src_tokens"], SearchOptions(temperature=temperature)
        return beam_search(models, source, SYMBOLS, choices, **given)

    expected = search_all()
    # Ten hypotheses and then the other ones, in parts of five.
    monkeypatch.setattr(decoding, "ROWS_AT_ONCE", 12)
    monkeypatch.setattr(decoding, "MAX_SCORES", 3 * len(SYMBOLS))
    for same, found in zip(expected, search_all(), strict=True):
        for reference, hypothesis in zip(same, found, strict=True):
            assert torch.equal(hypothesis.tokens, reference.tokens)
            assert hypothesis.score == pytest.approx(reference.score)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_few_scores_are_searched_without_a_table(dtype, with_a_table, monkeypatch):
    """In half precision always with one, which decides between equal scores."""
    tables = []
    continuations = BestTokens.continuations

    def counted(table, *arguments):
        tables.append(table)
        return continuations(table, *arguments)

    monkeypatch.setattr(BestTokens, "continuations", counted)
    model = search_model(build("convs2s").float())
    with nullcontext() if dtype is None else torch.autocast("cpu", dtype):
        beam_search([model], batch()["net_input"]["src_tokens"], SYMBOLS, SearchOptions())
    assert bool(tables) == (with_a_table or dtype is not None)


@pytest.mark.parametrize("max_len", [3, 10])
def test_all_scores_equal(max_len):
    model = change_logits(build("convs2s"), torch.zeros_like)
    assert_same_search([model], max_len_b=max_len)


@pytest.mark.parametrize("size, max_len", [(1, 10), (2, 10), (8, 10), (8, 3)])
@pytest.mark.parametrize("name", ["convs2s", "adl-rnmt"])
def test_prefixes(name, size, max_len):
    model = change_logits(build(name), prefer_the_end)
    prefix = batch()["target"][:, :size]
    for beam in (1, 4):
        assert_same_search([model], prefix, beam=beam, max_len_b=max_len)


@IN_DETAIL
def test_ensembles(name):
    names = (name, "convs2s-residuals", "adl-transformer")
    models = [change_logits(build(each), prefer_the_end) for each in names]
    for beam in (1, 4):
        assert_same_search(models, beam=beam)


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
        found = beam_search(
            [search_model(model) for model in models[:count]],
            batch()["net_input"]["src_tokens"],
            SYMBOLS,
            options,
            shortlist=shortlist,
            prefix=prefix,
            need_weights=True,
        )
        assert_same(expected, found)


def test_a_small_vocabulary_is_searched_as_a_whole():
    symbols = dictionary(12)
    model = make("convs2s", task=translation_task(symbols, symbols))
    small = random_batch(LENGTHS, words=12)
    for beam in (5, 6, 10, 20):
        options = SearchOptions(beam=beam, max_len_b=10)
        found = beam_search(
            [search_model(model)],
            small["net_input"]["src_tokens"],
            symbols,
            options,
            need_weights=True,
        )
        assert_same(expectation([model], symbols, options, data=small), found)


def test_impossible_tokens():
    """Fewer tokens are possible than a beam reads."""

    def forbid(logits):
        logits[..., 8:] = -torch.inf
        return logits

    for beam in (2, 5):
        assert_same_search([change_logits(build("convs2s"), forbid)], beam=beam)


def test_not_a_number():
    """Some hypotheses end even so; a model that computes nothing else is refused."""

    def some(logits):
        logits[1000 * logits[..., 5] % 1 > 0.9] = torch.nan
        return logits

    model = change_logits(change_logits(build("convs2s"), prefer_the_end), some)
    assert_same_search([model], beam=5)
    models = [search_model(change_logits(build("convs2s"), lambda x: x * torch.nan))]
    source = batch()["net_input"]["src_tokens"]
    with pytest.raises(UserError, match="infinite or not a number"):
        beam_search(models, source, SYMBOLS, SearchOptions(max_len_b=5))


@pytest.mark.parametrize("name", [TRANSFORMER])
def test_scores_in_bfloat16(name):
    """Those of an adaptive softmax have the precision of its weights."""
    cutoff = {"adaptive_softmax_cutoff": "50,100"}
    model = tiny_fairseq_transformer(translation_task(SYMBOLS, SYMBOLS), **cutoff)
    models = [search_model(model.bfloat16().eval())]
    found = beam_search(
        models, batch()["net_input"]["src_tokens"], SYMBOLS, SearchOptions(max_len_b=5)
    )
    assert [len(hypotheses) for hypotheses in found] == [5] * len(LENGTHS)
    assert all(one.token_scores.isfinite().all() for each in found for one in each)


def test_an_adaptive_softmax():
    """Its features are neither as many as its tokens, nor fewer by a multiple of eight."""
    options = {"adaptive_softmax_cutoff": "50,100", "decoder_output_dim": len(SYMBOLS) + 3}
    model = tiny_fairseq_transformer(translation_task(SYMBOLS, SYMBOLS), **options).eval()
    for beam in (1, 5):
        assert_same_search([model], need_weights=False, beam=beam)
    assert_same_search([model], batch()["target"][:, :2], need_weights=False, beam=4)


def test_rows_at_once():
    """Whole sentences, with any vocabulary and beam."""
    for vocab_size in (30, 6_000, 10**6):
        for beam in (1, 5, 400):
            size, part = decoding.rows_at_once(vocab_size, beam)
            assert size % beam == part % beam == 0 and size >= part >= beam
    assert decoding.rows_at_once(6_000, 5) == (320, 85)


def test_lengths_that_contradict():
    models = [search_model(build("convs2s"))]
    source = batch()["net_input"]["src_tokens"]
    with pytest.raises(UserError, match="--min-len is 70, but .* at most 63"):
        beam_search(models, source, SYMBOLS, SearchOptions(min_len=70))
