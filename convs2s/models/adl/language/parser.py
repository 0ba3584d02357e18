"""ADL text -> syntax tree (Domhan 2018, section 2.2).

    definition = { "let" name "=" chain ";" } chain
    chain      = layer { "->" layer }
    layer      = name [ "(" [ item { "," item } [","] ] ")" ]
               | "repeat" "(" integer "," chain ")"
               | "cycle" "(" integer "," chain "," chain { "," chain } ")"
               | "@" file                              the definition in a file
    item       = [ name "=" ] value
    value      = chain | number | [ "-" ] "i"          i: the number of the repetition, from 1

Spaces and line breaks do not matter, ``#`` starts a comment, ``→`` means ``->``. The parser does
not know the names of layers, nor which names are those of a ``let``. It rejects text that is too
long or too deeply nested; the resolver counts the layers.

Needs neither torch nor fairseq.
"""

import os
import re

from ....common.errors import TextError
from ....common.limits import MAX_ADL_LAYERS
from ....common.lines import excerpt
from ....common.tokens import TokenParser
from .tree import Call, Chain, Definition, Index, Item, Let, Number, Place, Repeat, Value

MAX_LENGTH = 20000
MAX_DEPTH = 50
MAX_FILES = 100
_MAX_FILE_NAME = 400
_MAX_DIGITS = 25
# Reserved names, which neither a layer nor a chain can have.
RESERVED = ("cycle", "i", "let", "repeat", "true", "false")

_TOKEN = re.compile(
    r"(?P<skip>\s+|\#[^\n]*)"
    r"|(?P<mark>->|→|[(),=;]|-(?=i\b))"
    r"|(?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r'|(?P<file>@(?:"[^"\x00-\x1f]*"|(?:(?!->|→)[^\s,;()#"\x00-\x1f])*))'
)


def parse(text: str, source: str = "ADL") -> Definition:
    """Parse one definition.

    Args:
        text: a chain of layers, e.g. ``pos -> repeat(6, res_nd(cnn)) -> norm``, after names for
            chains in it. ``@path`` means the chain in a file; the path is relative to the
            file that includes it. The names that a file defines are those of the definition.
        source: a name for the text in error messages, e.g. the option that it was given to.
    Returns:
        The names, and the layers and repetitions of the chain.
    Raises:
        TextError: if the text is not a chain, is too large, or includes a file that cannot be read.
    """
    lets: dict[str, Let] = {}
    chain = _Parser(text, source, (), 0, [], lets).definition()
    return Definition(tuple(lets.values()), chain)


class _Parser(TokenParser):
    """A recursive-descent parser of one text.

    Args:
        text, source: as in `parse`.
        files: paths of the files that are being parsed, outermost first.
        depth: current nesting depth.
        opened: paths of all files opened so far, shared with the parsers of included files.
        lets: all names defined so far, shared in the same way.
    """

    hints = {"|": "commas separate chains, as in sum(cnn, rnn)"}

    def __init__(
        self,
        text: str,
        source: str,
        files: tuple[str, ...],
        depth: int,
        opened: list[str],
        lets: dict[str, Let],
    ):
        super().__init__(text, source, _TOKEN, MAX_LENGTH)
        self.tokens = [
            token._replace(text="->") if token.text == "→" else token for token in self.tokens
        ]
        self.files, self.depth, self.opened, self.lets = files, depth, opened, lets

    @property
    def here(self) -> Place:
        return Place(self.text, self.position, self.source)

    def precedes(self, *marks: str) -> bool:
        """Whether one of some marks follows the next token."""
        return self.kind != "end" and self.tokens[self.next + 1].text in marks

    def definition(self) -> Chain:
        while self.token == "let":
            self.let()
        chain = self.chain()
        if self.kind != "end":
            raise self.unexpected("'->' or the end")
        return chain

    def let(self) -> None:
        self.take()
        place, name = self.here, self.token
        if name in RESERVED:
            raise place.error(f"'{name}' has its own meaning in ADL: choose another name")
        if self.kind != "name":
            raise self.unexpected("a name for the chain after 'let'")
        self.take()
        if not self.accept("="):
            raise self.unexpected("'=' after the name of a 'let'")
        let = Let(name, self.chain(), place)
        if not self.accept(";"):
            raise self.unexpected("'->' or ';' after the chain of a 'let'")
        # A file that is included twice defines its names twice, in the same places.
        known = self.lets.setdefault(name, let)
        if known.place[:2] != place[:2] or known != let:
            raise place.error(f"{excerpt(name)} is already defined: choose another name")

    def chain(self) -> Chain:
        layers = list(self.layer())
        while self.accept("->"):
            layers += self.layer()
        return tuple(layers)

    def layer(self) -> Chain:
        if self.kind == "file":
            return self.included()
        if self.kind != "name":
            raise self.unexpected("a layer")
        place, name = self.here, self.take()
        if name in ("repeat", "cycle"):
            return self.repetition(place, name)
        if name == "let":
            raise place.error(
                "'let' belongs at the beginning of a definition, before its chain: "
                "'let name = chain; chain'"
            )
        items: list[Item] = []
        opened = self.here
        if self.accept("("):
            self.descend(place)
            while not self.accept(")"):
                items.append(self.item())
                if self.token != ")" and not self.accept(","):
                    more = "'->', " if isinstance(items[-1].value, tuple) else ""
                    raise self.unclosed(opened, f"{more}',' or ')'")
            self.depth -= 1
        return (Call(name, tuple(items), place),)

    def descend(self, place: Place) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise place.error(f"layers are nested more than {MAX_DEPTH} deep")

    def unclosed(self, opened: Place, what: str) -> TextError:
        if self.kind == "end":
            parenthesis = opened.error("")
            what += f" after the '(' of line {parenthesis.line}, column {parenthesis.column}"
        return self.unexpected(what)

    def item(self) -> Item:
        place, name = self.here, None
        if self.kind == "name" and self.precedes("="):
            name = self.take()
            self.take()
        return Item(name, self.value(), place)

    def value(self) -> Value:
        place = self.here
        if self.kind == "number":
            return Number(self.number(), place)
        if self.accept("-"):
            self.take()
            return Index(-1, place)
        if self.token == "i" and self.precedes(",", ")"):
            self.take()
            return Index(1, place)
        if self.kind not in ("name", "file"):
            raise self.unexpected("an argument")
        return self.chain()

    def number(self) -> int | float:
        place, text = self.here, self.take()
        if len(text) > _MAX_DIGITS:
            raise place.error(f"the number {text[:_MAX_DIGITS]}... has too many digits")
        if re.fullmatch("-?[0-9]+", text):
            return int(text)
        value = float(text)
        if abs(value) > 1e15:
            raise place.error(f"the number {text} is too large")
        return value

    def repetition(self, place: Place, name: str) -> Chain:
        opened = self.here
        if not self.accept("("):
            raise self.unexpected("'(' and the number of repetitions")
        self.descend(place)
        error = self.unexpected(f"the number of repetitions, from 1 to {MAX_ADL_LAYERS}")
        count = self.number() if self.kind == "number" else None
        if not isinstance(count, int) or not 1 <= count <= MAX_ADL_LAYERS:
            raise error
        if not self.accept(","):
            raise self.unclosed(opened, "','")
        chains: list[Chain] = []
        while not chains or (name == "cycle" and self.accept(",")):
            if len(chains) == count:
                raise self.here.error(
                    f"'cycle' has {count} cop{'ies' if count > 1 else 'y'} in all, so it never "
                    "reaches this chain: give it a larger number"
                )
            chains.append(self.chain())
        if name == "cycle" and len(chains) == 1 and self.token == ")":
            raise self.unexpected("'->' or ',' and another chain ('repeat' has a single one)")
        if not self.accept(")"):
            raise self.unclosed(opened, "'->', ',' or ')'" if name == "cycle" else "'->' or ')'")
        self.depth -= 1
        return (Repeat(count, tuple(chains), place),)

    def included(self) -> Chain:
        place, name = self.here, self.take()[1:].strip('"')
        self.descend(place)
        if not name:
            raise place.error("'@' needs the name of a file, as in '@encoder.adl'")
        if len(name) > _MAX_FILE_NAME:
            raise place.error(f"the name of a file has more than {_MAX_FILE_NAME} characters")
        folder = os.path.dirname(self.files[-1]) if self.files else "."
        path = os.path.realpath(os.path.join(folder, os.path.expanduser(name)))
        if path in self.files:
            raise place.error(f"the file '{name}' includes itself")
        self.opened.append(path)
        if len(self.opened) > MAX_FILES:
            raise place.error(f"more than {MAX_FILES} files are included")
        text = _read_text(path, name, place)
        inner = _Parser(text, name, (*self.files, path), self.depth, self.opened, self.lets)
        self.depth -= 1
        return inner.definition()


def _read_text(path: str, name: str, place: Place) -> str:
    """The text of an included file.

    Args:
        path: the path of the file.
        name: the name after ``@``, for errors.
        place: the place of the name, for errors.
    Raises:
        TextError: if the file is missing, is not a regular file, is too long, or is not UTF-8.
    """
    if not os.path.isfile(path):
        raise place.error(f"there is no file '{name}' (looked for {path})")
    try:
        with open(path, encoding="utf-8-sig") as lines:
            text = lines.read(MAX_LENGTH + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise place.error(f"the file '{name}' cannot be read: {why}") from None
    if len(text) > MAX_LENGTH:
        raise place.error(f"the file '{name}' is longer than {MAX_LENGTH} characters")
    return text
