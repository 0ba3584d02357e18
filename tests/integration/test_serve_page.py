"""The page of ``convs2s serve`` in a browser."""

import json

import pytest

from tests.support.serving import Served
from tests.support.translation import LINES

for name in ("starlette", "uvicorn"):
    pytest.importorskip(name, reason="the extra serve is not installed")

PHONE = {"width": 390, "height": 844}
HOSTILE = "</script><img src=x onerror=alert(1)> &lt;b&gt;"


@pytest.fixture(scope="module")
def served():
    with Served("adl", "convs2s") as started:
        yield started


@pytest.fixture
def opened(browser, served):
    """A function that opens the page."""

    def show(**options):
        browser.open(served.address, **options)

    yield show
    assert browser.errors == []


def texts(browser, selector):
    """The texts of all elements that a selector finds."""
    code = f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.textContent)"
    return browser.run(code)


def translate(browser, *lines):
    """Type lines, and press Ctrl-Enter."""
    browser.run("element('lines').value = ''; element('lines').focus()")
    browser.write("\n".join(lines))
    browser.press("Enter", control=True)
    browser.wait("/translated in|^$/.test(element('status').textContent)")


def test_translations_of_two_models(browser, opened, served):
    opened()
    assert browser.run("document.title") == "Translate de → en"
    assert browser.run("document.activeElement.id") == "lines"
    # Empty lines are left out.
    translate(browser, LINES[0], "", LINES[1])
    assert texts(browser, "article h2") == [LINES[0], LINES[1]]
    assert texts(browser, "article h3") == ["adl.pt", "convs2s.pt"] * 2
    expected = [served.translate(LINES[:2], model=name) for name in ("adl.pt", "convs2s.pt")]
    shown = texts(browser, "article p")
    assert shown == [model[line]["text"] for line in (0, 1) for model in expected]
    assert browser.run("document.querySelector('article p').lang") == "en"
    assert browser.run("element('status').textContent").startswith("2 lines translated in ")


def test_several_translations_of_each_line(browser, opened, served):
    opened()
    browser.run("element('nbest').value = '3'")
    translate(browser, LINES[2])
    (expected,) = served.translate([LINES[2]], nbest=3)
    assert texts(browser, "article ol li [lang]")[:3] == [one["text"] for one in expected["nbest"]]
    scores = texts(browser, "article ol li .score")[:3]
    assert scores == [f"{one['score']:.3f}" for one in expected["nbest"]]
    assert browser.run("[...element('nbest').options].map(one => one.value).join()") == "1,3,5"


def test_attention_by_layer_and_head(browser, opened):
    opened()
    translate(browser, LINES[0])
    browser.run("document.querySelectorAll('article button')[1].click()")
    frame = "element('frame').contentDocument"
    browser.wait(f"!element('attention').hidden && {frame}?.querySelector('rect.cell') != null")
    assert browser.run(f"{frame}.title") == "Attention of convs2s.pt"
    assert browser.run(f"{frame}.querySelectorAll('#layer option').length") > 1
    tokens = len(LINES[0].split()) + 1
    assert browser.run(f"{frame}.querySelectorAll('text[data-key]').length") == tokens
    # All of it can be seen without scrolling in the frame.
    browser.wait(f"element('frame').clientHeight >= {frame}.documentElement.scrollHeight")
    assert browser.run("document.activeElement.id") == "attention_title"
    browser.run("element('close').click()")
    assert browser.run("element('attention').hidden")
    assert browser.run("document.activeElement.getAttribute('aria-label')") == (
        f"Attention of convs2s.pt: {LINES[0]}"
    )


def test_the_keyboard(browser, opened):
    opened()
    translate(browser, LINES[0])
    assert browser.run("element('about').hidden")
    for name in ("Translate", "135", "Attention", "Attention"):
        browser.press("Tab")
        assert browser.run("document.activeElement.textContent") == name
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_roles_for_screen_readers(browser, opened):
    opened()
    assert browser.run("element('status').getAttribute('role')") == "status"
    assert browser.run("element('error').getAttribute('role')") == "alert"
    translate(browser, LINES[0])
    controls = "[...document.querySelectorAll('button, select, textarea')]"
    named = "(one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent)"
    assert browser.run(f"{controls}.every(one => {named}.trim().length > 3)")


def test_text_is_never_markup(browser, opened):
    opened()
    translate(browser, HOSTILE)
    assert texts(browser, "article h2") == [HOSTILE]
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0


def test_what_is_wrong_is_said(browser, opened):
    opened()
    translate(browser)
    assert browser.run("element('error').textContent") == (
        "There is no text to translate: write some."
    )
    browser.run("element('lines').value = 'ein\\n'.repeat(1001)")
    browser.run("document.querySelector('[type=submit]').click()")
    browser.wait("element('error').textContent.includes('at most 1000 items')")
    # A refused request stands in the log of the browser.
    assert all("400 (Bad Request)" in error for error in browser.errors) and browser.errors
    browser.errors.clear()
    translate(browser, LINES[0])
    assert browser.run("element('error').textContent") == ""


def test_a_server_that_has_ended(browser):
    with Served("adl") as other:
        browser.open(other.address)
    browser.run("element('lines').value = 'ein'")
    browser.run("document.querySelector('[type=submit]').click()")
    browser.wait("element('error').textContent !== ''")
    expected = "The server does not answer: it may have ended. Start it again."
    assert browser.run("element('error').textContent") == expected
    assert browser.run("element('status').textContent") == ""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [{}, PHONE], ids=["desktop", "phone"])
def test_it_fits_the_window(browser, opened, size, dark):
    opened(**size, dark=dark)
    theme = "document.documentElement.dataset.theme"
    assert browser.run(theme) == ("dark" if dark else "light")
    translate(browser, *LINES[:3], "a" * 500)
    browser.run("document.querySelector('article button').click()")
    browser.wait("!element('attention').hidden")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    elements = "[...document.querySelectorAll('main *')]"
    inside = "one.getBoundingClientRect().right <= innerWidth + 1"
    assert browser.run(f"{elements}.every(one => {inside})")
    browser.run("element('theme').click()")
    assert browser.run(theme) == ("light" if dark else "dark")
