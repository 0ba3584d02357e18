"""Translation of raw lines: from text to text, one line for one line.

``Translator`` is the way in; ``convs2s translate`` uses it.
"""

from .options import EnsembleOptions
from .results import Hypothesis, Translation
from .translator import Translator

__all__ = ["EnsembleOptions", "Hypothesis", "Translation", "Translator"]
