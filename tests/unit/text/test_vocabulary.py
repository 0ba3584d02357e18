"""``Vocabulary`` against fairseq's ``Dictionary``."""

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import example, given
from hypothesis import strategies as st

from convs2s.common.errors import UserError
from convs2s.text.vocabulary import Vocabulary

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = st.sampled_from([*"abcé字", "ﬁ", "madeupword0000", *SPECIAL, "#fairseq:overwrite", "1"])
SPACES = st.sampled_from([" ", "  ", "\t", "\u3000", "\xa0", "\x1c", "\u2028", "\x85", "\u200b"])
TEXT = st.lists(WORDS | SPACES).map("".join)
COUNTS = st.integers(-2, 9).map(str) | st.sampled_from(["1_0", "٣", "", "x", "1.0"])
FLAGS = st.sampled_from(["", "", "", " #fairseq:overwrite", "\r", " "])
LINES = st.lists(st.tuples(WORDS | TEXT, COUNTS, FLAGS).map(lambda x: f"{x[0]} {x[1]}{x[2]}"))


def state(dictionary):
    return (
        dictionary.symbols,
        dictionary.count,
        dictionary.indices,
        dictionary.nspecial,
        len(dictionary),
    )


def both(words):
    """A dictionary of each kind, with the same words."""
    ours, theirs = Vocabulary(), Dictionary()
    for word in words:
        assert ours.add_symbol(word) == theirs.add_symbol(word)
    return ours, theirs


@given(LINES)
@example(["<unk> 5"])
@example(["<unk> 5 #fairseq:overwrite", "a 1"])
@example(["a 1", "a 2 #fairseq:overwrite"])
@example(["a", "a #fairseq:overwrite", "1 #fairseq:overwrite"])
@example(["a 1", "", "b 2"])
@example(["eins 3 ", "mit leer -2", " 1"])
@example(["a 1", "\u3000\u3000 2"])
@example(["</s> 1"])
@example(["\ufeffa 1\rb 2\r"])
def test_every_file_is_read_or_refused_as_by_fairseq(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "dict.txt"
    path.write_text("\n".join(lines) + "\n" * bool(lines), encoding="utf-8", newline="")
    try:
        theirs = Dictionary.load(str(path))
    except (RuntimeError, ValueError):
        with pytest.raises(UserError, match=r"dict\.txt, line \d+: "):
            Vocabulary.load(path)
        return
    ours = Vocabulary.load(path)
    assert state(ours) == state(theirs)
    assert ours == theirs and theirs == ours
    theirs.save(str(path))
    expected = path.read_bytes()
    ours.save(path)
    assert path.read_bytes() == expected


@given(st.lists(WORDS), TEXT)
def test_lines_become_the_same_numbers(words, line):
    ours, theirs = both(words)
    expected = theirs.encode_line(line, add_if_not_exist=False)
    assert ours.encode_line(line) == expected.tolist()


@given(
    st.lists(st.tuples(WORDS, st.integers(0, 3), st.booleans())),
    st.integers(-1, 12),
)
def test_words_are_sorted_cut_and_padded_as_by_fairseq(words, nwords):
    ours, theirs = Vocabulary(), Dictionary()
    for word, count, overwrite in words:
        for dictionary in (ours, theirs):
            # fairseq cannot sort a dictionary in which a special symbol has another number.
            dictionary.add_symbol(word, count, overwrite and word not in SPECIAL)
    for dictionary in (ours, theirs):
        dictionary.finalize(nwords=nwords)
    assert state(ours) == state(theirs)


def test_numbers_and_words():
    ours, theirs = both(["a", "b"])
    for name in ("bos", "pad", "eos", "unk"):
        assert getattr(ours, name)() == getattr(theirs, name)()
        assert getattr(ours, f"{name}_word") == getattr(theirs, f"{name}_word")
    assert [ours[i] for i in range(-1, 9)] == [theirs[i] for i in range(-1, 9)]
    assert ours[torch.tensor(4)] == "a"
    assert ours.index("b") == theirs.index("b") == 5
    assert ours.index("c") == theirs.index("c") == 3
    assert "a" in ours and "c" not in ours
    assert ours == both(["a", "b"])[0] != both(["b", "a"])[0]
    assert ours != 5


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "There is no dictionary .*dict.txt: give the folder"),
        (b"\xff\xfe\x00", "is not a dictionary .*utf-8"),
        (b"a 1\nword\n", "line 2: a dictionary .* not 'word'"),
        (b"word many\n", "line 1: a dictionary .* not 'word many'"),
        (b"a 1\nb 2\na 3\n", "line 3: the word 'a' occurs"),
    ],
)
def test_errors(tmp_path, content, message):
    path = tmp_path / "dict.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        Vocabulary.load(path)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        Vocabulary.load(tmp_path)
