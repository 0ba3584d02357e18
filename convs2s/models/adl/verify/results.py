"""Measuring all properties of a definition, and the table of them."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from ....common.errors import TRACEBACK_VARIABLE
from ..figures import figures, stack_receptive_field
from ..language.registry import UNBOUNDED
from ..language.spec import ModelSpec
from ..options import AdlOptions
from .comparisons import Found
from .properties import PROPERTIES, Property
from .subject import LayerFault, Subject, in_short, length_for


class Result(NamedTuple):
    """The result of one property.

    Attributes:
        tested: the property.
        deviation: the largest deviation; None if there is none.
        ok: whether it holds, or cannot be measured on this machine.
        raised: the exception with which a layer failed, as part of a sentence; or "".
        where: where a fault begins, or "".
    """

    tested: Property
    deviation: float | None
    ok: bool
    raised: str = ""
    where: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The cells of the table: property, deviation, bound, and whether it holds."""
        deviation = "-" if self.deviation is None else shown(self.deviation)
        verdict = "ok" if self.ok else "FAILED"
        if self.ok and self.deviation is None:
            verdict = "not available here"
        return self.tested.name, deviation, shown(self.tested.bound), verdict


TITLES = ("property", "largest deviation", "bound", "")
_WIDTHS = (max(len(each.name) for each in PROPERTIES), len(TITLES[1]), 6)


def write_row(cells: tuple[str, str, str, str]) -> str:
    """A line of the table, with columns of fixed width."""
    name, deviation, bound, verdict = cells
    first, second, third = _WIDTHS
    return f"{name:<{first}}  {deviation:>{second}}  {bound:>{third}}  {verdict}".rstrip()


def remarks(spec: ModelSpec, length: int | None = None) -> list[str]:
    """Sentences about what was measured, and what was not; arguments are those of ``verify``."""
    length = length or length_for(spec)
    found = [
        f"The longest sentence has {length} tokens, and --model-dim is {spec.settings.model_dim}; "
        "weights and tokens are random. A deviation is relative to the largest number; where the "
        "bound is 0, it is absolute."
    ]
    total = figures([*spec.encoder.layers, *spec.decoder.layers], length)
    for names, what, how in (
        (total.not_built, "parameters", "they are not declared"),
        (total.no_cost, "multiply-adds", "no cost is declared"),
    ):
        if names:
            found.append(f"Without the {what} of {', '.join(sorted(names))}: {how}.")
    for stack in (spec.encoder, spec.decoder):
        ends = [int(end) for end in stack_receptive_field(spec, stack) if end != UNBOUNDED]
        if ends and max(ends) > length - 2:
            found.append(
                f"The receptive field of the {stack.side} reaches {max(ends)} positions away, so "
                "no position of these sentences is outside it: give a larger --length to "
                "verify it."
            )
    return found


def shown(number: float) -> str:
    """A deviation with two digits; 0 is exact."""
    if number < 1e15 and number == int(number):
        return f"{number:,.0f}"
    if 0.01 <= number < 100:
        return f"{number:.2g}"
    return re.sub(r"e([-+])0", r"e\1", f"{number:.1e}").replace(".0e", "e")


def verify(
    options: AdlOptions, spec: ModelSpec, words: int, length: int | None = None
) -> Iterator[Result]:
    """Build the network of a definition, then measure one property after the other.

    Args:
        options: the options of the network, with its definitions.
        spec: what they resolve to, with places for messages.
        words: the size of both vocabularies.
        length: tokens of the longest sentence (None: see ``length_for``).
    Raises:
        UserError: if a layer cannot be built.
    """
    with torch.random.fork_rng(devices=[]):
        subject = Subject(options, spec, words, length)
    return _results(subject)


def _results(subject: Subject) -> Iterator[Result]:
    for each in PROPERTIES:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(len(each.name))
            result = _result(subject, each)
        yield result


def _result(subject: Subject, each: Property) -> Result:
    try:
        found: Found | None = each.measure(subject, each.bound)
    except LayerFault as error:
        return Result(each, None, False, f"{subject.where_it_failed()} {error}")
    except Exception as error:
        # Layers of users fail in many ways.
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        where = subject.where_it_failed() or "the network"
        return Result(each, None, False, f"{where} raises {in_short(error)}")
    if found is None:
        return Result(each, None, True)
    return Result(each, found.deviation, found.deviation <= each.bound, where=found.where)


def faults(results: Iterable[Result]) -> list[str]:
    """A sentence for each property that fails: what that means, and where to look.

    An exception that several properties share is in one sentence.
    """
    failed = [result for result in results if not result.ok]
    found = []
    for result in failed:
        names = [each.tested.name for each in failed if each.raised == result.raised]
        fault = f"{result.tested.fault}."
        if not result.raised:
            look = f" Look at {result.where}." if result.where else ""
            found.append(f"FAILED {result.tested.name}: {fault}{look}")
        elif len(names) == 1:
            found.append(f"FAILED {names[0]}: {result.raised}: {fault}")
        elif names[0] == result.tested.name:
            found.append(f"FAILED {'; '.join(names)}: {result.raised}.")
    return found
