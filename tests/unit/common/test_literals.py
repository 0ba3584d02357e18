"""The parser of literals against Python's own, and noise."""

import ast
import random

from convs2s.common.errors import TextError
from convs2s.common.literals import LiteralParser


def parse(text):
    parser = LiteralParser(text, "text")
    value = parser.literal()
    parser.expect_end()
    return value


def draw(rng, depth=0):
    kinds = [
        lambda: rng.randint(-999, 10**12),
        lambda: rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30),
        lambda: rng.choice((True, False, None, "", "a b", "it's", "ä1")),
        lambda: [draw(rng, depth + 1) for _ in range(rng.randint(0, 3))],
        lambda: tuple(draw(rng, depth + 1) for _ in range(rng.randint(0, 3))),
        lambda: {rng.choice((1, "k", None)): draw(rng, depth + 1) for _ in range(2)},
    ]
    return rng.choice(kinds[: 3 if depth > 3 else None])()


def test_the_value_is_that_of_python():
    rng = random.Random(1)
    for _ in range(1000):
        value = draw(rng)
        found = parse(repr(value))
        assert found == value and repr(found) == repr(value)


def test_sums_and_products_are_those_of_python():
    rng = random.Random(2)
    for _ in range(300):
        opening, closing = rng.choice(("[]", "()"))
        terms = []
        for _ in range(rng.randint(1, 4)):
            factor = f" * {rng.randint(0, 4)}" if rng.random() < 0.5 else ""
            terms.append(f"{opening}{rng.randint(0, 9)}, {draw(rng, 3)!r}{closing}{factor}")
        text = " + ".join(terms)
        assert parse(text) == eval(text)


def test_noise_is_an_error_in_its_place_or_what_python_reads():
    rng = random.Random(3)
    pieces = "[ ] ( ) { } , : + * 'a' True x x1 1 -2 3.5 .5 1e9 - . ' \n".split(" ")
    errors = 0
    for _ in range(3000):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 8)))
        try:
            value = parse(text)
        except TextError as error:
            errors += 1
            assert error.line <= text.count("\n") + 1
        else:
            assert value == ast.literal_eval(text.strip())
    assert 1500 < errors < 3000
