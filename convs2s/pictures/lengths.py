"""BLEU by length, from the results of ``convs2s evaluate`` (Elbayad et al. 2018, figure 5)."""

import json
import math
from operator import itemgetter
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.text_files import read_text
from .figures import color, label_axes, literal, marker


class LengthResults(NamedTuple):
    """BLEU by length.

    Attributes:
        lengths_of: "source" or "reference", whose lengths these are.
        groups: the lengths of each group, such as "5-9", and its number of sentences.
        bleu: BLEU of each group, by system; NaN where sentences are too short for it.
    """

    lengths_of: str
    groups: list[tuple[str, int]]
    bleu: dict[str, list[float]]


def read_length_results(path: str) -> LengthResults:
    """Read a file that ``convs2s evaluate --output`` wrote.

    Raises:
        UserError: if it cannot be read, or is another file.
    """
    try:
        content = json.loads(read_text(path))
        first = content["results"][0]["by_length"]
        return LengthResults(
            content["lengths_of"],
            [
                (f"{low}" if low == high else f"{low}-{high}", count)
                for low, high, count in map(itemgetter("low", "high", "sentences"), first)
            ],
            {
                result["name"]: [
                    math.nan if group["bleu"] is None else group["bleu"]
                    for group in result["by_length"]
                ]
                for result in content["results"]
            },
        )
    except UserError:
        raise
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} has no BLEU by length: give a file of `convs2s evaluate --output`."
        ) from error


def plot(pyplot: Any, results: LengthResults) -> Any:
    """Return a figure of BLEU by length, with one line for each system."""
    figure, axis = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    places = range(len(results.groups))
    for number, (name, bleu) in enumerate(results.bleu.items()):
        axis.plot(places, bleu, color=color(number), marker=marker(number), label=literal(name))
    axis.set_xticks(places, [f"{title}\n({count:,})" for title, count in results.groups])
    label_axes(axis, f"{results.lengths_of} length in tokens (sentences)", "BLEU")
    if len(results.bleu) > 1:
        axis.legend(frameon=False)
    return figure
