"""Compressed files, parallel text and the languages in file names."""

import gzip
import lzma
import os
import sys

import pytest

from convs2s.common.compression import zstd
from convs2s.common.errors import UserError
from convs2s.common.text_files import count_lines, read_lines, read_parts
from convs2s.text.sources import ParallelText, find_languages
from tests.support.packed import PACK

PAIRS = [("zwei Hunde", "two dogs"), ("", "x"), ("ü b", "ü")]


def write(folder, name, content, suffix=""):
    path = folder / f"{name}{suffix}"
    path.write_bytes(PACK[suffix](content.encode() if isinstance(content, str) else content))
    return str(path)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_pairs(tmp_path, suffix, end, mark):
    """Other programs end lines at a line separator: a space takes its place."""
    given = [(source.replace("ü b", "ü\u2028b"), target) for source, target in PAIRS]
    sides = [mark + "".join(f"{line}{end}" for line in side) for side in zip(*given)]
    paths = [write(tmp_path, f"a.{name}", text, suffix) for name, text in zip("xy", sides)]
    table = mark + "".join(f"{source}\t{target}{end}" for source, target in given)
    for text in (
        ParallelText("--train", tuple(paths)),
        ParallelText("--train", (write(tmp_path, "a.tsv", table, suffix),)),
    ):
        assert [*text.pairs()] == PAIRS


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("end", ["", "\n"])
def test_parts(tmp_path, suffix, end):
    lines = [f"{number}" for number in range(1, 24)]
    path = write(tmp_path, "a", "\n".join(lines) + end, suffix)
    assert count_lines([path, path]) == 23
    for size, numbers in ((5, range(5)), (5, [1, 4]), (5, [4, 5, 9]), (1, [3, 22]), (30, [0])):
        expected = [line for n in numbers for line in lines[n * size : (n + 1) * size]]
        assert [*read_parts(path, numbers, size)] == [(int(line), line) for line in expected]
    pairs = ParallelText("--train", (path, write(tmp_path, "b", "\n".join(lines), suffix)))
    assert [*pairs.pairs([1, 4], 5)] == [(line, line) for line in (*lines[5:10], *lines[20:])]


def test_errors_in_parts(tmp_path):
    path = write(tmp_path, "a", b"a\nb\nc\n\xff\n")
    assert [*read_parts(path, [0], 3)] == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(UserError, match="a, line 4: byte 0xff"):
        [*read_parts(path, [1], 3)]
    short = write(tmp_path, "b", "a\nb\n")
    with pytest.raises(UserError, match="a, line 3: .*b has no such line: it ends after 2"):
        count_lines([path, short])


def test_the_first_bytes_decide(tmp_path):
    (tmp_path / "a.de").write_bytes(gzip.compress(b"a\nb\n"))
    assert list(read_lines(str(tmp_path / "a.de"))) == ["a\n", "b\n"]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.de", b"\x04\x22\x4d\x18", "a.de is a .lz4 file"),
        ("a.lz4", b"text\n", r"a.lz4 is a .lz4 file, .* unpack it with `lz4 -d`"),
        ("a.zst", b"text\n", "a.zst cannot be read beyond line 0"),
        (
            "a.zst",
            zstd.compress(b"x\n" * 9999)[:-9],
            "a.zst cannot be read beyond line",
        ),
        ("a.zip", b"PK\x03\x04", "a.zip is a .zip file"),
        ("a.tar.gz", gzip.compress(b"x", mtime=0), "a.tar.gz is a .tar file"),
        ("a.gz", b"text\n", "a.gz cannot be read beyond line 0"),
        ("a.xz", b"text\n", "a.xz cannot be read beyond line 0"),
        ("a.bz2", b"text\n", "a.bz2 cannot be read beyond line 0"),
        ("a.gz", gzip.compress(b"x\n" * 9999, mtime=0)[:-9], "a.gz cannot be read beyond line"),
        ("a.xz", lzma.compress(b"x\n" * 9999)[:-9], "a.xz cannot be read beyond line"),
        ("a.de", b"a\n\xfcber\n", "a.de, line 2: byte 0xfc at offset 0 is not valid UTF-8.*latin1"),
        ("a.de", "a\n".encode("utf-16"), "a.de, line 1: byte 0xff .*-f utf-16"),
        ("a.de", "ab\n".encode("utf-16-le"), "a.de, line 1: .* NUL byte at offset 1.*-f utf-16le"),
        ("a.de", "ab\n".encode("utf-16-be"), "a.de, line 1: .* NUL byte at offset 0.*-f utf-16be"),
        ("a.de", "ü\n".encode("utf-16-le"), "a.de, line 1: byte 0xfc .*-f utf-16le"),
        ("a.lzma", b"text\n", "a.lzma is a .lzma file, .* unpack it with `unlzma`"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(read_lines(str(tmp_path / name)))


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "a.de"
    path.write_bytes("\ufeffein\n\ufeffzwei\n".encode())
    assert list(read_lines(str(path))) == ["ein\n", "\ufeffzwei\n"]


@pytest.mark.parametrize("line, tabs", [("no tab", 0), ("a\tb\tc", 2), ("a\tb\t", 2)])
def test_lines_without_exactly_one_tab(tmp_path, line, tabs):
    path = write(tmp_path, "a.tsv", f"a\tb\n{line}\n")
    with pytest.raises(UserError, match=f"a.tsv, line 2: .* found {tabs} tabs"):
        list(ParallelText("--train", (path,)).pairs())


def test_empty_lines_of_tab_separated_values(tmp_path):
    text = ParallelText("--train", (write(tmp_path, "a.tsv", "a\tb\n\nc\td\n \n\r\n"),))
    assert [*text.pairs()] == [("a", "b"), ("", ""), ("c", "d"), ("", ""), ("", "")]
    assert text.count() == 5


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf_8(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    (tmp_path / "link.de").symlink_to(write(folder, "a.de", "a\n"))
    for path in (write(tmp_path, os.fsdecode(b"b\xff.de"), "a\n"), str(tmp_path / "link.de")):
        message = r"\\udcff.* \(--train\) is not a name in UTF-8, .*: rename this file"
        with pytest.raises(UserError, match=message):
            ParallelText("--train", (path, write(tmp_path, "a.en", "a\n")))


@pytest.mark.parametrize("longer", [0, 1])
def test_files_of_different_lengths(tmp_path, longer):
    contents = ["a\n", "a\n"]
    contents[longer] += "b\n"
    paths = tuple(write(tmp_path, f"a.{name}", text) for name, text in zip("xy", contents))
    with pytest.raises(UserError, match=r"line 2: .* ends after 1"):
        list(ParallelText("--train", paths).pairs())


@pytest.mark.parametrize(
    "names, message",
    [
        (["a", "b", "c"], "--valid has 3 files"),
        (["none"], r"There is no file .*none \(--valid\)"),
        (["a", ""], "--valid has an empty file name: give"),
        (["folder"], "is a folder: give files"),
        (["a", "a"], "--valid names .*a twice"),
    ],
)
def test_wrong_files(tmp_path, names, message):
    (tmp_path / "folder").mkdir()
    for name in "abc":
        write(tmp_path, name, "x\n")
    with pytest.raises(UserError, match=message):
        ParallelText("--valid", tuple(name and str(tmp_path / name) for name in names))


@pytest.mark.parametrize(
    "names, expected",
    [
        (["corpus.de", "corpus.en"], ("de", "en")),
        (["corpus.de.gz", "corpus.en.xz"], ("de", "en")),
        (["corpus.de.txt", "corpus.en.txt"], ("de", "en")),
        (["a.zh_CN", "a.pt-BR"], ("zh_CN", "pt-BR")),
        (["corpus.de-en.tsv.gz"], ("de", "en")),
        (["corpus.de-en"], ("de", "en")),
        (["corpus.br", "corpus.fr"], ("br", "fr")),
        (["de.txt", "en.txt"], None),
        (["corpus.tsv"], None),
        (["a.tok.gz", "b.raw"], None),
        (["a.en", "b.en"], None),
        (["corpus.german", "corpus.english"], None),
    ],
)
def test_languages_of_names(tmp_path, names, expected):
    text = ParallelText("--train", tuple(write(tmp_path, name, b"x\n") for name in names))
    assert text.languages() == expected


@pytest.mark.parametrize(
    "names, source, target, expected",
    [
        (["a.de", "a.en"], None, None, ("de", "en")),
        (["a.de", "a.en"], "x", None, ("x", "en")),
        (["a.1", "a.2"], "x", "y", ("x", "y")),
        (["a.1", "a.2"], "x", None, "The target language is not in the name of .*--target-lang"),
        (["a.tsv"], None, "y", "The source language is not in the name of .*--source-lang"),
        (["a.de", "a.en"], "d/e", None, "--source-lang is 'd/e'"),
        (["a.de", "a.en"], "", None, "--source-lang is '': use only letters"),
        (["a.de", "a.en"], None, "", "--target-lang is '': use only letters"),
        (["a.de", "a.en"], "en", None, "in de and en, in this order, but --source-lang is en"),
        (["a.1", "a.2"], "x", "x", "Source and target language are both x"),
        (["a.de", "a.en"], "en", "de", "--train names .*: swap the files"),
        (["a.de-en.tsv"], "en", "de", "--train names .*: swap its columns"),
    ],
)
def test_languages(tmp_path, names, source, target, expected):
    text = ParallelText("--train", tuple(write(tmp_path, name, b"x\n") for name in names))
    if isinstance(expected, tuple):
        assert find_languages([text], source, target) == expected
    else:
        with pytest.raises(UserError, match=expected):
            find_languages([text], source, target)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (("en", "de"), "--valid names .*: swap the files"),
        (("fr", "en"), "--valid names .*, but the languages of .* are de and en"),
    ],
)
def test_validation_files_of_other_languages(tmp_path, ends, message):
    texts = [
        ParallelText(f"--{name}", tuple(write(tmp_path, f"{name}.{end}", "x\n") for end in pair))
        for name, pair in (("train", ("de", "en")), ("valid", ends))
    ]
    with pytest.raises(UserError, match=message):
        find_languages(texts, None, None)
    if "fr" in ends:
        assert find_languages(texts, "de", "en") == ("de", "en")
