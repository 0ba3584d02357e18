"""The page of ``plot-attention`` in a browser: what is drawn, the keyboard, and hostile tokens."""

import json

import pytest

from convs2s.pictures.document import page
from tests.support.attention import made_up_document

SHORT = ("ein mann läuft .".split(), "a man runs .".split())
LONG = ([f"wort{i}" for i in range(39)], [f"word{i}" for i in range(37)])
COMPOUND = (
    "donau@@ dampf@@ schiff@@ fahrt Rindfleischetikettierungsüberwachungsaufgaben .".split(),
    "steam@@ er Pneumonoultramicroscopicsilicovolcanoconiosis .".split(),
)
HOSTILE = (
    ["</script><script>alert(1)</script>", "<img", "src=x", "onerror=alert(2)>", "<!--"],
    ['"><svg/onload=alert(3)>', "&lt;b&gt;", "'", "`${alert(4)}`", "]]>", "\u2028"],
)


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a page of some sentences."""

    def show(*pairs, models=1, **options):
        content = made_up_document(*pairs, models=models)
        text = page(content, "Attention of <i>model.pt</i>")
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        browser.open(tmp_path / "page.html", **options)
        return content

    yield show
    assert browser.errors == []


def choose(browser, name, value):
    browser.run(
        f"element('{name}').value = {json.dumps(value)};"
        f"element('{name}').dispatchEvent(new Event('change', {{bubbles: true}}))"
    )


def value(browser):
    """The text about the mark, without the characters that isolate directions of writing."""
    text = browser.run("element('value').textContent")
    return text.replace("\u2068", "").replace("\u2069", "")


def test_the_first_map_of_each_sentence(browser, opened):
    content = opened(SHORT, LONG)
    assert browser.run("document.title") == "Attention of <i>model.pt</i>"
    assert browser.run("document.querySelectorAll('rect.cell').length") == 5 * 5
    assert browser.run("element('source').textContent") == "ein mann läuft . </s>"
    labels = browser.run("[...document.querySelectorAll('text[data-key]')].map(t => t.textContent)")
    assert labels == content["sentences"][0]["source"]
    choose(browser, "sentence", "1")
    assert browser.run("document.querySelectorAll('rect.cell').length") == 40 * 38
    # Every map: the mean, and those with two heads and their mean, and the contributions.
    assert browser.run("thumbnails().length") == 1 + 4 * 3 + 1


def test_layers_and_heads(browser, opened):
    content = opened(SHORT)
    names = browser.run("[...element('layer').options].map(o => o.text.split(',')[0])")
    assert names == [entry["name"] for entry in content["sentences"][0]["maps"]]
    choose(browser, "layer", "2")
    assert browser.run("element('head').options.length") == 3
    choose(browser, "head", "1")
    expected = content["sentences"][0]["maps"][2]["weights"][1][0][0]
    browser.run("mark(0, 0)")
    assert value(browser) == f"“a” (1) ← “ein” (1): {expected:.4f}"
    choose(browser, "head", "-1")
    mean = sum(head[0][0] for head in content["sentences"][0]["maps"][2]["weights"]) / 2
    assert float(value(browser).rpartition(" ")[2]) == pytest.approx(mean, abs=6e-5)
    choose(browser, "layer", "5")
    assert "the row adds up to" in value(browser)


def test_the_mouse_shows_values(browser, opened):
    content = opened(SHORT)
    box = browser.run(
        "(() => { const r = document.querySelectorAll('rect.cell')[7].getBoundingClientRect();"
        "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    browser.hover(*box)
    expected = content["sentences"][0]["maps"][0]["weights"][0][1][2]
    assert value(browser) == f"“man” (2) ← “läuft” (3): {expected:.4f}"
    assert browser.run("document.querySelector('rect.mark').getAttribute('visibility')") == (
        "visible"
    )


def test_the_keyboard(browser, opened):
    opened(SHORT)
    browser.run("document.querySelector('svg').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowLeft", "End"):
        browser.press(key)
    assert value(browser).startswith("“man” (2) ← “</s>” (5)")
    browser.press("Home")
    assert value(browser).startswith("“man” (2) ← “ein” (1)")
    browser.press("PageDown")
    assert browser.run("element('layer').value") == "1"
    assert browser.run("document.activeElement.tagName") == "svg"
    browser.press("Escape")
    assert value(browser) == ""
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert browser.run(outline) == "solid"
    browser.run("element('theme').focus()")
    for name in ("sentence", "layer", "head", "beside", "", "scale", ""):
        browser.press("Tab")
        assert browser.run("document.activeElement.id") == name
        assert browser.run(outline) == "solid"
    browser.run("thumbnails().find(one => one.tabIndex === 0).focus()")
    browser.press("ArrowRight")
    assert browser.run("[state.map, state.head].join()") == "1,1"
    assert browser.run("document.activeElement.getAttribute('aria-checked')") == "true"
    assert browser.run("document.querySelectorAll('#overview [tabindex=\"0\"]').length") == 1


def test_lines_between_tokens(browser, opened):
    opened(SHORT)
    browser.run("document.querySelector('input[value=lines]').click()")
    assert browser.run("document.querySelectorAll('line').length") > 4
    browser.run("document.querySelector('svg').focus()")
    browser.press("ArrowDown")
    assert value(browser).startswith("“a” (1) has most weight on “")
    visible = (
        "[...document.querySelectorAll('line')]"
        ".filter(l => Number(l.getAttribute('stroke-opacity')) > 0.03).length"
    )
    assert browser.run(visible) <= 5
    browser.press("ArrowDown")
    assert value(browser).startswith("“man” (2) has most weight on “")
    browser.press("ArrowLeft")
    assert value(browser).startswith("“mann” (2) has most weight for “")


def test_two_maps_beside_each_other(browser, opened):
    opened(SHORT, models=2)
    names = browser.run("[...element('layer').options].map(o => o.text)")
    assert names[0].startswith("model1.pt: ") and names[-1].startswith("model2.pt: ")
    choose(browser, "beside", "11.0")
    assert browser.run("document.querySelectorAll('#panels figure').length") == 2
    browser.run("mark(1, 1)")
    assert value(browser).count("“man” (2) ← “mann” (2)") == 2


def test_tokens_are_never_markup(browser, opened):
    content = opened(HOSTILE)
    assert browser.run("content.sentences[0].source") == content["sentences"][0]["source"]
    assert browser.run("document.querySelectorAll('img, #panels script').length") == 0
    assert browser.run("document.scripts.length") == 3
    for view in ("lines", "map"):
        browser.run(f"document.querySelector('input[value={view}]').click()")
        browser.run("mark(0, 0)")
    assert '“"><svg/onload=alert(3)>” (1)' in value(browser)


@pytest.mark.parametrize("pair", [SHORT, LONG], ids=["5 tokens", "40 tokens"])
@pytest.mark.parametrize("dark", [False, True])
def test_labels_are_readable(browser, opened, pair, dark):
    opened(pair, width=1400, dark=dark)
    assert browser.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    overlap = (
        "(() => { const b = [...document.querySelectorAll('text[data-query]')]"
        ".map(t => t.getBoundingClientRect());"
        "return b.some((one, i) => i && one.top < b[i - 1].bottom - 4); })()"
    )
    assert browser.run("parseFloat(document.querySelector('svg').getAttribute('font-size'))") >= 12
    assert not browser.run(overlap)
    assert browser.run("document.querySelector('svg').clientWidth <= innerWidth")
    browser.run("element('theme').click()")
    assert browser.run("document.documentElement.dataset.theme") == ("light" if dark else "dark")


PHONE = {"width": 390, "height": 844}
INSIDE = (
    "(() => { const svg = document.querySelector('svg').getBoundingClientRect();"
    "return [...document.querySelectorAll('svg text')].every(t => {"
    "const b = t.getBoundingClientRect(); return b.left >= svg.left && b.top >= svg.top"
    " && b.right <= svg.right && b.bottom <= svg.bottom; }); })()"
)


@pytest.mark.parametrize("pair", [SHORT, LONG, COMPOUND], ids=["short", "long", "compounds"])
def test_a_phone(browser, opened, pair):
    opened(pair, **PHONE)
    assert browser.run("document.documentElement.scrollWidth") <= PHONE["width"]
    assert browser.run("element('controls').getBoundingClientRect().height") <= 150
    controls = "[...document.querySelectorAll('#controls select, #controls input')]"
    assert browser.run(f"{controls}.every(c => c.getBoundingClientRect().right <= innerWidth)")
    # The map begins on the first screen.
    assert browser.run("document.querySelector('svg').getBoundingClientRect().top") < 600


@pytest.mark.parametrize("view", ["map", "lines"])
@pytest.mark.parametrize("width", [390, 1400])
def test_long_words_are_broken_and_not_cut_off(browser, opened, view, width):
    content = opened(COMPOUND, width=width)
    browser.run(f"document.querySelector('input[value={view}]').click()")
    browser.run("mark(0, 0)")
    (sentence,) = content["sentences"]
    for name, tokens in (("key", sentence["source"]), ("query", sentence["target"])):
        labels = f"[...document.querySelectorAll('text[data-{name}]')].map(t => t.textContent)"
        assert browser.run(labels) == tokens
    assert browser.run("document.querySelectorAll('tspan').length") > len(sentence["source"]) * 2
    assert browser.run(INSIDE)
    above = (
        "(() => { const b = [...document.querySelectorAll('text[data-query]')]"
        ".map(t => t.getBoundingClientRect());"
        "return b.every((one, i) => !i || one.top >= b[i - 1].bottom - 4); })()"
    )
    assert browser.run(above)


def test_a_word_that_never_ends(browser, opened):
    opened((["a" * 5000, "b"], ["c" * 5000, "d"]), **PHONE)
    assert browser.run("document.documentElement.scrollWidth") <= PHONE["width"]
    assert browser.run("document.querySelector('text[data-key] title').textContent") == "a" * 5000
    assert browser.run(INSIDE)


def test_the_sentence_stands_above_its_sub_words(browser, opened):
    opened(COMPOUND, SHORT)
    shown = "element('source_text').textContent"
    assert browser.run(shown).startswith("donaudampfschifffahrt Rind")
    assert browser.run("element('source').textContent").startswith("donau@@ dampf@@ schiff@@ ")
    assert browser.run("element('target_text').textContent").startswith("steamer ")
    for side in ("source", "target"):
        ends = "getBoundingClientRect().bottom", "getBoundingClientRect().top"
        text = f"element('{side}_text').{ends[0]} <= element('{side}').{ends[1]}"
        assert browser.run(text)
    # Words that are tokens are shown once.
    choose(browser, "sentence", "1")
    assert browser.run("element('source_text').hidden && element('target_text').hidden")


@pytest.mark.parametrize("view", ["map", "lines"])
@pytest.mark.parametrize("longest", ["smo@@", "WWWWWWWWWW@@", "ニューヨーク州"])
def test_no_label_is_cut_off(browser, opened, view, longest):
    opened(([longest, *"iiiiiii"], [longest, *"iiiiiii"]), width=1400)
    browser.run(f"document.querySelector('input[value={view}]').click()")
    browser.run("mark(0, 0)")
    assert browser.run("document.querySelectorAll('svg text.marked').length") == 2
    assert browser.run(INSIDE)
