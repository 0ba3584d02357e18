"""Text to tokens and back, as preparation.yaml says."""

import hashlib
from pathlib import Path

import pytest
import yaml

from convs2s.common.errors import UserError
from convs2s.text import Preparation, Side
from convs2s.text.subwords import CACHED_WORDS, METHODS, SubwordNmt, Tokenized
from convs2s.text.tokenizers import TOKENIZERS

CODES = "#version: 0.2\ne n</w>\nu n\nun d\nh und\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a preparation."""
    (tmp_path / "codes.bpe").write_text(CODES, encoding="utf-8")
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("x 1\n", encoding="utf-8")
    write(tmp_path)
    return tmp_path


def write(folder, **changes):
    sha = hashlib.sha256(b"x 1\n").hexdigest()
    content = {
        "format": 1,
        "languages": {"source": "de", "target": "en"},
        "lowercase": True,
        "tokenizer": "none",
        "subwords": {
            "method": "subword_nmt",
            "files": {"source": "codes.bpe", "target": "codes.bpe"},
        },
        "dictionaries": {
            "source": {"file": "dict.de.txt", "sha256": sha},
            "target": {"file": "dict.en.txt", "sha256": sha},
        },
        **changes,
    }
    (folder / "preparation.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def test_read_encode_decode(folder):
    for path in (folder, folder / "preparation.yaml", str(folder)):
        preparation = Preparation.read(path)
        assert preparation.source.language == "de" and preparation.target.language == "en"
        assert preparation.encode("  Hunde rennen\n") == "hund@@ e r@@ e@@ n@@ n@@ en"
        assert preparation.encode(" \n") == ""
        assert preparation.decode("hund@@ e r@@ e@@ n@@ n@@ en") == "hunde rennen"
        assert preparation.decode("") == ""


def test_dictionaries_of_another_model(folder):
    preparation = Preparation.read(folder)
    preparation.check_dictionaries(folder / "dict.de.txt", folder / "dict.en.txt")
    (folder / "dict.en.txt").write_text("y 1\n", encoding="utf-8")
    with pytest.raises(UserError, match="dict.en.txt is not the dictionary"):
        preparation.check_dictionaries(folder / "dict.de.txt", folder / "dict.en.txt")
    with pytest.raises(UserError, match="There is no file"):
        preparation.check_dictionaries(folder / "none", folder / "dict.en.txt")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"format": 2}, "its format is 2"),
        (
            {"tokenizer": "spacy"},
            "its tokenizer is 'spacy'; allowed: none",
        ),
        ({"subwords": "bpe"}, "subwords.method is 'None'; allowed: none, subword_nmt"),
        ({"subwords": {"method": "subword_nmt"}}, "subwords.files.source is not text"),
        ({"languages": {"source": "de"}}, "languages.target is not text"),
        (
            {"languages": {"source": "../../de", "target": "en"}},
            "languages.source is '../../de': it must be a name",
        ),
        (
            {"languages": {"source": "de", "target": "--user-dir=x"}},
            "languages.target is '--user-dir=x': it must be a name",
        ),
        (
            {"dictionaries": {"source": {"file": "/etc/dict.de.txt", "sha256": ""}}},
            "dictionaries.source.file is /etc/dict.de.txt, which is not in its folder",
        ),
        ({"dictionaries": {}}, "dictionaries.source.file is not text"),
        (
            {"subwords": {"method": "subword_nmt", "files": {"source": "../c", "target": "c"}}},
            "subwords.files.source is ../c, which is not in its folder",
        ),
        (
            {"subwords": {"method": "none", "files": {"source": "c", "target": "c", "x": "../d"}}},
            "subwords.files has other keys than source and target",
        ),
        (
            {"subwords": {"method": "none", "files": {"source": "../c", "target": "c"}}},
            "subwords.files.source is ../c, which is not in its folder",
        ),
        (
            {"subwords": {"method": "subword_nmt", "files": {"source": "/c", "target": "c"}}},
            "subwords.files.source is /c, which is not in its folder",
        ),
        (
            {"subwords": {"method": "subword_nmt", "files": {"source": "c", "target": "c"}}},
            "There is no file .*c with the model of sub-words",
        ),
    ],
)
def test_malformed(folder, changes, message):
    write(folder, **changes)
    with pytest.raises(UserError, match=message):
        Preparation.read(folder)


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "There is no file"),
        ("- 1\n", "it has no format"),
        ("format: 1\na: [", "preparation.yaml, line 2, column 5 is not valid YAML: .*expected"),
        (b"\xff", "line 1: byte 0xff at offset 0"),
    ],
)
def test_unreadable(tmp_path, text, message):
    if text is not None:
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "preparation.yaml").write_bytes(data)
    with pytest.raises(UserError, match=message):
        Preparation.read(tmp_path)


def test_codes_that_are_none(tmp_path):
    (tmp_path / "codes.bpe").write_text("a b c\n", encoding="utf-8")
    with pytest.raises(UserError, match="no codes of subword-nmt"):
        SubwordNmt(tmp_path / "codes.bpe")


def test_the_cache_of_words_is_bounded(folder):
    subwords = SubwordNmt(folder / "codes.bpe")
    subwords.encode(" ".join(f"w{number}" for number in range(CACHED_WORDS + 1)))
    assert subwords.encode("hunde") == "hund@@ e"
    assert len(subwords._bpe.cache) == 1


def side_without_subwords(language, tokenizer):
    return Side(language, TOKENIZERS[tokenizer](language), Tokenized())


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("ab c", "a b ▁ c"),
        ("  über\tx ", "ü b e r ▁ x"),
        ("", ""),
        ("你好。", "你 好 。"),
    ],
)
def test_characters(text, tokens):
    side = side_without_subwords("de", "characters")
    assert side.encode(text) == tokens
    assert side.decode(tokens) == " ".join(text.split())


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("가감", "ᄀ ᅡ ᄀ ᅡ ᆷ"),
        ("né à", "n e \u0301 ▁ a \u0300"),
        ("がっ", "か \u3099 っ"),
        ("", ""),
    ],
)
def test_letters(text, tokens):
    side = side_without_subwords("ko", "letters")
    assert side.encode(text) == tokens
    assert side.decode(tokens) == text


@pytest.mark.parametrize(
    "language, text, tokens",
    [
        ("de", "Er liest, z.B. heute.", "Er liest , z.B. heute ."),
        ("en", 'It\'s a dog & a "cat".', 'It \'s a dog & a " cat " .'),
        ("fr", "L'homme dort.", "L' homme dort ."),
        ("de_DE", "Ja!", "Ja !"),
        ("en", "", ""),
    ],
)
def test_moses(language, text, tokens):
    pytest.importorskip("sacremoses")
    side = side_without_subwords(language, "moses")
    assert side.encode(text) == tokens
    assert side.decode(tokens) == text


@pytest.mark.parametrize(
    "make, argument, package",
    [
        (TOKENIZERS["moses"], "de", "sacremoses"),
        (METHODS["sentencepiece"], Path("model"), "sentencepiece"),
    ],
)
def test_a_missing_package_names_the_extra(make, argument, package, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(UserError, match=rf'needs the package {package}.*plugin\[text\]"'):
        make(argument)
