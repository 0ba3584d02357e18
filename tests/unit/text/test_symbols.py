"""Words that are names of symbols or end in the mark of sub-words come back exactly."""

import random

import pytest

from convs2s.common.errors import UserError
from convs2s.common.lines import check_text
from convs2s.text.learning import count_words, learn_subword_nmt
from convs2s.text.subwords import Escaped, SubwordNmt, Tokenized, make_subwords
from convs2s.text.symbols import escape, escape_joints, is_symbol, unescape, unescape_joints
from convs2s.text.vocabulary import Vocabulary

SYMBOLS = ["<s>", "</s>", "<pad>", "<unk>", "madeupword0000", "madeupword00012"]
PARTS = [*SYMBOLS, "madeupword12", "\\", "@@", "@", "a", "b", "<", ">"]


def random_lines(count):
    numbers = random.Random(1)
    for _ in range(count):
        words = ("".join(numbers.choices(PARTS, k=numbers.randint(1, 4))) for _ in range(5))
        yield " ".join(words)


def test_exact():
    for line in random_lines(2000):
        escaped = escape(line)
        assert unescape(escaped) == line and not any(map(is_symbol, escaped.split()))
        escaped = escape_joints(line)
        assert unescape_joints(escaped) == line
        assert not any(word.endswith("@@") for word in escaped.split())


def test_other_words_stay():
    line = "<b> a@b \\ <unk>. @@a madeupword12 <s>x"
    assert escape(line) == escape_joints(line) == line


@pytest.mark.parametrize("merges", [2, 30, 300])
def test_byte_pair_encoding(tmp_path, merges):
    lines = [*random_lines(200), *(f"price {word} 5 text{word}" for word in SYMBOLS * 9)]
    learn_subword_nmt(count_words(lines), merges, tmp_path / "codes")
    subwords = make_subwords("subword_nmt", tmp_path / "codes")
    vocabulary = Vocabulary()
    for line in lines:
        tokens = subwords.encode(line)
        assert subwords.decode(tokens) == line
        # Joined by fairseq, as in the output of fairseq-generate.
        assert unescape(unescape_joints(f"{tokens} ".replace("@@ ", "").rstrip())) == line
        assert all(number == vocabulary.unk() for number in vocabulary.encode_line(tokens)[:-1])
        assert not any(map(is_symbol, tokens.split()))


@pytest.mark.parametrize("seed", range(5))
def test_byte_pair_encoding_of_long_words(tmp_path, seed):
    """They are cut, also where a piece ends like a mark, and other words stay as they are."""
    words = count_words([*random_lines(200), "wiese wiesen wies"])
    learn_subword_nmt(words, 30, tmp_path / "codes")
    subwords = SubwordNmt(tmp_path / "codes")
    long = "".join(random.Random(seed).choices(PARTS, k=2000))
    ordinary = "wiese " + "w" * 1000
    assert len(long) > 4000
    marks = f"{long[:999]}@@{long}@@ a {long[:998]}@@@{long}@ {long[:1000]}@@"
    for line in (long, f"{ordinary} {long} wiesen {long[:1001]}", marks):
        tokens = subwords.encode(line)
        assert subwords.decode(tokens) == line
        assert f"{tokens} ".replace("@@ ", "").rstrip() == escape_joints(line)
    assert f" {subwords.encode(ordinary)} " in f" {subwords.encode(f'{ordinary} {long}')} "
    # Longer ones would take too much time.
    assert max(map(len, subwords._bpe.cache)) == 1000
    assert subwords.decode(subwords.sample(long, 0.5, 1)) == long


def test_sentencepiece(tmp_path):
    """Characters that the model has not seen are one token, which could be a symbol."""
    package = pytest.importorskip("sentencepiece")
    text = tmp_path / "text"
    text.write_text("".join(f"你好 世界 {i}\n" for i in range(50)), encoding="utf-8")
    package.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "m"), vocab_size=20, hard_vocab_limit=False
    )
    subwords = make_subwords("sentencepiece", tmp_path / "m.model")
    for line in ("<s> 你好 </s>", "x<s>", "\\<unk> <unk>"):
        tokens = subwords.encode(line)
        assert subwords.decode(tokens) == line
        assert not any(map(is_symbol, tokens.split()))


def test_symbols_of_the_model_stay():
    subwords = Escaped(Tokenized())
    assert subwords.decode("a <unk> b") == "a <unk> b"
    assert subwords.encode("a </s> b") == "a \\</s> b"


@pytest.mark.parametrize("version", ["0.3", "9", "0.2.1"])
def test_codes_of_an_unknown_version(version, tmp_path):
    (tmp_path / "codes").write_text(f"#version: {version}\na b\n")
    message = f"codes has codes of subword-nmt of version {version}; versions 0.1 and 0.2 are known"
    with pytest.raises(UserError, match=message):
        make_subwords("subword_nmt", tmp_path / "codes")


@pytest.mark.parametrize(
    "content",
    [b"", b"#version:\n", b"#version: x\n", b"#version: 0.2\n\xed\xa0\x80 a\n", b"\0\0", b"a b c"],
)
def test_no_codes(content, tmp_path, capfd):
    (tmp_path / "codes").write_bytes(content)
    with pytest.raises(UserError, match="codes has no codes of subword-nmt"):
        make_subwords("subword_nmt", tmp_path / "codes")
    assert capfd.readouterr() == ("", "")


def test_half_characters():
    check_text("ä \U0001f600 \0", "It")
    with pytest.raises(UserError, match=r"It is not text: its character 2 is U\+DC80, half a"):
        check_text("a\udc80b", "It")
    with pytest.raises(UserError, match="It is not text, but 'None'"):
        check_text(None, "It")
