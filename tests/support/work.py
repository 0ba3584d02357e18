"""A limit on work that does not depend on a clock."""

import sys
from contextlib import contextmanager


@contextmanager
def at_most_calls(limit):
    """Fail as soon as more functions than ``limit`` have been called, of Python or of C."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > limit:
            sys.setprofile(None)
            raise AssertionError(f"more than {limit:,} calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
