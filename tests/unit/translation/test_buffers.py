"""One translation for each line, in order, whatever the lines are."""

import random
from itertools import islice

import pytest

from convs2s.translation.buffers import translate_in_buffers
from tests.unit.translation.made_up import Reversal, Words, reversed_line

# Characters that other programs take for line breaks or white space.
ODD = [
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
    "\u00a0",
    "\ufeff",
    "\x00",
    "\u200b",
    "e\u0301",
    "𝔘",
]


def random_line(numbers):
    kind = numbers.random()
    if kind < 0.2:
        return numbers.choice(["", " ", "\t", "\u00a0", "\x85"])
    words = [
        numbers.choice(ODD) if numbers.random() < 0.2 else f"w{numbers.randint(0, 99)}"
        for _ in range(numbers.randint(1, 30))
    ]
    return numbers.choice([" ", "  ", "\t"]).join(words)


def translate(lines, size, search, do=None):
    return list(translate_in_buffers(lines, size, Words(), search, do or search.do))


@pytest.mark.parametrize("seed", range(20))
def test_one_for_one_and_in_order(seed):
    numbers = random.Random(seed)
    lines = [random_line(numbers) for _ in range(numbers.randint(0, 60))]
    search = Reversal(
        numbers.randint(1, 12), numbers.randint(1, 5), numbers, nbest=numbers.randint(1, 3)
    )
    ends = numbers.choice(["", "\n", "\r\n"])
    found = translate([line + ends for line in lines], numbers.randint(1, 70), search)
    assert [translation.source for translation in found] == lines
    for line, translation in zip(lines, found):
        tokens = line.split()
        assert translation.num_tokens == len(tokens)
        assert not {"\n", "\r"} & set(translation.text)
        if not tokens:
            assert (translation.text, translation.num_parts) == ("", 0)
        elif len(tokens) <= search.max_source_tokens:
            assert translation.text == reversed_line(line) and translation.num_parts == 1
            assert len(translation.hypotheses) == search.nbest
        else:
            assert translation.num_parts > 1
        for rank, hypothesis in enumerate(translation.hypotheses):
            assert sorted(hypothesis.tokens) == sorted(f"{token}/{rank}" for token in tokens)
            # Each target token is aligned with its own source token, in the whole line.
            for source, target in hypothesis.alignment:
                assert hypothesis.tokens[target] == f"{tokens[source]}/{rank}"
            assert len(hypothesis.alignment) == len(tokens)


def test_jobs_may_be_done_in_any_order_and_ahead():
    numbers = random.Random(3)
    search = Reversal(limit=5)

    def any_order(jobs):
        while waiting := list(islice(jobs, 7)):
            numbers.shuffle(waiting)
            for job in waiting:
                yield job, search.translate(job.sentences)

    lines = [random_line(numbers) for _ in range(50)]
    expected = translate(lines, 50, Reversal(limit=5))
    assert translate(lines, 4, search, any_order) == expected


def test_each_batch_reports_the_lines_that_it_completes():
    """A line of several sentences counts with its last one, an empty line with its buffer."""
    search = Reversal(limit=2, batch=2)
    lines = ["a b c d", "", "e", "f g", "h"]
    reported = []
    found = translate_in_buffers(lines, 4, Words(), search, search.do, reported.append)
    assert next(found).source == lines[0]
    assert reported == [1, 1, 2]
    assert len(list(found)) == 4 and sum(reported) == len(lines)


def test_batches_are_sorted_by_length():
    search = Reversal(limit=100, batch=2)
    translate(["w " * n for n in (3, 9, 1, 7, 2, 8)], 6, search)
    assert search.lengths == [[9, 8], [7, 3], [2, 1]]


def test_each_line_is_answered_before_the_next_one_is_read():
    search = Reversal()
    events = []

    def lines():
        for line in ("a b", "", "c"):
            events.append(f"read {line}")
            yield line

    for translation in translate_in_buffers(lines(), 1, Words(), search, search.do):
        events.append(f"wrote {translation.text}")
    assert events == ["read a b", "wrote b/0 a/0", "read ", "wrote ", "read c", "wrote c/0"]


def test_line_breaks_in_a_translation_do_not_shift_lines():
    class Breaks(Words):
        def decode(self, tokens):
            return tokens.replace(" ", "\r\n")

    search = Reversal()
    (found,) = translate_in_buffers(["a b"], 1, Breaks(), search, search.do)
    assert found.text == "b/0  a/0"


def test_scores():
    """One part keeps the score of the search; the scores of several are computed anew."""
    search = Reversal(limit=2)
    one, two = translate(["a b", "a b c"], 2, search)
    assert one.score == -2.0 and two.score == -3.0
    assert two.hypotheses[1].token_scores == [-1.0, -1.0, -1.0, -1.0, -1.0]
    assert two.hypotheses[1].score == -5.0
