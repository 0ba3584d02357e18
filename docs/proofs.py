"""Measure what ``convs2s adl verify`` measures, for every layer: ``python docs/proofs.py``.

The deviations are written to docs/proofs.json, from which docs/tables.py makes the tables of
docs/language.md. They differ in their last digits from machine to machine, and are rounded up to a
power of ten.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from convs2s.cli.adl import OTHER_SIDE, SMALL, SMALL_WORDS  # noqa: E402
from convs2s.common.errors import TextError  # noqa: E402
from convs2s.common.tables import markdown_table  # noqa: E402
from convs2s.models.adl.language.arguments import (  # noqa: E402
    REQUIRED,
    Argument,
    Choice,
    Flag,
    Integer,
    LetName,
    Real,
    SubChain,
    write_value,
)
from convs2s.models.adl.language.registry import entries  # noqa: E402
from convs2s.models.adl.language.spec import DECODER, ENCODER  # noqa: E402
from convs2s.models.adl.options import AdlOptions  # noqa: E402

FILE = DOCS / "proofs.json"
# Chains inside a layer, which have a state in a decoder.
CHAINS = ("cnn", "rnn")
# What arguments that are integers are, besides their defaults.
SMALL_NUMBER = 2
SIDES = (ENCODER, DECODER)
# Layer -> side -> property -> the power of ten above the deviation, None for 0.
Proofs = dict[str, dict[str, dict[str, int | None]]]


def layers() -> list[str]:
    """The layers of the package, without those of users."""
    return [name for name, entry in sorted(entries().items()) if not getattr(entry, "module", None)]


def definitions(name: str) -> Iterator[str]:
    """A layer with its defaults, then with other values of its arguments, one at a time."""
    arguments = entries()[name].arguments
    if any(isinstance(each.kind, LetName) for each in arguments):
        yield from (f"let chain = {chain}; {name}(chain) -> {name}(chain)" for chain in CHAINS)
        return
    needed = {each.name: values for each in arguments if (values := _needed(each))}
    chosen = {each.name: values for each in arguments if (values := _choices(each))}
    first = [_written(each, needed[each.name][0]) for each in arguments if each.name in needed]
    yield _call(name, first)
    for number, argument in enumerate(each for each in arguments if each.name in needed):
        for value in needed[argument.name][1:]:
            others = [*first]
            others[number] = _written(argument, value)
            yield _call(name, others)
    for argument in arguments:
        for value in chosen.get(argument.name, ()):
            others = [each for each in first if not each.startswith(f"{argument.name}=")]
            yield _call(name, [*others, _written(argument, value)])


def _needed(argument: Argument) -> tuple[Any, ...]:
    """Values of an argument without which a layer is an error."""
    kind = argument.kind
    if isinstance(kind, SubChain) and kind.many:
        return (", ".join(CHAINS),)
    if argument.default is not REQUIRED:
        return ()
    if isinstance(kind, SubChain):
        return CHAINS
    if isinstance(kind, Real):
        return (min(max(0.5, kind.low), kind.high),)
    return _choices(argument)[:1]


def _choices(argument: Argument) -> tuple[Any, ...]:
    """Values that make another layer; what is not allowed is left out later."""
    kind = argument.kind
    if isinstance(kind, Choice):
        return kind.names
    if isinstance(kind, Flag):
        return True, False
    return (SMALL_NUMBER,) if isinstance(kind, Integer) else ()


def _written(argument: Argument, value: Any) -> str:
    many = isinstance(argument.kind, SubChain) and argument.kind.many
    return value if many else f"{argument.name}={write_value(value)}"


def _call(name: str, arguments: list[str]) -> str:
    return f"{name}({', '.join(arguments)})" if arguments else name


def options_of(definition: str, side: str) -> AdlOptions:
    """The small network with one layer on a side."""
    other = OTHER_SIDE[side]
    encoder, decoder = (definition, other) if side == ENCODER else (other, definition)
    return AdlOptions(
        encoder_adl=encoder,
        decoder_adl=decoder,
        model_dim=SMALL.model_dim,
        attention_heads=SMALL.attention_heads,
    )


def resolved(name: str, side: str) -> Iterator[tuple[str, AdlOptions]]:
    """The definitions of a layer that are allowed on a side, and their networks."""
    for definition in definitions(name):
        options = options_of(definition, side)
        try:
            options.resolve()
        except TextError:
            continue
        yield definition, options


def measure(name: str, side: str) -> dict[str, int | None]:
    """The largest deviation of each property among the definitions of a layer on a side.

    Raises:
        AssertionError: a property does not hold.
    """
    from convs2s.models.adl.verify import faults, verify

    found: dict[str, int | None] = {}
    for definition, options in resolved(name, side):
        for result in verify(options, options.resolve(), SMALL_WORDS):
            assert result.ok, f"{definition} in the {side}: {faults([result])[0]}"
            if side in result.tested.sides and result.deviation is not None:
                power = math.ceil(math.log10(result.deviation)) if result.deviation else None
                known = found.setdefault(result.tested.name, power)
                if power is not None and (known is None or power > known):
                    found[result.tested.name] = power
    return found


def properties() -> str:
    """The properties and their bounds as a Markdown table."""
    from convs2s.models.adl.verify import PROPERTIES, shown

    rows = [(each.name, each.claim, shown(each.bound)) for each in PROPERTIES]
    return markdown_table(("property", "what holds", "bound"), rows)


def table(side: str) -> str:
    """The deviations of the layers of a side as a Markdown table, from the file."""
    from convs2s.models.adl.verify import PROPERTIES

    proofs: Proofs = json.loads(FILE.read_text(encoding="utf-8"))
    names = [each.name for each in PROPERTIES if side in each.sides]
    rows = []
    for layer, sides in proofs.items():
        if side in sides:
            powers = [sides[side][name] for name in names]
            cells = ["0" if power is None else f"1e{power}" for power in powers]
            rows.append((f"`{layer}`", *cells))
    return markdown_table(("layer", *names), rows)


def main() -> None:
    """Measure every layer."""
    from convs2s.nn import int8

    if not int8.is_supported():
        sys.exit("The tables have a column of int8, for which this CPU has no instructions.")
    proofs: Proofs = {}
    for name in layers():
        proofs[name] = {side: found for side in SIDES if (found := measure(name, side))}
        print(name, flush=True)
        assert proofs[name], f"no definition of {name} is allowed"
    lines = (f"{json.dumps(name)}: {json.dumps(sides)}" for name, sides in proofs.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
