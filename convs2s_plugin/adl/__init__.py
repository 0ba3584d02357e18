"""The Architecture Definition Language (Domhan 2018): a model as two chains of layers.

The way of a definition: ``syntax.parse`` reads text into a tree; ``sockeye.translate`` turns the
original implementation's dialect into the paper's; ``resolve.resolve`` looks every name up in
``registry``, fills in arguments and widths, checks, and gives a ``recipe.Recipe``, from which the
network is built. ``explain`` and ``text`` read recipes too.

Knows neither torch nor fairseq.
"""

from . import builtin  # noqa: F401  (declares the layers)
from .arguments import Argument, Choice, Default, Flag, Integer, Real, Refusal, SubChain
from .recipe import Layer, Recipe, Settings, Side
from .registry import (
    BLOCK,
    PAST,
    POSITION,
    SENTENCE,
    Cost,
    Reach,
    register_layer,
)
from .resolve import resolve

__all__ = [
    "BLOCK",
    "PAST",
    "POSITION",
    "SENTENCE",
    "Argument",
    "Choice",
    "Cost",
    "Default",
    "Flag",
    "Integer",
    "Layer",
    "Reach",
    "Real",
    "Recipe",
    "Refusal",
    "Settings",
    "Side",
    "SubChain",
    "register_layer",
    "resolve",
]
