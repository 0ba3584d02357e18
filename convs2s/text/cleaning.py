"""Which pairs are for training: bad ones are dropped and counted, others are held out.

The rules for lengths are those of Moses' ``clean-corpus-n.perl``, which count tokens. In text that
is not tokenized, each character of a script without spaces can be counted as one.

The pairs of a validation and a test set are spread evenly over the text, so that they have its
genres in its proportions, and depend on nothing but its number of pairs.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

from ..common.errors import UserError

# A longer token is not a word; Moses' script has the same limit.
MAX_TOKEN_LENGTH = 1000
REASONS = {
    "empty": "with an empty side",
    "long": "too long",
    "ratio": "of unequal length",
    "held_out": "also in valid or test",
    "duplicate": "that occurred before",
}
# Scripts without spaces: Thai, Lao, Myanmar, Khmer, kana, Chinese characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
# Default size: one pair in this many, but at most this many.
ONE_IN = 20
AT_MOST = 2000


def pair_hash(source: str, target: str) -> int:
    """A 64-bit hash of a pair, above 0.

    Among a million different pairs, two have the same hash with a probability of 3e-8.
    """
    text = f"{source}\t{target}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") or 1


@dataclass(frozen=True)
class Limits:
    """Limits of a training pair.

    Attributes:
        length: most tokens on a side.
        ratio: largest ratio of the longer side's tokens to the shorter side's.
        duplicates: whether to keep pairs that occurred before.
        unspaced: for source and target, whether to count each character of a script without spaces
            as a token.
    """

    length: int
    ratio: float
    duplicates: bool = False
    unspaced: tuple[bool, bool] = (False, False)


def fault(source: str, target: str, limits: Limits) -> str | None:
    """Why to drop a pair of tokenized lines, see ``REASONS``; None if it is within limits."""
    if not source or not target:
        return "empty"
    shorter, longer = sorted(
        unspaced_count(line) if unspaced else token_count(line)
        for line, unspaced in zip((source, target), limits.unspaced)
    )
    if longer > limits.length or _has_long_token(source) or _has_long_token(target):
        return "long"
    return "ratio" if longer > shorter * limits.ratio else None


def token_count(line: str) -> int:
    """The number of tokens."""
    return len(line.split())


def unspaced_count(line: str) -> int:
    """The number of tokens; each character of a script without spaces is one."""
    if line.isascii():
        return len(line.split())
    return len(_UNSPACED.findall(line)) + len(_UNSPACED.sub(" ", line).split())


def _has_long_token(line: str) -> bool:
    return len(line) > MAX_TOKEN_LENGTH and max(map(len, line.split())) > MAX_TOKEN_LENGTH


def held_out_size(pairs: int) -> int:
    """The default number of pairs in each held-out set: 5% of the text, from 1 to 2,000."""
    return max(1, min(AT_MOST, pairs // ONE_IN))


def choose_held_out(pairs: int, sizes: dict[str, int]) -> dict[int, str]:
    """Choose pairs of a text.

    Args:
        pairs: number of pairs in the text.
        sizes: names of the sets -> their numbers of pairs.
    Returns:
        index of a pair -> name of its set.
    Raises:
        UserError: if too few pairs would be left.
    """
    total = sum(sizes.values())
    if 2 * total > pairs:
        wanted = " and ".join(f"{size:,} for {name}" for name, size in sizes.items() if size)
        raise UserError(
            f"{pairs:,} pairs remain after cleaning, which is too few to hold out {wanted}: give "
            "smaller sets with --valid-size and --test-size, or files with --valid and --test."
        )
    # The middles of as many equal parts; the sets take turns in proportion to their sizes.
    places = [(2 * number + 1) * pairs // (2 * total) for number in range(total)]
    taken = dict.fromkeys(sizes, 0)
    chosen = {}
    for number, place in enumerate(places, start=1):
        name = max(sizes, key=lambda name: sizes[name] * number - taken[name] * total)
        taken[name] += 1
        chosen[place] = name
    return chosen
