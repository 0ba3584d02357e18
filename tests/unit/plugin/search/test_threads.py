"""Threads share a model of fairseq, each with a search of its own."""

import pytest
import torch

from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from convs2s_plugin.models.adapters import has_linear_output
from convs2s_plugin.search.decoding import search_model
from tests.integration.test_translate_threads import THREADS, together
from tests.support.families import FAMILIES
from tests.support.search import SYMBOLS, TRANSFORMER, batch, build


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
