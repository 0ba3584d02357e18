"""Leave out the training pairs that would not help, and count them.

The rules for lengths are those of Moses' ``clean-corpus-n.perl``, which count tokens. In text that
is not tokenized, each character of a script without spaces can be counted as one.
"""

import re
from dataclasses import dataclass, field

from .hashes import HashSet, pair_hash

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
