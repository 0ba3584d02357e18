"""Unicode normalization of lines."""

import pytest

from convs2s.text.tokenizers import normalize


@pytest.mark.parametrize(
    "line, expected",
    [
        ("ein mann liest .", "ein mann liest ."),
        ("", ""),
        (" \t\n", ""),
        ("  zwei\thunde \r\n", "zwei hunde"),
        ("\ufeffzwei", "zwei"),
        ("u\u0308ber", "über"),
        ("a\u200b\u0301", "á"),
        ("10\u00b2 \ufb01", "10\u00b2 \ufb01"),
        ("5\u00a0000\u202f€\u3000x", "5 000 € x"),
        ("a\u2028b\x85c\x1dd", "a b c d"),
        ("a\x00b\x07c\x7f", "abc"),
        ("Sil\u00adbe\u200e", "Silbe"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("a▁b", "a_b"),
        ("Straße ÄÖ", "Straße ÄÖ"),
    ],
)
def test_normalize(line, expected):
    assert normalize(line) == expected
    assert normalize(expected) == expected


def test_lowercase():
    assert normalize("Zwei HUNDE, Ä", lowercase=True) == "zwei hunde, ä"
    # Only the small letter has a composed form.
    for line in ("J\u030cA", "j\u030cA", "\u01f0a"):
        assert normalize(line, lowercase=True) == "\u01f0a"
