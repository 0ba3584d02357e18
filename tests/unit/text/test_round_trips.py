"""``decode(encode(text))`` is the text, for lines as people write them."""

import re

import pytest

from convs2s.text import spacing
from convs2s.text.tokenizers import TOKENIZERS, MosesTokenizer, make_tokenizer, normalize
from tests import ROOT
from tests.support import round_trips

PAGE = (ROOT / "docs" / "prepare.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("tokenizer, method", round_trips.COMBINATIONS)
def test_lines_come_back(tokenizer, method, tmp_path):
    """The page has the share that comes back: all lines, but for tokens of other programs."""
    (shown,) = re.findall(rf"^\| `{tokenizer}` \|.*\| ([\d.]+%) \|$", PAGE, re.MULTILINE)
    assert shown == round_trips.share(tokenizer, method, tmp_path)
    if tokenizer not in ("moses_fairseq", "moses_scripts"):
        assert shown == "100%"
        assert round_trips.changed(tokenizer, method, tmp_path) == []


def test_the_page_has_the_number_of_lines():
    assert f"{sum(1 for _ in round_trips.lines())} lines" in PAGE


@pytest.mark.parametrize("language", ["en", "fr", "de", "cs", "fi", "it", "ru", "zh", "ko"])
def test_plain_lines_have_no_marks(language):
    """Their tokens are those of Moses."""
    tokenizer, moses = TOKENIZERS["moses"](language), MosesTokenizer(language)
    for text in ("Two dogs run, and a third one sleeps.", "Hallo", "Слово за слово, а"):
        tokens = tokenizer.tokenize(text)
        assert tokens == moses.tokenize(text) and tokenizer.detokenize(tokens) == text


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("At 12:30.", "At 12 ￭:￭ 30 ."),
        ("10 % off", "10 ￮% off"),
        ("a/b", "a ￭/￭ b"),
        ("x@y.com", "x ￭@￭ y.com"),
        ('He said: "no"', 'He said : " no "'),
    ],
)
def test_marks(text, tokens):
    tokenizer = TOKENIZERS["moses"]("en")
    assert tokenizer.tokenize(text) == tokens and tokenizer.detokenize(tokens) == text


def test_any_text_of_a_model_becomes_text():
    tokenizer = TOKENIZERS["moses"]("en")
    found = map(tokenizer.detokenize, ("￭ ￭", "￭:￭ ￭:￭", "a￭", "￮", "￬ ￬9", "￭,￭ a ￮. ￭b"))
    assert [*found] == ["", "::", "a", "", "￬ ￬9", ",a .b"]


def test_a_detokenizer_that_changes_words():
    """Everything has marks then, and more cannot be done."""
    marked = spacing.mark(["a", "b"], "a b", str.upper)
    assert marked == "￮a ￮b"
    assert spacing.mark(["a", "b"], "xyz", lambda tokens: tokens) == "xyz"


def test_earlier_preparations_have_no_marks():
    assert type(make_tokenizer("moses", "en", False)) is MosesTokenizer
    assert make_tokenizer("moses", "en", True).tokenize("a/b") == "a ￭/￭ b"
    assert make_tokenizer("moses", "en", False).tokenize("a/b") == "a / b"
    assert make_tokenizer("none", "en", False).tokenize("a/b") == "a/b"


def test_normal_form_is_what_comes_back():
    assert normalize("a\u00a0 b\u2028c\u2581") == "a b c_"
