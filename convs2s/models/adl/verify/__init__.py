"""Proofs by computation: what this package guarantees holds for the layers of a definition.

``convs2s adl verify`` and docs/proofs.py call ``verify``. A small network with random weights
(``subject``) computes the same thing in two ways (``properties``); the largest deviation between
the two must not exceed a bound.
"""

from .properties import PROPERTIES, Property
from .results import TITLES, Result, faults, remarks, shown, verify, write_row

__all__ = [
    "PROPERTIES",
    "TITLES",
    "Property",
    "Result",
    "faults",
    "remarks",
    "shown",
    "verify",
    "write_row",
]
