"""Threads share a model of fairseq, each with a search of its own."""

from argparse import Namespace

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.token_generation_constraints import pack_constraints

from convs2s.nn.int8 import is_supported
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from convs2s_plugin.models.adapters import has_linear_output
from convs2s_plugin.search.decoding import search_model
from convs2s_plugin.search.unknown_words import UnknownWords
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.integration.test_translate_threads import (  # noqa: F401
    THREADS,
    threads_take_turns,
    together,
)
from tests.support.adapters import dictionary
from tests.support.batches import random_batch
from tests.support.families import FAMILIES
from tests.support.search import SYMBOLS, TRANSFORMER, WORDS, batch, build, generators


@pytest.mark.parametrize(
    "name", [*(next(iter(family.models)) for family in FAMILIES.values()), TRANSFORMER, "fconv"]
)
def test_eight_threads_share_a_model(name):
    """With attention, without it, with shortlists and with prefixes."""
    model = build(name)
    model.decoder.need_attn = False
    searched, source = [search_model(model)], batch()["net_input"]["src_tokens"]
    options = SearchOptions(beam=4, max_len_b=9)

    def work(number):
        shortlist = None
        if number % 2 and has_linear_output(model.decoder):
            shortlist = torch.arange(4 * number + 40)
        found = beam_search(
            searched,
            source,
            SYMBOLS,
            options,
            shortlist=shortlist,
            prefix=torch.full((len(source), 1), 4 + number) if number > 4 else None,
            need_weights=number in (1, 2, 5, 6),
        )
        return [
            (one.tokens.tolist(), one.score, str(one.attention)) for each in found for one in each
        ]

    def repeat(number):
        return [work(number) for _ in range(3)]

    expected = [work(number) for number in range(THREADS)]
    found = together([lambda number=number: repeat(number) for number in range(THREADS)])
    assert found == [[same] * 3 for same in expected]
    assert not model.decoder.need_attn


# Searches whose progress fairseq keeps in its generator.
OF_FAIRSEQ = {
    "diverse": dict(diverse_beam_groups=2, diverse_beam_strength=0.5),
    "constrained": dict(constraints="ordered"),
    "repetitions": dict(no_repeat_ngram_size=2),
    "library": dict(),
}


@pytest.mark.parametrize("kind", OF_FAIRSEQ)
@pytest.mark.parametrize("name", ["convs2s", "adl-rnmt", "pervasive"])
def test_threads_share_a_generator(name, kind):
    models = [build(name)]
    _, generator = generators(models, beam=4, **OF_FAIRSEQ[kind])
    rows = [[(7, 5), (3, 9)], [(5, 5)], [(4, 2), (2, 3), (9, 3)]]
    batches = [random_batch(lengths, seed=seed, words=WORDS) for seed, lengths in enumerate(rows)]

    def work(number):
        sample, options = batches[number % 3], {}
        if kind == "constrained":
            words = [[torch.tensor([7 + number, 9])]] * len(sample["id"])
            options["constraints"] = pack_constraints(words)
        found = generator.generate(models, sample, **options)
        return [(one["tokens"].tolist(), str(one["attention"])) for each in found for one in each]

    expected = [work(number) for number in range(THREADS)]
    found = together([lambda n=n: [work(n) for _ in range(3)] for n in range(THREADS)])
    assert found == [[same] * 3 for same in expected]


def test_threads_append_different_words_to_a_dictionary():
    words = UnknownWords(dictionary(999), dictionary(), (0, 0), {})
    source = torch.tensor([words.source.eos()])

    def work(number):
        new = torch.arange(100 * number, 100 * number + 100) + 60
        attention = torch.eye(len(new) + 1)[:, :-1]
        tokens = torch.full_like(new, words.target.unk())
        replaced = words.replace(tokens, torch.cat([new, source]), attention)
        return words.target.string(replaced) == words.source.string(new)

    assert all(together([lambda n=n: work(n) for n in range(THREADS)]))


def test_threads_build_generators_of_one_model():
    """The first quantizes it."""
    model = build("convs2s").float()
    model.prepare_for_inference_(FairseqConfig(generation=GenerationConfig(beam=1)))
    task = ConvS2STranslationTask(ConvS2STranslationConfig(int8=True), SYMBOLS, SYMBOLS)
    built = together([lambda: task.build_generator([model], Namespace())] * THREADS)
    (first, *others) = (str(one.generate([model], batch())) for one in built)
    assert model.quantized == is_supported() and all(other == first for other in others)
