"""Symmetrization against the textbook algorithm; probabilities against fractions."""

import random
from collections import Counter
from fractions import Fraction

import pytest

from convs2s.common.errors import UserError
from convs2s.text.lexicon import counts as counts_module
from convs2s.text.lexicon.counts import LinkCounts
from convs2s.text.lexicon.links import METHODS, parse_links, symmetrize


def scan_the_grid(forward, reverse, method):
    """The definition: visit every cell until nothing changes."""
    union, links = forward | reverse, forward & reverse
    if method in ("union", "intersection"):
        return union if method == "union" else links
    rows = range(max([i for i, _ in union], default=-1) + 1)
    columns = range(max([j for _, j in union], default=-1) + 1)

    def unaligned(i, j):
        return all(a != i for a, _ in links), all(b != j for _, b in links)

    changed = True
    while changed:
        changed = False
        for i in rows:
            for j in columns:
                if (i, j) not in links:
                    continue
                for k, m in [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]:
                    cell = (i + k, j + m)
                    if cell in union and cell not in links and any(unaligned(*cell)):
                        links = links | {cell}
                        changed = True
    if method != "grow-diag":
        enough = all if method == "grow-diag-final-and" else any
        for direction in (forward, reverse):
            for i in rows:
                for j in columns:
                    if (i, j) in direction and enough(unaligned(i, j)):
                        links = links | {(i, j)}
    return links


def random_links(numbers, rows, columns, density):
    """Random links. If they are dense, the result depends on the order of the cells."""
    cells = [(i, j) for i in range(rows) for j in range(columns)]
    return {cell for cell in cells if numbers.random() < density}


@pytest.mark.parametrize("method", METHODS)
def test_equals_the_definition(method):
    numbers = random.Random(1)
    different = Counter()
    for _ in range(300):
        shape = numbers.randint(1, 9), numbers.randint(1, 9), numbers.choice([0.1, 0.2, 0.4])
        forward, reverse = random_links(numbers, *shape), random_links(numbers, *shape)
        found = symmetrize(forward, reverse, method)
        assert found == scan_the_grid(forward, reverse, method), (forward, reverse)
        assert forward & reverse <= found <= forward | reverse
        different.update(other for other in METHODS if found != symmetrize(forward, reverse, other))
    assert set(different) == set(METHODS) - {method}
    assert symmetrize(set(), set(), method) == set()


def test_an_example_by_hand():
    """Links of word 2 differ in both directions and have no neighbors: only "final" adds them."""
    forward, reverse = {(0, 0), (1, 1), (2, 3)}, {(0, 0), (0, 1), (2, 4)}
    assert symmetrize(forward, reverse, "intersection") == {(0, 0)}
    assert symmetrize(forward, reverse, "grow-diag") == {(0, 0), (0, 1), (1, 1)}
    assert symmetrize(forward, reverse, "grow-diag-final-and") == {(0, 0), (0, 1), (1, 1), (2, 3)}
    assert symmetrize(forward, reverse, "grow-diag-final") == forward | reverse


def test_links():
    assert parse_links("", 0, 0, "a", 1) == set()
    assert parse_links(" 0-0 2-1\t0-0\n", 3, 2, "a", 1) == {(0, 0), (2, 1)}


@pytest.mark.parametrize(
    "line, message",
    [
        ("0-0 1", "found '1'"),
        ("0-0-0", "found '0-0-0'"),
        ("-1-0", "found '-1-0'"),
        ("0p1", "found '0p1'"),
        ("٣-0", "found '٣-0'"),
        ("9999999999-0", "found '9999999999-0'"),
        ("3-0", "the link 3-0 points past"),
        ("0-0 0-2", "the link 0-2 points past"),
    ],
)
def test_malformed_links(line, message):
    with pytest.raises(UserError) as refusal:
        parse_links(line, 3, 2, "text.align", 7)
    assert str(refusal.value).startswith("text.align, line 7: ") and message in str(refusal.value)


def random_pairs(sentences, words, seed=1):
    """Sentence pairs with random links; low numbers are frequent words."""
    numbers = random.Random(seed)

    def sentence(mark):
        return [f"{mark}{int(words * numbers.random() ** 2)}" for _ in range(numbers.randint(0, 8))]

    for _ in range(sentences):
        source, target = sentence("s"), sentence("t")
        links = {(i, j) for i in range(len(source)) for j in range(len(target))}
        yield source, target, set(numbers.sample(sorted(links), len(links) // 3))


@pytest.mark.parametrize("pending", [1, 50, 1 << 18])
@pytest.mark.parametrize("reverse", [False, True])
def test_probabilities_are_fractions_of_counts(pending, reverse, monkeypatch):
    monkeypatch.setattr(counts_module, "MIN_PENDING", pending)
    counts, linked = LinkCounts(), Counter()
    for source, target, links in random_pairs(200, 12):
        counts.add((source, target, links))
        linked.update((source[i], target[j])[:: -1 if reverse else 1] for i, j in links)
    # What waits is merged before it is more than what is counted.
    assert len(counts._pending) <= max(pending, len(counts._pairs))
    totals, rarity = Counter(), Counter()
    for (word, other), number in linked.items():
        totals[word] += number
        rarity[other] += number
    expected = sorted(
        (word, Fraction(number, totals[word]), -rarity[other], other)
        for (word, other), number in linked.items()
    )
    found = list(counts.entries(0.0, 1000, reverse))
    assert [entry[:2] for entry in found] == [(word, other) for word, _, _, other in expected]
    for entry, (_, probability, _, _) in zip(found, expected):
        assert entry.probability == pytest.approx(float(probability), rel=1e-12)
    few = [entry for entry in found if entry.probability >= 0.08]
    assert 0 < len(few) < len(found) and list(counts.entries(0.08, 1000, reverse)) == few
    best = {word: entry for entry in found for word in [entry.source]}
    assert list(counts.entries(0.0, 1, reverse)) == list(best.values())


def test_no_entries_without_links():
    counts = LinkCounts()
    counts.add((["a"], ["b"], set()))
    assert list(counts.entries(0.0, 1)) == []
