"""The tables of the pages are those that the code and the results give."""

import functools
import importlib.util
import json
import re

import pytest

from convs2s.evaluation import significance
from docs import runs
from tests.support.doc_blocks import DOCS, README, ROOT

pytestmark = pytest.mark.docs


@pytest.fixture(scope="module")
def tables():
    pytest.importorskip("fairseq")
    spec = importlib.util.spec_from_file_location("docs_tables", DOCS / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_table_is_on_a_page_and_current(tables, monkeypatch):
    # A baseline is compared with many systems.
    count = functools.cache(significance.sentence_statistics)
    monkeypatch.setattr(
        significance, "sentence_statistics", lambda *texts: count(*map(tuple, texts))
    )
    found = []
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        found += [match["name"] for match in tables.BLOCK.finditer(text)]
        assert text.count("<!-- generated: ") == len(tables.BLOCK.findall(text)), page
        assert tables.updated(text) == text, f"{page} is not current: run `make docs-tables`"
    # The most important scores stand on the first page, and on that for choosing a family.
    assert sorted(found) == sorted([*tables.GENERATORS, "multi30k in short"])


def test_a_page_is_written_anew(tables):
    text = "before\n<!-- generated: commands -->\nold\n<!-- end -->\nafter\n"
    new = tables.updated(text)
    assert new.startswith("before\n<!-- generated: commands -->\n\n| command |")
    assert new.endswith(" |\n\n<!-- end -->\nafter\n") and "old\n" not in new
    assert tables.updated(new) == new
    with pytest.raises(KeyError):
        tables.updated("<!-- generated: nothing -->\n<!-- end -->")


def test_figures_of_the_readme_are_those_of_the_results():
    readme = README.read_text(encoding="utf-8")
    demo = re.search(r"BLEU = \d+\.\d\d", readme)[0]
    assert demo in (ROOT / "examples/demo/README.md").read_text(encoding="utf-8")
    signatures = {
        scores["sacrebleu_signature"]
        for run in runs.read("multi30k_compare").values()
        for scores in run["result"]["splits"].values()
    }
    assert [f"`{signature}`" in readme for signature in signatures] == [True]
    speed = json.loads((ROOT / "benchmarks/results/cpu.json").read_text(encoding="utf-8"))
    ratio = speed["generate wmt"]["seconds"]["ratio"]["median"]
    assert f"{ratio:.1f} times as fast as fairseq's `fconv_wmt_en_de`" in readme


def test_the_first_figures_of_the_results_are_those_of_the_tables():
    """Each stands in a table that is made from published runs, or from a published paper."""
    first, _, rest = (DOCS / "results.md").read_text(encoding="utf-8").partition("## Quality")
    examples = ("distillation", "pronunciation")
    pages = [(ROOT / "examples" / name / "README.md") for name in examples]
    pages += [DOCS / "little_data.md", DOCS / "hybrids.md"]
    text = "\n".join([rest, *(page.read_text(encoding="utf-8") for page in pages)])
    cells = {word for line in text.splitlines() if line.startswith("|") for word in line.split()}
    figures = re.findall(r"\d+\.\d\d", first)
    assert len(figures) > 8 and [each for each in figures if each not in cells] == []
