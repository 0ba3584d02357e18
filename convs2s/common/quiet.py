"""Hide the messages of libraries, and progress."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings and log messages; errors remain."""
    with warnings.catch_warnings(), hidden_messages(logging.WARNING):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def hidden_messages(level: int) -> Iterator[None]:
    """Hide log messages of a level, and of those below it."""
    previous = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(previous)


class Shown:
    """What is shown; the command line changes it.

    Attributes:
        progress: the progress of long work (unless --quiet is given).
    """

    progress = True
