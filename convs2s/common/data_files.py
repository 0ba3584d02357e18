"""Reading files of plain data that others may have written: YAML and JSON.

A file gives text, numbers, flags, lists and dictionaries. YAML has more: tags make other objects,
and aliases make a few lines as large as the memory.
"""

import json
from pathlib import Path
from typing import Any, NoReturn

import yaml

from .errors import UserError
from .plain_files import read_plain

# The most bytes of a file, characters of a number, and values, those of aliases counted each time.
MAX_YAML, MAX_JSON = 2**20, 256 * 2**20
MAX_DIGITS = 400
MAX_VALUES = 100_000
MERGE = "tag:yaml.org,2002:merge"


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file.

    Args:
        path: a plain file in UTF-8.
    Raises:
        UserError: if it cannot be read, is not YAML, or has a tag, a key that occurs twice, a
            number of too many digits, NUL or half a character in a text, or too many values.
    """
    text = _decoded(read_plain(path, MAX_YAML), path)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _Count().values_of(node)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UserError(f"{path}{place} is not valid YAML: {_problem(error)}.") from error
    except RecursionError as error:
        raise UserError(f"{path} is not valid YAML: its values are nested too deeply.") from error
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not valid YAML: {reason}.") from error


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Args:
        path: a plain file in UTF-8.
    Raises:
        UserError: if it cannot be read, or is not JSON.
    """
    text = _decoded(read_plain(path, MAX_JSON), path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{path}, {place} is not valid JSON: {error.msg}.") from error
    except (RecursionError, ValueError) as error:
        raise UserError(
            f"{path} is not valid JSON: its values are nested too deeply, or a number is too long."
        ) from error


def _decoded(content: bytes, path: str | Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        offset = error.start - (content.rfind(b"\n", 0, error.start) + 1)
        raise UserError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} at offset {offset} is not "
            "valid UTF-8; convert the file (`iconv -f latin1 -t utf-8`)."
        ) from error


def _problem(error: yaml.MarkedYAMLError) -> str:
    context = f"{error.context}, " if error.context else ""
    return f"{context}{error.problem}"


class _Loader(yaml.SafeLoader):
    """A loader of plain data."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node, which must have no tag of its own."""
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            _refuse(event, f"the tag '{event.tag}' is not allowed: write the value alone")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A dictionary, in which no key may occur twice."""
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != MERGE:
                if key_node.value in seen:
                    _refuse(key_node, f"the key '{key_node.value}' occurs twice")
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        """The text of a scalar, whose characters can be written."""
        text = super().construct_scalar(node)
        if "\0" in text:
            _refuse(node, "the text has a NUL character (\\0)")
        try:
            # JSON writes a character beyond the first 65,536 in two halves.
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            _refuse(node, "the text has half a character (\\ud800 to \\udfff)")

    def construct_number(self, node: Any) -> Any:
        """A number, which must not be too long."""
        if len(node.value) > MAX_DIGITS:
            _refuse(node, f"the number has more than {MAX_DIGITS} characters")
        make = self.construct_yaml_int if node.tag.endswith("int") else self.construct_yaml_float
        return make(node)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def _refuse(at: Any, problem: str) -> NoReturn:
    raise yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


class _Count:
    """Counts values, those of an alias each time that it occurs."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}

    def values_of(self, node: Any) -> int:
        """The number of values in a node.

        Raises:
            yaml.YAMLError: if there are too many, or a value contains itself.
        """
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                _refuse(node, "the value contains itself")
            return known
        self._known[id(node)] = None
        total = 1
        for each in node.value:
            for part in each if isinstance(each, tuple) else (each,):
                total += self.values_of(part)
                if total > MAX_VALUES:
                    _refuse(
                        node,
                        f"there are more than {MAX_VALUES:,} values, those of aliases counted "
                        "each time",
                    )
        self._known[id(node)] = total
        return total
