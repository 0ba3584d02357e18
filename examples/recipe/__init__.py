"""What the examples share: ``Recipe`` runs and logs the commands of their steps.

``runner`` runs commands and prints progress, ``steps`` has the steps from text to BLEU,
``training`` the options for small models, and ``inputs`` the options and the text of an example.
"""

from .inputs import example_parser, read_text, write_text
from .steps import USER_DIR, Recipe
from .training import optimization, small_model

__all__ = [
    "USER_DIR",
    "Recipe",
    "example_parser",
    "optimization",
    "read_text",
    "small_model",
    "write_text",
]
