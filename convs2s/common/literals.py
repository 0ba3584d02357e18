"""Literals of Python with + and *, such as ``[(512, 3)] * 9 + [(1024, 1)]``.

    sum   = term { "+" term }
    term  = value [ "*" integer ]                       only lists and tuples have operators
    value = number | text | "True" | "False" | "None"
          | "[" [ sum { "," sum } [","] ] "]"           a list
          | "(" [ sum { "," sum } [","] ] ")"           a tuple, or a sum in parentheses
          | "{" [ sum ":" sum { "," sum ":" sum } [","] ] "}"

The text is parsed, never evaluated. This module imports neither torch nor fairseq.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from .tokens import END, TokenParser

MAX_CHARACTERS = 10_000
MAX_ITEMS = 10_000
MAX_NESTING = 20
MAX_DIGITS = 400

CONSTANTS = {"True": True, "False": False, "None": None}

_TOKEN = re.compile(
    r"(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"""|(?P<text>'[^'\\\n]*'|"[^"\\\n]*")"""
    r"|(?P<mark>[][(){}:,+*])"
    r"|(?P<skip>\s+)"
)

Item = TypeVar("Item")


class LiteralParser(TokenParser):
    """A parser of literals; arguments as for ``TokenParser``."""

    def __init__(self, text: str, source: str):
        super().__init__(text, source, _TOKEN, MAX_CHARACTERS)
        self.depth = 0

    def expect(self, *allowed: str) -> None:
        """Consume the next token, which must be one of ``allowed``."""
        if not any(self.accept(token) for token in allowed):
            raise self.unexpected(" or ".join(f"'{token}'" for token in allowed))

    def expect_end(self, expected: str = END) -> None:
        """Check that no token is left; ``expected`` is what the error says."""
        if self.token != END:
            raise self.unexpected(expected)

    def integer(self, name: str, low: int, high: int) -> int:
        """Consume an integer between ``low`` and ``high``, called ``name`` in error messages."""
        position, token = self.position, self.token
        if not re.fullmatch(r"-?\d+", token):
            raise self.unexpected(name)
        self.next += 1
        value = int(token) if len(token) < 12 else high + 1
        if not low <= value <= high:
            raise self.error(f"{name} is {token}, but must be from {low} to {high}", position)
        return value

    def items(self, closing: str, item: Callable[[], Item]) -> list[Item]:
        """Consume items with commas between them, up to and including the ``closing`` mark."""
        found = []
        while not self.accept(closing):
            found.append(item())
            if self.token != closing:
                self.expect(",", closing)
        return found

    def sum(self, value: Callable[[], Any], low: int, high: int, what: str = "items") -> Any:
        """Consume a sum of lists or of tuples, each times a number or not; or one value.

        Args:
            value: consumes one value.
            low: the smallest factor.
            high: the largest factor, and the largest number of items.
            what: the items in error messages.
        """
        total: Any = None
        while True:
            start = self.position
            term = value()
            many = isinstance(term, list | tuple)
            if self.token in ("*", "+") and not many:
                raise self.error(f"'{self.token}' must follow a list or a tuple", self.position)
            count = 1
            if self.accept("*"):
                count = self.integer("the number of repetitions", low, high)
            if total is not None and type(term) is not type(total):
                raise self.error(f"expected another {type(total).__name__} to add", start)
            if many:
                size = len(total or ()) + len(term) * count
                if size > high:
                    raise self.error(f"{size} {what} are more than {high}", start)
                term = term * count
            total = term if total is None else total + term
            if not self.accept("+"):
                return total

    def literal(self) -> Any:
        """Consume any sum of the grammar."""
        return self.sum(self._value, 0, MAX_ITEMS)

    def _value(self) -> Any:
        position, token = self.position, self.token
        self.next += token != END
        if token in CONSTANTS:
            return CONSTANTS[token]
        if token[0] in "'\"":
            return token[1:-1]
        if token[0] in "-." or token[0].isdecimal():
            if len(token) > MAX_DIGITS:
                raise self.error(f"a number has more than {MAX_DIGITS} characters", position)
            return int(token) if re.fullmatch(r"-?\d+", token) else float(token)
        if token not in ("[", "(", "{"):
            self.next -= token != END
            raise self.unexpected("a number, text, list, tuple or dictionary")
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"values are nested more than {MAX_NESTING} deep", position)
        found = self._bracket(token)
        self.depth -= 1
        return found

    def _bracket(self, opening: str) -> Any:
        if opening == "[":
            return self.items("]", self.literal)
        if opening == "{":
            return dict(self.items("}", self._entry))
        parts = self.items(")", self.literal)
        trailing_comma = self.tokens[self.next - 2].text == ","
        return parts[0] if len(parts) == 1 and not trailing_comma else tuple(parts)

    def _entry(self) -> tuple[Any, Any]:
        start, key = self.position, self.literal()
        if isinstance(key, list | tuple | dict):
            raise self.error("the key of a dictionary must be a number or text", start)
        self.expect(":")
        return key, self.literal()
