"""Choose the pairs of a validation and a test set from a text.

They are spread evenly over it, so that they have its genres in its proportions, and depend on
nothing but its number of pairs.
"""

from ..common.errors import UserError

# Default size: one pair in so many, but at most so many.
ONE_IN = 20
AT_MOST = 2000


def default_size(pairs: int) -> int:
    """The default number of pairs in each held-out set: 5% of the text, from 1 to 2,000."""
    return max(1, min(AT_MOST, pairs // ONE_IN))


def choose(pairs: int, sizes: dict[str, int]) -> dict[int, str]:
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
