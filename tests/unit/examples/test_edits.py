"""examples/error_correction/edits.py: edits and F0.5 by hand."""

import random
import sys
from collections import Counter

import pytest

from convs2s.evaluation.metrics import edit_distance
from tests import ROOT

sys.path.insert(0, str(ROOT / "examples" / "error_correction"))

from edits import Edit, Score, find_edits, recall_by_kind, score  # noqa: E402


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("", "", set()),
        ("a b", "a b", set()),
        ("", "a", {Edit(0, 0, ("a",))}),
        ("a b c", "a c", {Edit(1, 2, ())}),
        ("a b c", "a x c", {Edit(1, 2, ("x",))}),
        ("a b c d", "a c b d", {Edit(1, 3, ("c", "b"))}),
        ("a b c", "x b c y", {Edit(0, 1, ("x",)), Edit(3, 3, ("y",))}),
        ("he go to to school", "he goes to school", {Edit(1, 2, ()), Edit(2, 3, ("goes",))}),
    ],
)
def test_edits(source, target, expected):
    assert find_edits(source.split(), target.split()) == Counter(expected)


def test_the_edits_turn_the_source_into_the_target():
    numbers = random.Random(1)
    for _ in range(200):
        source, target = (numbers.choices("abc", k=numbers.randint(0, 7)) for _ in range(2))
        made, rest = [], 0
        edits = find_edits(source, target)
        # Of edits at the same place, insertions come first; they were found from the end.
        for edit in sorted([*edits.elements()][::-1], key=lambda edit: edit[:2]):
            made += [*source[rest : edit.start], *edit.words]
            rest = edit.end
        made += source[rest:]
        assert sorted(made) == sorted(target)
        # Counted insertions have lost their order.
        assert made == target or edits.total() > len(edits)
        assert edits.total() <= edit_distance(source, target)


def test_f_prefers_precision():
    assert Score(right=1, made=2, wanted=4).precision == 0.5
    assert Score(right=1, made=2, wanted=4).recall == 0.25
    # (1 + 0.25) * 0.5 * 0.25 / (0.25 * 0.5 + 0.25)
    assert Score(right=1, made=2, wanted=4).f == pytest.approx(0.15625 / 0.375)
    assert Score(right=1, made=2, wanted=4).f > Score(right=1, made=4, wanted=2).f
    assert Score(0, 0, 0).f == 1.0 and Score(0, 3, 0).f == 0.0 and Score(0, 0, 3).f == 0.0


SOURCES = [["a", "dog", "run"], ["fine"], ["teh", "cat"]]
CORRECTIONS = [["a", "dog", "runs"], ["fne"], ["teh", "cat"]]
REFERENCES = [["the", "dog", "runs"], ["fine"], ["the", "cat"]]


def test_score():
    assert score(SOURCES, CORRECTIONS, REFERENCES) == Score(right=1, made=2, wanted=3)
    with pytest.raises(ValueError):
        score(SOURCES, CORRECTIONS[:1], REFERENCES)


def test_recall_by_kind():
    kinds = recall_by_kind(
        SOURCES,
        CORRECTIONS,
        REFERENCES,
        lambda before, after: "article" if before == ("a",) else "other",
    )
    assert kinds == {"article": Score(0, 0, 1), "other": Score(1, 0, 2)}
