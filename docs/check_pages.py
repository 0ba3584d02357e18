"""Check the words of pages and code, the links between pages, and the length of the first ones.

``make lint`` runs it: ``python docs/check_pages.py``. Links to other sites are not followed.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.words import texts, wrong_words  # noqa: E402
from tests.support.doc_blocks import prose  # noqa: E402

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(
        page
        for name in ("docs", "examples", "models", "results")
        for page in sorted(ROOT.glob(f"{name}/**/*.md"))
    ),
]
# Code and YAML whose strings and comments are checked.
CODE = [
    path
    for name in ("benchmarks", "convs2s", "convs2s_plugin", "docs", "examples", "models")
    for suffix in ("py", "yaml")
    for path in sorted(ROOT.glob(f"{name}/**/*.{suffix}"))
    # It has the wrong words.
    if path != ROOT / "docs" / "words.py"
]
# The sections of released versions stay as they were.
HISTORY = ROOT / "CHANGELOG.md"
# page -> most lines that it may have.
LINES = {"README.md": 150, "ARCHITECTURE.md": 100}


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """The links of a page that lead to no file, or to no heading of it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def words() -> Iterator[str]:
    """The wrong words of all pages and of the code, each with its place."""
    for page in PAGES:
        if page != HISTORY:
            for fault in wrong_words(prose(page)):
                yield f"{page.relative_to(ROOT)}: {fault}"
    for path in CODE:
        for line, text in texts(path):
            for fault in wrong_words(text):
                yield f"{path.relative_to(ROOT)}:{line}: {fault}"


def main() -> None:
    """Print every fault, and fail if there is one."""
    faults = [
        f"{page.relative_to(ROOT)}: the link {link} leads nowhere"
        for page in PAGES
        for link in broken_links(page)
    ]
    faults.extend(words())
    for name, most in LINES.items():
        lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
        if lines > most:
            faults.append(f"{name}: {lines} lines are too many for a first page, at most {most}")
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
