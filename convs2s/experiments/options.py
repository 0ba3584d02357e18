"""Options of fairseq's programs, as an experiment or a recipe gives them."""

import re
from typing import Any

Options = dict[str, Any]
# In a value, the number of updates of a run, or a share of it.
UPDATES = re.compile(r"\{(?:(100|\d\d?)% of )?updates\}")
# What looks like it; values in JSON have quotation marks.
IN_BRACES = re.compile(r"\{[^{}\"]+\}")
# Options of fairseq-generate that `convs2s translate` also has, and those that mean nothing there.
OF_TRANSLATE = (
    *("beam", "lenpen", "unnormalized", "min-len", "max-len-a", "max-len-b", "max-tokens"),
    *("batch-size", "lexicon", "autocast-dtype", "int8"),
)
NOT_FOR_TEXT = ("remove-bpe", "post-process", "skip-invalid-size-inputs-valid-test", "num-workers")


def arguments(options: Options) -> list[str]:
    """Options as arguments of a command line."""
    words = []
    for name, value in given(options).items():
        if value is True:
            words.append(f"--{name}")
        elif str(value).startswith("-"):
            words.append(f"--{name}={value}")
        else:
            words += [f"--{name}", str(value)]
    return words


def given(options: Options) -> Options:
    """The options that a command line has: False and None omit one."""
    return {name: value for name, value in options.items() if not (value is None or value is False)}


def with_updates(value: Any, updates: int) -> Any:
    """The value of an option, in which UPDATES are replaced by the numbers of a run.

    Args:
        value: of any type; only strings have UPDATES.
        updates: the number of updates of the run.
    """
    if not isinstance(value, str):
        return value
    return UPDATES.sub(lambda match: str(updates * int(match[1] or 100) // 100), value)
