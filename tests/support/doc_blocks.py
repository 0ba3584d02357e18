"""Code blocks of the pages, and the commands in them.

A block of a page is run by the tests unless a comment stands right above it:

    <!-- not run: REASON -->              its commands are parsed only
    <!-- run with: --max-update 2 -->     these options are appended to its training commands

A block whose fence has a title, as in ```python title="my_layers/__init__.py", is a file.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|run with): (?P<text>[^\n]*?) -->\n)?"
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"\n]+)")?\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_KEYWORDS = {"do", "done", "for", "then", "fi", "if", "else", "while", "export"}


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        page: the file.
        line: number of its first line of code.
        language: ``sh``, ``python``, ``text``, ...
        code: what stands between the fences.
        title: the file that it is, or "".
        run: whether the tests run it.
        options: what the tests append to its training commands.
    """

    page: Path
    line: int
    language: str
    code: str
    title: str
    run: bool
    options: str

    @property
    def place(self) -> str:
        """Where the block is, for a message."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """README.md and every page of the site that is not made from docstrings."""
    return [README, *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "api")]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        found.append(
            Block(
                page,
                text.count("\n", 0, match.start("code")) + 1,
                match["language"],
                match["code"],
                match["title"] or "",
                match["mark"] != "not run",
                match["text"] if match["mark"] == "run with" else "",
            )
        )
    assert text.count("\n```") + text.startswith("```") == 2 * len(found), (
        f"{page} has a fence without a language, or one that is not closed"
    )
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    """What stands between single backticks on a page."""
    return _INLINE.findall(prose(page))


def commands(code: str) -> list[list[str]]:
    """The simple commands of shell code, each as a list of words.

    Redirections, assignments in front of a command and here-documents are left out.
    """
    code = re.sub(r"<<'?(\w+)'?\n.*?\n\1$", "", code, flags=re.DOTALL | re.MULTILINE)
    code = re.sub(r"(?:^|\s)#.*$", "", code, flags=re.MULTILINE)
    code = re.sub(r"\\\n\s*", " ", code)
    lexer = shlex.shlex(code, posix=True, punctuation_chars="|&;()<>\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    skip = False
    for word in lexer:
        if set(word) <= set("|&;()\n"):
            found.append([])
        elif set(word) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        else:
            found[-1].append(word)
    return [words for words in map(_without_assignments, found) if words]


def _without_assignments(words: list[str]) -> list[str]:
    while words and (words[0] in _KEYWORDS - {"for"} or re.fullmatch(r"\w+=.*", words[0])):
        words = words[1:]
    return [] if words[:1] == ["for"] else words
