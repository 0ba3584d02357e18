"""The plugin's generator against fairseq's, hypothesis by hypothesis and bit by bit."""

import inspect
import math
from types import MethodType

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from fairseq.token_generation_constraints import pack_constraints

from convs2s.common.errors import UserError
from convs2s.translation import search
from convs2s.translation.best_tokens import BestTokens
from convs2s.translation.shortlist import Shortlist
from convs2s_plugin.search.generator import TranslationGenerator
from tests.support.adapters import dictionary, make, translation_task
from tests.support.batches import random_batch
from tests.support.families import MODELS
from tests.support.search import (
    IN_DETAIL,
    LENGTHS,
    OPTIONS,
    SYMBOLS,
    assert_same,
    assert_same_search,
    batch,
    build,
    change_logits,
    generators,
    prefer_the_end,
    pseudorandom,
    round_coarsely,
)
from tests.support.shortlist_model import ShortlistModel

IN_THE_BEST_TOKENS = {
    **OPTIONS,
    "unknown words punished": dict(beam=3, unkpen=4.0),
    "unknown words wanted": dict(beam=3, unkpen=-4.0),
    "temperature": dict(beam=5, temperature=0.6),
}
IN_ALL_TOKENS = {
    "length of the source": dict(match_source_len=True),
    "no repeated bigram": dict(no_repeat_ngram_size=2),
    "sampling": dict(sampling=True),
    "sampling of the best 5": dict(sampling=True, sampling_topk=5),
    "sampling of half the probability": dict(sampling=True, sampling_topp=0.5),
    "diverse groups": dict(diverse_beam_groups=2),
    "diverse siblings": dict(diversity_rate=0.5),
}


@pytest.fixture(autouse=True)
def always_with_a_table(monkeypatch):
    """The scores of these tests are so few that the search would read all of them."""
    monkeypatch.setattr(search, "MIN_SCORES", 0)


@IN_DETAIL
@pytest.mark.parametrize("options", IN_THE_BEST_TOKENS)
def test_options_of_beam_search(name, options):
    model = change_logits(build(name), prefer_the_end)
    found = assert_same_search([model], **IN_THE_BEST_TOKENS[options])
    lengths = {len(hypothesis["tokens"]) for hypotheses in found for hypothesis in hypotheses}
    assert len(lengths) > 1 or "cut" in options
    assert found[0][0]["attention"].numel()


@pytest.mark.parametrize("options", IN_ALL_TOKENS)
def test_options_that_need_all_tokens(options):
    model = change_logits(build("convs2s"), prefer_the_end)
    assert_same_search([model], False, beam=4, **IN_ALL_TOKENS[options])


@pytest.mark.parametrize("name", MODELS)
def test_every_model_in_single_precision(name):
    model = change_logits(build(name).float(), prefer_the_end)
    assert_same_search([model], beam=4)


@IN_DETAIL
def test_ensembles(name):
    models = [change_logits(build(each), prefer_the_end) for each in (name, "convs2s-residuals")]
    assert_same_search(models, beam=4)
    assert_same_search(models, beam=4, temperature=0.6)


@pytest.mark.parametrize("size, max_len", [(1, 10), (2, 10), (8, 10), (8, 3)])
@pytest.mark.parametrize("names", [["convs2s"], ["convs2s", "adl-rnmt"]])
def test_prefixes(names, size, max_len):
    models = [change_logits(build(name), prefer_the_end) for name in names]
    options = {"prefix_tokens": batch()["target"][:, :size]}
    assert_same_search(models, options=options, beam=4, max_len_b=max_len, unkpen=1.0)


def test_constraints():
    models = [build("convs2s")]
    words = [[torch.tensor([10, 11]), torch.tensor([50])], [], [torch.tensor([80])], []]
    options = {"constraints": pack_constraints(words)}
    assert_same_search(models, False, options, beam=4, constraints="ordered")
    allowed = {"prefix_allowed_tokens_fn": lambda sentence, tokens: [2, 5 + sentence, 30, 31]}
    assert_same_search(models, False, beam=2, max_len_b=5, **allowed)


class LanguageModel(torch.nn.Module):
    """The probabilities of a token depend on the one before it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.logits = torch.nn.Embedding(len(SYMBOLS), len(SYMBOLS))

    def forward(self, tokens):
        return (self.logits(tokens),)

    def get_normalized_probs(self, output, log_probs, sample):
        return output[0].log_softmax(-1)


def test_a_language_model():
    extra = {"lm_model": LanguageModel(), "lm_weight": 0.5}
    assert_same_search([build("convs2s")], False, beam=4, extra=extra)


def test_suppressed_tokens():
    if "tokens_to_suppress" not in inspect.signature(SequenceGenerator).parameters:
        pytest.skip("this version of fairseq has no such option")
    assert_same_search([build("convs2s")], False, beam=4, extra={"tokens_to_suppress": ["w3"]})


def count_ambiguous(monkeypatch):
    """A list that gets the numbers of sentences, and of ambiguous ones, of every step."""
    counts = []
    original = BestTokens._search_again

    def search_again(self, found, is_ambiguous, *arguments):
        counts.append((len(is_ambiguous), int(is_ambiguous.sum())))
        return original(self, found, is_ambiguous, *arguments)

    monkeypatch.setattr(BestTokens, "_search_again", search_again)
    return counts


@IN_DETAIL
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_equal_scores(name, beam, monkeypatch):
    counts = count_ambiguous(monkeypatch)
    model = change_logits(build(name), prefer_the_end)
    assert_same_search([model], beam=beam)
    assert not any(ambiguous for _, ambiguous in counts)
    change_logits(model, round_coarsely)
    for args in (dict(), dict(min_len=4), dict(max_len_b=4), dict(unkpen=0.5)):
        assert_same_search([model], beam=beam, **args)
    assert any(0 < ambiguous < sentences for sentences, ambiguous in counts)
    options = {"prefix_tokens": batch()["target"][:, :2]}
    assert_same_search([model], options=options, beam=beam)
    assert_same_search([model, change_logits(build("convs2s"), round_coarsely)], beam=beam)


@pytest.mark.parametrize("max_len", [3, 10])
def test_all_scores_equal(max_len, monkeypatch):
    counts = count_ambiguous(monkeypatch)
    assert_same_search([change_logits(build("convs2s"), torch.zeros_like)], max_len_b=max_len)
    assert counts and all(sentences == ambiguous for sentences, ambiguous in counts)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype, monkeypatch):
    """So many scores are equal that the order among them is not fairseq's."""
    counts = count_ambiguous(monkeypatch)
    model = change_logits(build("convs2s").float(), prefer_the_end)
    for args in (dict(beam=1, max_len_b=1), dict(beam=5, max_len_b=1), dict(beam=5)):
        plain, ours = generators([model], **args)
        with torch.autocast("cpu", dtype):
            expected, found = (each.generate([model], batch()) for each in (plain, ours))
        for same, hypotheses in zip(expected, found):
            assert len(hypotheses) == len(same)
            if "max_len_b" in args:
                for reference, hypothesis in zip(same, hypotheses):
                    assert torch.equal(hypothesis["score"], reference["score"])
    assert counts and not any(ambiguous for _, ambiguous in counts)


def test_nan():
    rows = []

    def some_rows(logits):
        rows.append(pseudorandom(logits) > 0.9)
        logits[rows[-1]] = math.nan
        return logits

    model = change_logits(build("convs2s"), prefer_the_end)
    found = assert_same_search([change_logits(model, some_rows)], beam=5)
    assert_same_search([model], beam=5, max_len_b=4)
    assert any(row.any() for row in rows) and all(map(len, found))

    def some_tokens(self, *arguments, **options):
        lprobs = type(self).get_normalized_probs(self, *arguments, **options)
        lprobs[..., torch.arange(len(SYMBOLS)) % 3 == 0] = math.nan
        return lprobs

    model = change_logits(build("fconv"), prefer_the_end)
    model.get_normalized_probs = MethodType(some_tokens, model)
    found = assert_same_search([model], beam=5)
    assert not any((hypotheses[0]["tokens"] % 3 == 0).any() for hypotheses in found)
    assert_same_search([change_logits(model, round_coarsely)], beam=5)
    for options in (dict(max_len_b=4), dict(min_len=4)):
        assert_same_search([model], beam=5, **options)


@pytest.mark.parametrize("option", ["retain_iter_history", "print_step"])
def test_options_of_other_models_are_refused(option):
    message = f"--{option.replace('_', '-')} is for models that refine their translations"
    with pytest.raises(UserError, match=message):
        generators([build("convs2s")], **{option: True})


def test_impossible_tokens():
    """Fewer tokens are possible than a beam reads."""

    def forbid(logits):
        logits[..., 8:] = -math.inf
        return logits

    for beam in (2, 5):
        assert_same_search([change_logits(build("convs2s"), forbid)], beam=beam)


@pytest.mark.parametrize("change", [prefer_the_end, round_coarsely])
@pytest.mark.parametrize(
    "more", [{}, {"len_penalty": 0.4}, {"temperature": 0.6}, {"unk_penalty": -4.0}, {"min_len": 4}]
)
def test_shortlists(change, more):
    """Against fairseq's search with a model whose vocabulary is the shortlist."""
    model, same = (change_logits(build("convs2s"), change) for _ in range(2))
    by_frequency = torch.arange(len(SYMBOLS))
    shortlist = Shortlist(torch.zeros(len(SYMBOLS), 1, dtype=torch.long), by_frequency, 150)
    options = dict(beam_size=5, max_len_b=10, **more)
    ours = TranslationGenerator(
        [model], SYMBOLS, vocab_size=len(SYMBOLS), shortlist=shortlist, **options
    )
    # As the generator has asked of the other model.
    same.make_generation_fast_(need_attn=False)
    restricted = ShortlistModel(same, by_frequency[:150])
    plain = SequenceGenerator(EnsembleModel([restricted]), SYMBOLS, **options)
    plain.vocab_size = 150
    assert_same(plain.generate([], batch()), ours.generate([], batch()))


def test_a_small_vocabulary_is_searched_as_a_whole():
    symbols = dictionary(12)
    model = make("convs2s", task=translation_task(symbols, symbols))
    small = random_batch(LENGTHS, words=12)
    for beam in (5, 6, 10):
        options = dict(beam_size=beam, max_len_b=10)
        plain = SequenceGenerator([model], symbols, **options)
        ours = TranslationGenerator([model], symbols, vocab_size=len(symbols), **options)
        ours.need_weights = True
        assert_same(plain.generate([model], small), ours.generate([model], small))
