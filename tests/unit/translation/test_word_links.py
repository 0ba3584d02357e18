"""Tokens and the words they belong to."""

import pytest

from convs2s.common.errors import UserError
from convs2s.text.subwords import SubwordNmt, Tokenized
from convs2s.translation.forced import words_of_tokens


class Punctuation(Tokenized):
    """Separates a full stop at the end of a line, as tokenizers do."""

    def encode(self, line):
        return line[:-1] + " ." if line.endswith(".") and " " in line else line


def test_sub_words_belong_to_their_word(tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b\nab c</w>\n")
    text = SubwordNmt(codes)
    assert words_of_tokens(text, " abc  abd a ", "source", 1) == ("abc ab@@ d a", [0, 1, 1, 2])
    assert words_of_tokens(text, "", "source", 1) == ("", [])


def test_tokens_are_their_own_words():
    assert words_of_tokens(Tokenized(), "a b@@ c", "source", 1) == ("a b@@ c", [0, 1, 2])


def test_other_words_after_the_tokenization():
    assert words_of_tokens(Punctuation(), "it ends", "source", 1) == ("it ends", [0, 1])
    with pytest.raises(UserError, match="Line 7 of the reference text, .it ends"):
        words_of_tokens(Punctuation(), "it ends.", "reference", 7)
