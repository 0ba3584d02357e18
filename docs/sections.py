"""An extension of griffe for the API reference: sections of docstrings without a blank line above.

The docstrings of the package write ``Returns:`` right below the last argument; griffe finds a
section below a blank line only.
"""

import re
from typing import Any

import griffe

SECTION = re.compile(r"(?<=\S)\n(?=(?:Args|Attributes|Returns|Raises|Yields):\n)")


class Sections(griffe.Extension):
    """Put a blank line above every section."""

    def on_instance(self, *, obj: griffe.Object, **options: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = SECTION.sub("\n\n", obj.docstring.value)
