"""The navigation of the site, and tables that fit its pages."""

import re

import pytest
import yaml

from tests.support.doc_blocks import DOCS, ROOT

pytestmark = pytest.mark.docs
# More entries of one group cannot be taken in at a glance; more columns do not fit on a page.
MOST_ENTRIES, MOST_COLUMNS = 8, 7


def groups(entries):
    """The lists of the navigation, from the outside in."""
    yield entries
    for entry in entries:
        for inside in entry.values():
            if isinstance(inside, list):
                yield from groups(inside)


def test_navigation():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    found = [*groups(site["nav"])]
    assert max(map(len, found)) <= MOST_ENTRIES
    named = [page for group in found for entry in group for page in entry.values()]
    named = sorted(page for page in named if isinstance(page, str))
    assert named == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    # Links to the previous and the next page.
    assert "navigation.footer" in site["theme"]["features"]
    assert all((DOCS / name).is_file() for name in site["extra_css"])


def test_the_table_for_choosing_a_family_begins_with_quality():
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    (titles,) = re.findall(r"^\| System +\|.*", text, re.MULTILINE)
    columns = [title.strip() for title in titles.strip("|").split("|")]
    assert columns[:2] == ["System", "BLEU"] and len(columns) <= MOST_COLUMNS
