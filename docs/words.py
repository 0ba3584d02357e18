"""The words of pages, docstrings, messages and comments: what to write, and what not.

``docs/check_pages.py`` applies this list. Spelling, which is American, is left to codespell.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

# What not to write, as a regular expression -> what to write.
WORDS = {
    r"\btrainings\b(?!:)": "training runs",
    r"\b(?:an?|another|each|every|this|that) training"
    r"(?=[.,;:)]|$| (?:and|ends|has|is|of|takes|that|was|which|with)\b)": "training run",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\b(?:leave|leaves|leaving) (?:it|them|one of them|that|the option) out\b": "omit",
    r"[,;] else\b": "otherwise",
    r"\bmachine that does nothing else\b": "an otherwise idle machine",
    r"\bstand(?:s|ing)? for\b": "mean",
    r"(?<!there )\b(?:is|are|was|were) no (?:an? )?(?!longer\b|more\b|other\b|such\b)"
    r"[\w-]+(?=[.,;:)]|$)": "is not a",
    r"\b(?:line|row|column|word|sentence|system|token|update|step|byte|dot)s? an? "
    r"(?:line|row|column|word|sentence|system|seed|side|second|minute|hour|inch)\b": "per",
    r"\blower-cased?\b": "lowercase, lowercased",
    r"\bsome (?:ten|hundred|thousand)s?\b": "a few",
    r"\b(?:begin|began|begun|start|started|make|made|written) anew\b": "again",
    r"\bfrom below to above\b": "from bottom to top",
    r"\bcan not\b": "cannot",
}
_WORDS = {re.compile(wrong, re.IGNORECASE): right for wrong, right in WORDS.items()}
# Names of code and options in a sentence.
_NAMES = re.compile(r"``.+?``|`.+?`", re.DOTALL)


def wrong_words(text: str) -> Iterator[str]:
    """What is wrong with the words of a text, a sentence for each place."""
    line = " ".join(_NAMES.sub("`", text).split())
    for wrong, right in _WORDS.items():
        for found in wrong.finditer(line):
            shown = line[max(0, found.start() - 30) : found.end() + 20]
            yield f"'{found[0]}' in '{shown}': write '{right}'"


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The line number and the text of each string and comment in a file of Python or YAML.

    The parts of an f-string are one text, and so are comments on successive lines.
    """
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _strings(ast.parse(content))
        with path.open("rb") as file:
            tokens = list(tokenize.tokenize(file.readline))
        comments = {each.start[0]: each.string for each in tokens if each.type == tokenize.COMMENT}
    else:
        lines = enumerate(content.splitlines(), 1)
        found = ((number, re.search(r"(?:^|\s)#.*", line)) for number, line in lines)
        comments = {number: match[0] for number, match in found if match}
    first, joined = 0, ""
    for number, comment in comments.items():
        if number - 1 not in comments:
            yield first, joined
            first, joined = number, ""
        joined += f"{comment.strip(' #')}\n"
    yield first, joined


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "`" for each in node.values]
        yield node.lineno, "".join(map(str, parts))
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                yield from _strings(each.value)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)
