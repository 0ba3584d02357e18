"""Which pairs are for training: bad ones are left out and counted, others are held out.

The rules for lengths are those of Moses' ``clean-corpus-n.perl``, which count tokens. In text that
is not tokenized, each character of a script without spaces can be counted as one.

The pairs of a validation and a test set are spread evenly over the text, so that they have its
genres in its proportions, and depend on nothing but its number of pairs.
"""

import re
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b

from ..common.errors import UserError

# A longer token is no word; Moses' script has the same limit.
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
# Default size: one pair in so many, but at most so many.
ONE_IN = 20
AT_MOST = 2000


def pair_hash(source: str, target: str) -> int:
    """A 64-bit hash of a pair, above 0.

    Among a million different pairs, two have the same hash with a probability of 3e-8.
    """
    text = f"{source}\t{target}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") or 1


class HashSet:
    """A set of hashes, integers from 1 to 2**64 - 1: a hash table with linear probing.

    It takes 11 to 22 bytes for each hash, and half as much again while it grows; a set of
    Python takes about 100.
    """

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * 1024))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, value: int) -> bool:
        return self._table[self._place(self._table, value)] != 0

    def add(self, value: int) -> bool:
        """Add a hash; whether it is new."""
        place = self._place(self._table, value)
        if self._table[place]:
            return False
        self._table[place] = value
        self._count += 1
        if self._count * 4 > len(self._table) * 3:
            self._grow()
        return True

    def _grow(self) -> None:
        """Double the table."""
        table = array("Q", bytes(16 * len(self._table)))
        for value in self._table:
            if value:
                table[self._place(table, value)] = value
        self._table = table

    @staticmethod
    def _place(table: "array[int]", value: int) -> int:
        """The place of a hash, or the free one for it."""
        mask = len(table) - 1
        place = value & mask
        while table[place] not in (0, value):
            place = (place + 1) & mask
        return place


@dataclass(frozen=True)
class Limits:
    """Limits of a training pair.

    Attributes:
        length: most tokens on a side.
        ratio: of the longer side's tokens to those of the shorter.
        duplicates: keep pairs that occurred before.
        unspaced: count each character of a script without spaces as a token.
    """

    length: int
    ratio: float
    duplicates: bool = False
    unspaced: bool = False


@dataclass
class Cleaner:
    """Decides about training pairs.

    Args:
        limits: the limits.
        held_out: hashes of the pairs in valid and test.

    Attributes:
        counts: reason -> number of pairs that were left out, see ``REASONS``.
    """

    limits: Limits
    held_out: HashSet
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    _seen: HashSet = field(default_factory=HashSet)

    def keeps(self, source: str, target: str) -> bool:
        """Whether to keep a pair of tokenized lines."""
        reason = self._reason(source, target)
        if reason is None:
            return True
        self.counts[reason] += 1
        return False

    def _reason(self, source: str, target: str) -> str | None:
        """Why to leave out a pair; None to keep it."""
        if not source or not target:
            return "empty"
        count = unspaced_count if self.limits.unspaced else token_count
        shorter, longer = sorted((count(source), count(target)))
        if longer > self.limits.length or _has_long_token(source) or _has_long_token(target):
            return "long"
        if longer > shorter * self.limits.ratio:
            return "ratio"
        pair = pair_hash(source, target)
        if pair in self.held_out:
            return "held_out"
        if not self.limits.duplicates and not self._seen.add(pair):
            return "duplicate"
        return None


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
