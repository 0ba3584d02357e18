"""Random definitions: all are valid, resolve again, and never crash when damaged."""

import random

from convs2s.common.errors import UserError
from convs2s.models.adl import resolve
from convs2s.models.adl.explain import as_text
from convs2s.models.adl.language.writer import definition
from tests.support.adl_random import KNOWN, random_definition
from tests.support.work import at_most_calls

SEEDS = range(300)


def resolve_drawn(drawn):
    return resolve(drawn.encoder, drawn.decoder, drawn.settings, input_feeding=drawn.input_feeding)


def test_all_are_valid_and_resolve_again():
    for seed in SEEDS:
        drawn = random_definition(seed)
        spec = resolve_drawn(drawn)
        again = resolve(
            definition(spec.encoder),
            definition(spec.decoder),
            drawn.settings,
            input_feeding=drawn.input_feeding,
        )
        assert again == spec, (seed, drawn)


def test_every_layer_is_drawn():
    text = " ".join(f"{drawn.encoder} {drawn.decoder}" for drawn in map(random_definition, SEEDS))
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
    assert words >= KNOWN | {"repeat", "cycle", "let", "i"}


def test_damaged_text_is_an_error_in_a_sentence():
    rng = random.Random(1)
    alphabet = "abcdilnrst_(),;=->@#0123456789.e \n$\0é→"
    errors = 0
    for seed in range(400):
        drawn = random_definition(seed % 50)
        letters = list(drawn.decoder)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(letters))
            letters[place] = rng.choice(("", rng.choice(alphabet), letters[place] * 2))
        try:
            as_text(resolve_drawn(drawn._replace(decoder="".join(letters))), 1000, 30)
        except UserError as error:
            errors += 1
            assert "--decoder-adl, line " in str(error)
    assert 100 < errors < 400


def test_noise_is_an_error_after_little_work():
    rng = random.Random(2)
    pieces = [
        "repeat(",
        "res(",
        "rnn",
        "->",
        ",",
        ")",
        "9",
        "1e9",
        "-i",
        "concat(",
        "cycle(",
        "let a =",
        "share(a)",
        ";",
        "@x",
        "d=",
        "\n",
    ]
    errors = 0
    with at_most_calls(1_500_000):
        for _ in range(300):
            text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 400)))
            try:
                resolve(text, "id")
            except UserError:
                errors += 1
    assert errors > 290
