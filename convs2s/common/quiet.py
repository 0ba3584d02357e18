"""Hide the messages of libraries, and progress."""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# What Python and torch say about code of fairseq while it is imported: kind, beginning of the text.
OF_FAIRSEQ = (
    (Warning, "`torch.jit.script` is deprecated"),
    (SyntaxWarning, "invalid escape sequence"),
    (SyntaxWarning, '"is not" with'),
)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings and log messages; errors remain."""
    with warnings.catch_warnings(), hidden_messages(logging.WARNING):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def keep_logging() -> Iterator[None]:
    """Keep the import of a library from configuring the logging of a program that has not done so.

    Warnings are printed as before: ``logging.basicConfig`` does nothing if there is a handler.
    """
    root, handler = logging.getLogger(), logging.lastResort or logging.NullHandler()
    if root.handlers:
        yield
        return
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def hidden_warnings() -> Iterator[None]:
    """Hide the warnings about code of fairseq."""
    with warnings.catch_warnings():
        for kind, text in OF_FAIRSEQ:
            warnings.filterwarnings("ignore", re.escape(text), kind)
        yield


def hiding_variable(others: str | None) -> str:
    """The value of PYTHONWARNINGS that hides them from the start of a program.

    Args:
        others: filters of the user, which override these; None if there are none.
    """
    filters = [f"ignore:{text}:{kind.__name__}" for kind, text in OF_FAIRSEQ]
    return ",".join([*filters, others] if others else filters)


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
