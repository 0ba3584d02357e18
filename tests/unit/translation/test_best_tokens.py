"""The tables of the best tokens, and single steps of the search in them."""

import pytest
import torch

from convs2s.translation.best_tokens import (
    BestTokens,
    best_continuations,
    best_groups,
    choose_columns,
)
from convs2s.translation.decoding import NextTokens
from tests.support.batches import vocabulary

V = len(vocabulary(300))


def best_tokens(rows, totals, beam, sentences=(6, 2), exact=True, must_end=None):
    at_once = tuple(number * beam for number in sentences)
    following = NextTokens(rows.__getitem__, torch.clone, rows.shape, at_once, exact, None)
    columns = choose_columns(V, 4, beam)
    return BestTokens(following, columns, totals, beam, must_end)


@pytest.mark.parametrize("levels", [2, 20, 100, 500, 10**6])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_step_is_fairseqs(levels, beam):
    """With equal scores in all places, or nowhere."""
    search = pytest.importorskip("fairseq.search").BeamSearch(vocabulary(300))
    torch.manual_seed(levels)
    lprobs = -torch.randint(levels, (40, beam, V)).float()
    scores = -torch.randint(levels, (40, beam, 3)).float()
    rows = lprobs.flatten(0, 1)
    for step in (0, 3):
        totals = scores[:, :, -1].flatten() if step else None
        expected = search.step(step, lprobs, scores[:, :, :step])
        for found in (
            best_tokens(rows, totals, beam).continuations(),
            best_continuations(rows, totals, beam),
        ):
            for actual, same in zip(found, expected):
                assert torch.equal(actual, same)


@pytest.mark.parametrize("step", [0, 3])
def test_a_step_in_half_precision_has_the_scores_of_fairseqs(step):
    search = pytest.importorskip("fairseq.search").BeamSearch(vocabulary(300))
    torch.manual_seed(1)
    lprobs = -torch.randint(9, (40, 3, V)).float()
    scores = -torch.randint(9, (40, 3, step)).float()
    totals = scores[:, :, -1].flatten() if step else None
    rows = lprobs.flatten(0, 1)
    found, tokens, beams = best_tokens(rows, totals, 3, (40, 40), exact=False).continuations()
    expected, _, _ = search.step(step, lprobs, scores)
    assert torch.equal(found, expected)
    sums = lprobs + scores[:, :, -1:] if step else lprobs
    index = beams * V + tokens
    assert torch.equal(sums.flatten(1).gather(1, index), found)
    assert all(len(row.unique()) == 6 for row in index)


@pytest.mark.parametrize("levels", [20, 10**6])
@pytest.mark.parametrize("step", [0, 3])
def test_some_sentences_must_end(levels, step):
    """With NaN too, which is the lowest score."""
    torch.manual_seed(levels)
    rows = -torch.randint(levels, (40 * 3, V)).float()
    rows[torch.rand(40 * 3, V) < 1e-3] = torch.nan
    totals = -torch.randint(levels, (40 * 3,)).float() if step else None
    must_end = torch.arange(40).remainder(3).eq(0).repeat_interleave(3).unsqueeze(1)
    expected = rows.masked_fill(rows.isnan(), -torch.inf)
    expected[:, 3:].masked_fill_(must_end, -torch.inf)
    expected = best_continuations(expected, totals, 3)
    table = best_tokens(rows, totals, 3, must_end=must_end)
    scores = table.scores
    scores.masked_fill_(scores.isnan(), -torch.inf)
    scores[:, 3:].masked_fill_(must_end, -torch.inf)
    found = table.continuations()
    assert torch.equal(found.scores, expected.scores)
    is_possible = expected.scores > -torch.inf
    assert (found.tokens[::3] < 3)[is_possible[::3]].all() and is_possible.any(dim=1).all()
    for actual, same in zip(found[1:], expected[1:]):
        assert torch.equal(actual[is_possible], same[is_possible])


@pytest.mark.parametrize("vocab_size, beam", [(15, 5), (40, 1), (301, 5), (1000, 20)])
def test_groups_include_the_best_tokens(vocab_size, beam):
    columns, best = choose_columns(vocab_size, 4, beam), 2 * beam + 1
    assert 4 <= columns.first < 20 and columns.first + best <= vocab_size
    torch.manual_seed(vocab_size)
    for levels in (10, 10**6):
        lprobs = torch.randint(levels, (7 * beam, vocab_size)).float()
        totals = torch.randint(levels, (7 * beam,)).float()
        found, index = best_groups(lprobs, totals, columns, beam)
        assert torch.equal(lprobs.view(7, -1).gather(1, index), found)
        assert (index % vocab_size >= columns.first).all()
        assert all(len(row.unique()) == best * columns.group_size for row in index)
        sums = found + totals.view(7, -1).gather(1, index // vocab_size)
        others = (lprobs + totals.unsqueeze(1))[:, columns.first :].reshape(7, -1)
        assert torch.equal(sums.topk(best).values, others.topk(best).values)
    assert choose_columns(best + 3, 4, beam) is None
