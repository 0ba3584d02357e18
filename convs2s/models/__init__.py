"""The families of networks, and the interface that they share.

A family is a folder: ``options`` (a plain dataclass), ``network``, and ``architectures`` (named
sets of options). This module imports no torch; it finds families by name.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .interface import Network
    from .options import Architecture


class Family(NamedTuple):
    """A family, whose parts are imported when they are used.

    Attributes:
        network: returns the class of its networks.
        architectures: returns the named architectures.
    """

    network: Callable[[], "type[Network]"]
    architectures: Callable[[], "Mapping[str, Architecture]"]


def _family(folder: str, network: str, architectures: str = "ARCHITECTURES") -> Family:
    """A family of this package: its folder, and names in ``network`` and ``architectures``."""

    def load(module: str, name: str) -> Any:
        return getattr(import_module(f".{folder}.{module}", __name__), name)

    return Family(lambda: load("network", network), lambda: load("architectures", architectures))


FAMILIES: dict[str, Family] = {
    "convs2s": _family("convs2s", "ConvS2S"),
    "pervasive": _family("pervasive", "Pervasive"),
    "adl": _family("adl", "AdlNetwork", "AS_OPTIONS"),
}


def add_architectures(family: str, architectures: "Mapping[str, Architecture]") -> None:
    """Add named architectures to a family, so that checkpoints of them can be read.

    Args:
        family: one of FAMILIES.
        architectures: name -> architecture.
    """
    known = FAMILIES[family]
    FAMILIES[family] = known._replace(
        architectures=lambda: {**known.architectures(), **architectures}
    )


def family_of(architecture: str) -> str | None:
    """The family of a named architecture, or None if no family has it."""
    for name, family in FAMILIES.items():
        if architecture == name or architecture in family.architectures():
            return name
    return None
