"""The figures of the pages are those that the code and the results give."""

import re
from xml.etree import ElementTree

import pytest

from docs import figures
from tests.support.doc_blocks import DOCS, pages

pytestmark = pytest.mark.docs


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_is_current(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == figures.FIGURES[name](), f"{name} is not current: run `make docs-tables`"
    root = ElementTree.fromstring(text)
    assert root.get("viewBox") and "prefers-color-scheme: dark" in text
    shown = [page.name for page in pages() if f"]({name})" in page.read_text(encoding="utf-8")]
    assert len(shown) == 1
    lowest = max(float(t.get("y")) for t in root.iter("{http://www.w3.org/2000/svg}text"))
    assert lowest < float(root.get("height"))


def test_every_drawing_of_the_pages_has_its_code():
    assert {path.name for path in DOCS.glob("*.svg")} == {*figures.FIGURES}


def test_the_hybrid_is_that_of_the_page():
    page = (DOCS / "adl.md").read_text(encoding="utf-8")
    encoder, decoder = figures.HYBRID
    assert f'--encoder-adl "{encoder}" \\\n  --decoder-adl "{decoder}"' in page
    command = f"adl draw --model-dim {figures.HYBRID_DIM} --words {figures.WORDS} -o hybrid.svg"
    assert f'{command} \\\n  "{encoder}" \\\n  "{decoder}"\n' in page


def test_the_chart_has_the_numbers_of_the_table():
    page = (DOCS / "results.md").read_text(encoding="utf-8").partition("## Findings")[0]
    chart = ElementTree.parse(DOCS / "quality.svg").getroot()
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    rows = re.findall(r"^\| ([^|]+?) +\| +(\d\d\.\d\d)(?: ± [\d.]+)? \|", page, re.MULTILINE)
    assert len(rows) == 10
    for system, bleu in rows:
        # The search without length normalization has no speed.
        if "no length normalization" in system:
            assert system not in texts
        else:
            assert texts[texts.index(system) + 1].startswith(f"{bleu}, ")
