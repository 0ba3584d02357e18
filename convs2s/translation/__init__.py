"""Translation of raw lines: from text to text, line by line.

``Translator`` is the way in; ``convs2s translate`` uses it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .options import EnsembleOptions
from .results import Hypothesis, Translation

if TYPE_CHECKING:
    from .translator import Translator

__all__ = ["EnsembleOptions", "Hypothesis", "Translation", "Translator"]


def __getattr__(name: str) -> Any:
    # Only the translator needs torch.
    if name == "Translator":
        return import_module(".translator", __name__).Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
