"""Beam search in the best tokens against fairseq's, hypothesis by hypothesis and bit by bit."""

import copy
import math
from argparse import Namespace
from types import MethodType

import pytest
import torch
from fairseq import __version__ as fairseq_version
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.token_generation_constraints import pack_constraints

from convs2s_plugin.decoding.best_tokens import BestTokensSearch, choose_columns, select
from convs2s_plugin.decoding.candidate_model import CandidateModel
from convs2s_plugin.decoding.candidates import Candidates
from convs2s_plugin.decoding.generator import TranslationGenerator
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.families import MODELS, make
from tests.helpers import dictionary, random_batch, tiny_fairseq_transformer, translation_task

WORDS = 300
SYMBOLS = dictionary(WORDS)
LENGTHS = [(7, 5), (3, 9), (11, 2), (2, 3)]
TRANSFORMER = pytest.param(
    "transformer",
    marks=pytest.mark.skipif(
        fairseq_version == "0.12.2",
        reason='its transformer stops with "Mask Type should be defined" under torch >= 2',
    ),
)
SOME_MODELS = ["convs2s", "adl-transformer", "pervasive-max-attn-gated", TRANSFORMER, "fconv"]
IN_DETAIL = pytest.mark.parametrize("name", SOME_MODELS)

IN_THE_BEST_TOKENS = {
    "greedy": dict(beam=1),
    "beam 5": dict(beam=5),
    "beam 10": dict(beam=10),
    "length penalty": dict(beam=5, lenpen=0.4),
    "unnormalized": dict(beam=5, unnormalized=True),
    "minimum length": dict(beam=4, min_len=6),
    "ratio to the source": dict(beam=4, max_len_a=0.5, max_len_b=2),
    "all are cut": dict(beam=4, max_len_b=3, min_len=3),
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


def build(name):
    """A small model in double precision, with attention."""
    task = translation_task(SYMBOLS, SYMBOLS)
    if name in MODELS:
        model = make(name, task=task)
    elif name == "transformer":
        model = tiny_fairseq_transformer(task)
    else:
        torch.manual_seed(1)
        layers = dict(encoder_layers="[(16, 3)]", decoder_layers="[(16, 3)]")
        sizes = dict(encoder_embed_dim=16, decoder_embed_dim=16, decoder_out_embed_dim=16)
        positions = dict(max_source_positions=64, max_target_positions=64)
        args = Namespace(**layers, **sizes, **positions, dropout=0.0)
        ARCH_CONFIG_REGISTRY["fconv_iwslt_de_en"](args)
        model = ARCH_MODEL_REGISTRY["fconv_iwslt_de_en"].build_model(args, task)
    return model.double().eval()


def change_logits(model, change):
    """Make the model apply a function to its logits."""
    decoder = model.decoder
    name = "forward" if type(decoder).__name__ == "FConvDecoder" else "output_layer"
    original = getattr(decoder, name)

    def changed(self, *arguments, **options):
        output = original(*arguments, **options)
        return change(output) if torch.is_tensor(output) else (change(output[0]), *output[1:])

    setattr(decoder, name, MethodType(changed, decoder))
    return model


def pseudorandom(logits):
    """A number from -1 to 1 for each hypothesis."""
    return (1000 * logits[..., 5]).sin()


def prefer_the_end(logits):
    """Logits of hypotheses that are finished after different numbers of steps."""
    logits = 2 * logits / logits.std(dim=-1, keepdim=True)
    logits[..., SYMBOLS.eos()] = logits.amax(dim=-1) - 2 + 3 * pseudorandom(logits)
    return logits


def round_coarsely(logits):
    return logits.mul(4).round().div(4)


def batch():
    return random_batch(LENGTHS, words=WORDS)


def generators(models, extra=None, prefix_allowed_tokens_fn=None, **args):
    """The generators of fairseq's task and of ours, for the same options."""
    built = []
    for task_class, cfg in (
        (TranslationTask, TranslationConfig()),
        (ConvS2STranslationTask, ConvS2STranslationConfig()),
    ):
        task = task_class(cfg, SYMBOLS, SYMBOLS)
        built.append(
            task.build_generator(
                models,
                Namespace(**{"max_len_b": 10, **args}),
                extra_gen_cls_kwargs=dict(extra or {}),
                prefix_allowed_tokens_fn=prefix_allowed_tokens_fn,
            )
        )
    for model in models:
        model.decoder.need_attn = True
    return built


def assert_same(expected, found):
    """Check that all hypotheses of all sentences are the same in every bit."""
    assert [len(hypotheses) for hypotheses in found] == [len(hypotheses) for hypotheses in expected]
    for same, hypotheses in zip(expected, found):
        for reference, hypothesis in zip(same, hypotheses):
            for key in ("tokens", "score", "positional_scores", "attention"):
                assert torch.equal(hypothesis[key], reference[key]), key


def assert_same_search(models, in_table=True, options=None, **args):
    """Check that both generators find the same, and whether ours reads a table.

    Args:
        options: of ``generate``.
    """
    plain, ours = generators(models, **args)
    results = []
    for generator in (plain, ours):
        torch.manual_seed(3)
        results.append(generator.generate(models, batch(), **(options or {})))
    assert_same(*results)
    assert (ours.vocab_size < len(SYMBOLS) / 4) is in_table
    return results[1], ours


@IN_DETAIL
@pytest.mark.parametrize("options", IN_THE_BEST_TOKENS)
def test_options_of_beam_search(name, options):
    model = change_logits(build(name), prefer_the_end)
    found, _ = assert_same_search([model], **IN_THE_BEST_TOKENS[options])
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
    if fairseq_version == "0.12.2":
        pytest.skip("it has no such option")
    assert_same_search([build("convs2s")], False, beam=4, extra={"tokens_to_suppress": ["w3"]})


def count_ambiguous(monkeypatch):
    """A list that gets the numbers of sentences, and of ambiguous ones, of every step."""
    counts = []
    original = BestTokensSearch._ambiguous

    def ambiguous(self, step, lprobs, scores):
        found = original(self, step, lprobs, scores)
        counts.append((len(lprobs), len(found)))
        return found

    monkeypatch.setattr(BestTokensSearch, "_ambiguous", ambiguous)
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
    assert all(sentences == ambiguous for sentences, ambiguous in counts)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype, monkeypatch):
    """So many scores are equal that the order among them is not fairseq's."""
    counts = count_ambiguous(monkeypatch)
    model = change_logits(build("convs2s").float(), prefer_the_end)
    for args in (dict(beam=1, max_len_b=1), dict(beam=5, max_len_b=1), dict(beam=5)):
        plain, ours = generators([model], **args)
        with torch.autocast("cpu", dtype):
            expected, found = (search.generate([model], batch()) for search in (plain, ours))
        for same, hypotheses in zip(expected, found):
            assert len(hypotheses) == len(same)
            if "max_len_b" in args:
                for reference, hypothesis in zip(same, hypotheses):
                    assert torch.equal(hypothesis["score"], reference["score"])
    assert not counts and ours.vocab_size < 40


def test_nan():
    rows = []

    def some_rows(logits):
        rows.append(pseudorandom(logits) > 0.9)
        logits[rows[-1]] = math.nan
        return logits

    model = change_logits(build("convs2s"), prefer_the_end)
    found, _ = assert_same_search([change_logits(model, some_rows)], beam=5)
    assert any(row.any() for row in rows) and all(map(len, found))

    def some_tokens(self, *arguments, **options):
        lprobs = type(self).get_normalized_probs(self, *arguments, **options)
        lprobs[..., torch.arange(len(SYMBOLS)) % 3 == 0] = math.nan
        return lprobs

    model = change_logits(build("convs2s"), prefer_the_end)
    model.get_normalized_probs = MethodType(some_tokens, model)
    found, _ = assert_same_search([model], beam=5)
    assert not any((hypotheses[0]["tokens"] % 3 == 0).any() for hypotheses in found)
    assert_same_search([change_logits(model, round_coarsely)], beam=5)


def test_impossible_tokens():
    """Fewer tokens are possible than a beam reads."""

    def forbid(logits):
        logits[..., 8:] = -math.inf
        return logits

    for beam in (2, 5):
        assert_same_search([change_logits(build("convs2s"), forbid)], beam=beam)


def test_candidates():
    """Against fairseq's search with a model whose vocabulary is that of the candidates."""
    model = build("convs2s")
    by_frequency = torch.arange(len(SYMBOLS))
    candidates = Candidates(torch.zeros(len(SYMBOLS), 1, dtype=torch.long), by_frequency, 150)
    options = dict(beam_size=5, max_len_b=10)
    ours = TranslationGenerator(
        [model], SYMBOLS, vocab_size=len(SYMBOLS), candidates=candidates, **options
    )
    restricted = CandidateModel(copy.deepcopy(model))
    restricted.decoder.restrict_to(by_frequency[:150])
    plain = SequenceGenerator(EnsembleModel([restricted]), SYMBOLS, **options)
    plain.vocab_size = 150
    assert_same(plain.generate([], batch()), ours.generate([], batch()))
    assert ours.vocab_size < 40


def test_a_small_vocabulary_is_searched_as_a_whole():
    symbols = dictionary(12)
    model = make("convs2s", task=translation_task(symbols, symbols))
    small = random_batch(LENGTHS, words=12)
    for beam, vocab_size in ((5, 15), (6, 16), (10, 16)):
        options = dict(beam_size=beam, max_len_b=10)
        plain = SequenceGenerator([model], symbols, **options)
        ours = TranslationGenerator([model], symbols, vocab_size=len(symbols), **options)
        assert_same(plain.generate([model], small), ours.generate([model], small))
        assert ours.vocab_size == vocab_size


@pytest.mark.parametrize("levels", [2, 20, 100, 500, 10**6])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_step_is_fairseqs(levels, beam):
    """With equal scores in all places, or nowhere."""
    torch.manual_seed(levels)
    lprobs = -torch.randint(levels, (40, beam, len(SYMBOLS))).float()
    scores = -torch.randint(levels, (40, beam, 3)).float()
    ours, rows = BestTokensSearch(SYMBOLS), lprobs.flatten(0, 1)
    for step in (0, 3):
        ours.begin(len(SYMBOLS), 4, beam, has_prefix=False)
        table = ours.table(rows.__getitem__, len(rows), rows_at_once=7)
        found = ours.step(step, table.unflatten(0, (40, beam)), scores[:, :, :step])
        expected = BeamSearch(SYMBOLS).step(step, lprobs, scores[:, :, :step])
        for actual, same in zip(found, expected):
            assert torch.equal(actual, same)


@pytest.mark.parametrize("step", [0, 3])
def test_a_step_in_half_precision_has_the_scores_of_fairseqs(step):
    torch.manual_seed(1)
    lprobs = -torch.randint(9, (40, 3, len(SYMBOLS))).float()
    scores = -torch.randint(9, (40, 3, step)).float()
    ours, rows = BestTokensSearch(SYMBOLS), lprobs.flatten(0, 1)
    ours.begin(len(SYMBOLS), 4, 3, has_prefix=False)
    table = ours.table(rows.__getitem__, len(rows), exact=False)
    found, tokens, beams = ours.step(step, table.unflatten(0, (40, 3)), scores)
    expected, _, _ = BeamSearch(SYMBOLS).step(step, lprobs, scores)
    assert torch.equal(found, expected)
    sums = lprobs + scores[:, :, -1:] if step else lprobs
    index = beams * len(SYMBOLS) + tokens
    assert torch.equal(sums.flatten(1).gather(1, index), found)
    assert all(len(row.unique()) == 6 for row in index)


@pytest.mark.parametrize("vocab_size, best", [(15, 11), (40, 3), (301, 11), (1000, 41)])
def test_the_best_tokens_of_rows(vocab_size, best):
    columns = choose_columns(vocab_size, 4, best)
    assert 4 <= columns.first < 20 and columns.number < vocab_size + 1
    torch.manual_seed(vocab_size)
    for levels in (10, 10**6):
        lprobs = torch.randint(levels, (7, vocab_size)).float()
        table, tokens = select(lprobs, columns)
        assert torch.equal(table[:, : columns.first], lprobs[:, : columns.first])
        others = lprobs[:, columns.first :].topk(best).values
        assert torch.equal(table[:, columns.first :], others)
        assert torch.equal(lprobs.gather(1, tokens), others)
        assert all(len(row.unique()) == best for row in tokens)
    assert choose_columns(best + 3, 4, best) is None
