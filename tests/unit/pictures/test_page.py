"""The page and the data of ``plot-attention`` without a browser."""

import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from convs2s.common.errors import UserError
from convs2s.pictures.document import (
    FOLDER,
    SCRIPTS,
    as_json,
    document,
    page,
    sentence_entry,
)
from tests.support.attention import made_up_document, made_up_maps
from tests.unit.pictures.test_page_in_browser import HOSTILE, SHORT


class Elements(HTMLParser):
    """The elements of a page, with the text in them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])

    def handle_data(self, data):
        if self.found:
            self.found[-1][2] += data

    def of(self, tag):
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


@pytest.mark.parametrize("pairs", [[SHORT], [SHORT, HOSTILE]])
def test_the_page_has_the_data(pairs):
    content = made_up_document(*pairs)
    elements = Elements(page(content, "a <b> & c"))
    assert elements.of("title")[0][1].strip() == elements.of("h1")[0][1].strip() == "a <b> & c"
    data, *scripts = elements.of("script")
    assert data[0] == {"type": "application/json", "id": "data"}
    assert json.loads(data[1]) == content
    assert len(scripts) == len(SCRIPTS)
    assert not elements.of("img") and not elements.of("b")


def test_the_page_needs_no_other_file():
    text = page(made_up_document(SHORT), "title")
    elements = Elements(text)
    for _, attributes, _ in elements.found:
        assert not {"src", "href"} & set(attributes)
    assert "default-src 'none'" in text
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_placeholders_in_tokens_are_kept():
    content = made_up_document((["<!--script-->", "<!--data-->"], ["\\1"]))
    data = Elements(page(content, "<!--data-->")).of("script")[0][1]
    assert json.loads(data) == content


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_write_no_markup(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_reads_scripts_and_data(tmp_path):
    data, *scripts = Elements(page(made_up_document(SHORT, HOSTILE), "title")).of("script")
    (tmp_path / "data.json").write_text(data[1], encoding="utf-8")
    program = "const d = JSON.parse(require('fs').readFileSync(process.argv[1], 'utf8'));"
    program += "console.log(JSON.stringify(d.sentences.map((s) => s.source)))"
    done = subprocess.run(
        ["node", "-e", program, str(tmp_path / "data.json")], capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [[*pair[0], "</s>"] for pair in (SHORT, HOSTILE)]
    for number, (_, text) in enumerate(scripts):
        path = tmp_path / f"{number}.js"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(["node", "--check", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_json_has_the_shapes_that_it_names():
    content = made_up_document(SHORT, models=2)
    read = json.loads(as_json(content))
    assert read == content
    assert (read["format"], read["version"]) == ("convs2s-attention", 1)
    assert read["models"] == ["model1.pt", "model2.pt"]
    (sentence,) = read["sentences"]
    assert sentence["previous"] == ["</s>", *sentence["target"][:-1]]
    assert sentence["source_text"] == " ".join(sentence["source"][:-1])
    for entry in sentence["maps"]:
        assert len(entry["weights"]) == len(entry["heads"])
        for head in entry["weights"]:
            assert len(head) == len(sentence[entry["queries"]])
            for row in head:
                assert len(row) == len(sentence[entry["keys"]])
                if not entry["signed"]:
                    assert math.isclose(sum(row), 1, abs_tol=1e-3)


def test_weights_that_are_not_finite():
    maps = made_up_maps(3, 2)
    maps[1].weights[0, 0, 1, 1] = math.nan
    with pytest.raises(UserError, match="source.1 has weights that are not finite"):
        sentence_entry(["a", "b", "c"], ["d", "e"], [maps], "all", 4, ("a b c", "d e"))


def test_no_weight_is_a_negative_zero():
    maps = made_up_maps(3, 2)
    maps[-1].weights.fill_(-1e-9)
    entry = sentence_entry(["a", "b", "c"], ["d", "e"], [maps], "all", 4, ("a b c", "d e"))
    assert "-0.0" not in json.dumps(document(["m"], [entry]))
