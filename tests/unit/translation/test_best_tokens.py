"""The table of the best tokens, and single steps of the search in it."""

import pytest
import torch

from convs2s.translation.best_tokens import (
    BestTokens,
    best_continuations,
    choose_columns,
    select,
)
from convs2s.translation.decoding import NextTokens
from tests.support.batches import vocabulary

V = len(vocabulary(300))


def table_of(rows, columns, rows_at_once, exact):
    following = NextTokens(rows.__getitem__, rows.shape, rows_at_once, exact, attention=None)
    return BestTokens(following, columns)


@pytest.mark.parametrize("levels", [2, 20, 100, 500, 10**6])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_step_is_fairseqs(levels, beam):
    """With equal scores in all places, or nowhere."""
    search = pytest.importorskip("fairseq.search").BeamSearch(vocabulary(300))
    torch.manual_seed(levels)
    lprobs = -torch.randint(levels, (40, beam, V)).float()
    scores = -torch.randint(levels, (40, beam, 3)).float()
    rows, columns = lprobs.flatten(0, 1), choose_columns(V, 4, beam)
    for step in (0, 3):
        totals = scores[:, :, -1].flatten() if step else None
        table = table_of(rows, columns, rows_at_once=7, exact=True)
        expected = search.step(step, lprobs, scores[:, :, :step])
        for found in (
            table.continuations(totals, beam),
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
    rows, columns = lprobs.flatten(0, 1), choose_columns(V, 4, 3)
    table = table_of(rows, columns, rows_at_once=len(rows), exact=False)
    totals = scores[:, :, -1].flatten() if step else None
    found, tokens, beams = table.continuations(totals, 3)
    expected, _, _ = search.step(step, lprobs, scores)
    assert torch.equal(found, expected)
    sums = lprobs + scores[:, :, -1:] if step else lprobs
    index = beams * V + tokens
    assert torch.equal(sums.flatten(1).gather(1, index), found)
    assert all(len(row.unique()) == 6 for row in index)


@pytest.mark.parametrize("vocab_size, beam", [(15, 5), (40, 1), (301, 5), (1000, 20)])
def test_the_best_tokens_of_rows(vocab_size, beam):
    columns, best = choose_columns(vocab_size, 4, beam), 2 * beam + 1
    assert 4 <= columns.first < 20 and columns.first + best <= vocab_size
    torch.manual_seed(vocab_size)
    for levels in (10, 10**6):
        lprobs = torch.randint(levels, (7, vocab_size)).float()
        table, tokens = select(lprobs, columns)
        assert torch.equal(table[:, : columns.first], lprobs[:, : columns.first])
        others = lprobs[:, columns.first :].topk(best).values
        assert torch.equal(table[:, columns.first :], others)
        assert torch.equal(lprobs.gather(1, tokens), others)
        assert all(len(row.unique()) == best for row in tokens)
    assert choose_columns(best + 3, 4, beam) is None
