"""The Architecture Definition Language (Domhan 2018): a model as two chains of layers.

``language`` turns a definition into a ``ModelSpec``: it parses the text into a tree, translates
the original implementation's dialect, looks every layer up in the registry, fills in arguments and
widths, and checks them. ``layers`` holds the layers, each with its declaration.

Knows neither torch nor fairseq.
"""

from .language import builtin  # noqa: F401  (declares the layers)
from .language.arguments import Argument, Choice, Default, Flag, Integer, Real, Refusal, SubChain
from .language.registry import (
    BLOCK,
    PAST,
    POSITION,
    SENTENCE,
    Cost,
    Reach,
    register_layer,
)
from .language.resolve import resolve
from .language.spec import LayerSpec, ModelSpec, Settings, StackSpec

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
    "LayerSpec",
    "Reach",
    "Real",
    "ModelSpec",
    "Refusal",
    "Settings",
    "StackSpec",
    "SubChain",
    "register_layer",
    "resolve",
]
