"""Seeds, the inputs that fuzzing has found, and random changes of both."""

import random
from pathlib import Path

import pytest

from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"
CHANGES = 200


def changed(data, numbers):
    """The input with a few bytes changed, left out, doubled or added."""
    data = bytearray(data)
    for _ in range(numbers.randint(1, 4)):
        place = numbers.randrange(len(data) + 1)
        kind = numbers.randrange(4)
        if kind == 0:
            data[place : place + 1] = bytes([numbers.randrange(256)])
        elif kind == 1:
            del data[place : place + numbers.randint(1, 8)]
        elif kind == 2:
            data[place:place] = data[place : place + numbers.randint(1, 40)]
        else:
            data[place:place] = numbers.randbytes(numbers.randint(1, 4))
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_only_documented_errors(name):
    inputs = seeds()[name] + [path.read_bytes() for path in sorted(FOUND.glob(f"{name}-*"))]
    numbers = random.Random(1)
    for data in inputs:
        TARGETS[name](data)
    for _ in range(CHANGES):
        TARGETS[name](changed(numbers.choice(inputs), numbers))
