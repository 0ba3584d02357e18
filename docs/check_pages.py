"""Check the links within the repository, and the length of its first pages.

``make lint`` runs it: ``python docs/check_pages.py``. Links to other sites are not followed.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.doc_blocks import prose  # noqa: E402

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(
        page
        for name in ("docs", "examples", "models", "results")
        for page in sorted(ROOT.glob(f"{name}/**/*.md"))
    ),
]
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


def main() -> None:
    """Print every fault, and fail if there is one."""
    faults = [
        f"{page.relative_to(ROOT)}: the link {link} leads nowhere"
        for page in PAGES
        for link in broken_links(page)
    ]
    for name, most in LINES.items():
        lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
        if lines > most:
            faults.append(f"{name}: {lines} lines are too many for a first page, at most {most}")
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
