"""The Architecture Definition Language (Domhan 2018): a model is two chains of layers.

``language`` turns a definition into a `ModelSpec`: it parses the text, translates the dialect of
the original implementation, finds every layer in the registry, fills in arguments and widths, and
checks them; it declares the layers. ``layers`` holds their modules, and ``network`` is the model.
This file needs no torch.
"""

from .language.arguments import (
    Argument,
    Choice,
    Default,
    Flag,
    Integer,
    LayerError,
    Real,
    SubChain,
)
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
    "LayerError",
    "LayerSpec",
    "ModelSpec",
    "Real",
    "Reach",
    "Settings",
    "StackSpec",
    "SubChain",
    "register_layer",
    "resolve",
]
