"""A batch that a worker computes only because the others do, and that must change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

_ignored = False


@contextmanager
def ignored_batch(ignored: bool) -> Iterator[None]:
    """Leave the batch out of statistics that workers share while the body runs.

    A worker that has no batch left in an epoch repeats its first one, so that all workers take part
    in the same collective operations; fairseq multiplies the loss of this batch by zero.

    Args:
        ignored: whether the batch is such a one; if not, nothing changes.
    """
    global _ignored
    before, _ignored = _ignored, ignored
    try:
        yield
    finally:
        _ignored = before


def is_ignored() -> bool:
    """Whether the batch that is computed now is to be left out."""
    return _ignored
