"""A set of 64-bit hashes that takes little memory."""

from array import array
from hashlib import blake2b


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
