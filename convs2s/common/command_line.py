"""Errors of argparse in one sentence."""

import re
from collections.abc import Iterable

from .errors import nearest

# Names that an error lists if none is like the given one.
MOST_SHOWN = 20


def refusal(message: str, options: Iterable[str]) -> str:
    """An error of argparse with the nearest option or name in place of the full list.

    Args:
        message: what argparse passes to ``ArgumentParser.error``.
        options: the options of the parser, such as --beam.
    """
    choice = re.fullmatch(
        r"argument (.+?): invalid choice: '(.*?)' \(choose from (.*)\)", message, re.DOTALL
    )
    if choice is not None:
        option, given, allowed = choice.groups()
        names = re.findall(r"[^\s,']+", allowed)
        shown = nearest(given, names) or f"; allowed: {', '.join(names[:MOST_SHOWN])}"
        return f"argument {option}: there is no '{given}'{shown}"
    unknown = re.match(r"unrecognized arguments: ([^\s=]+)", message)
    return message if unknown is None else f"{message}{nearest(unknown[1], options)}"
