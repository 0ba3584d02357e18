"""``convs2s lexicon`` with eflomal and with given links, and its errors."""

import random
import re
import subprocess
import sys
import tempfile
import tracemalloc

import pytest

from convs2s.cli import main
from convs2s.text.lexicon import (
    aligner,
    counts,
)
from convs2s.text.lexicon.files import read_lexicon
from convs2s.text.lexicon.links import read_aligned

SOURCE = (
    "Hund Katze Maus Vogel Pferd Kuh rot blau grün klein groß alt springt läuft schläft".split()
)
TARGET = "dog cat mouse bird horse cow red blue green small big old jumps runs sleeps".split()


def best_translations(path):
    """The last entry of each source word, which is its best one."""
    return {source: target for source, target, _ in read_lexicon(str(path))}


def write_text(folder, sentences=400):
    """Parallel sentences of random words; in half of the pairs, the first two are swapped."""
    numbers = random.Random(1)
    sources, targets = [], []
    for _ in range(sentences):
        words = numbers.sample(range(len(SOURCE)), numbers.randint(2, 6))
        sources.append(" ".join(SOURCE[word] for word in words))
        if numbers.random() < 0.5:
            words[:2] = words[1::-1]
        targets.append(" ".join(TARGET[word] for word in words))
    return write_files(folder, {"text.de": sources, "text.en": targets})


def write_files(folder, texts):
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def lexicon(folder, *arguments):
    """Run the command on ``text.de`` and ``text.en`` of a folder."""
    return main(
        ["lexicon", "--source", str(folder / "text.de"), "--target", str(folder / "text.en")]
        + ["--output", str(folder / "de-en")]
        + [str(argument) for argument in arguments]
    )


@pytest.fixture
def temporary(tmp_path_factory, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_eflomal_finds_the_translations(tmp_path, temporary, capfd):
    pytest.importorskip("eflomal")
    write_text(tmp_path)
    assert lexicon(tmp_path, "--reverse-output", tmp_path / "en-de", "--block-pairs", "250") == 0
    assert best_translations(tmp_path / "de-en") == dict(zip(SOURCE, TARGET))
    assert best_translations(tmp_path / "en-de") == dict(zip(TARGET, SOURCE))
    sums = {}
    for entry in read_lexicon(str(tmp_path / "de-en")):
        sums[entry.source] = sums.get(entry.source, 0.0) + entry.probability
    assert sums == pytest.approx(dict.fromkeys(SOURCE, 1.0), abs=0.01)
    printed = capfd.readouterr()
    assert "de-en: " in printed.out and "400 sentence pairs" in printed.out
    announced = re.findall(r"eflomal aligns sentence pairs (\S+ to \S+)\]", printed.err)
    assert announced == ["1 to 250", "251 to 400"]
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "de-en",
        "en-de",
        "text.de",
        "text.en",
    ]


def test_eflomal_keeps_the_case_of_the_text(tmp_path):
    pytest.importorskip("eflomal")
    write_text(tmp_path)
    lines = (tmp_path / "text.de").read_text(encoding="utf-8").splitlines()
    mixed = [line.lower() if number % 2 else line for number, line in enumerate(lines)]
    write_files(tmp_path, {"text.de": mixed})
    assert lexicon(tmp_path) == 0
    best = best_translations(tmp_path / "de-en")
    assert best["Hund"] == best["hund"] == "dog" and best["läuft"] == "runs"


def test_pairs_that_eflomal_cannot_align(tmp_path, capsys):
    """An empty line, a blank one and one of 1,024 words shift no other line's links."""
    pytest.importorskip("eflomal")
    write_text(tmp_path)
    sources, targets = (
        (tmp_path / f"text.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("de", "en")
    )
    sources[10:10], targets[10:10] = [""], ["dog cat"]
    sources[40:40], targets[40:40] = ["Hund"], ["  "]
    sources[70:70], targets[70:70] = ["Hund"], ["cat " * 1024]
    write_files(tmp_path, {"text.de": sources, "text.en": targets})
    assert lexicon(tmp_path) == 0
    assert "3 of 403 sentence pairs have no alignment links" in capsys.readouterr().out
    assert best_translations(tmp_path / "de-en") == dict(zip(SOURCE, TARGET))


def test_a_block_that_cannot_be_aligned_at_all():
    pytest.importorskip("eflomal")
    pairs = [("", "a"), ("b", ""), ("Hund", "dog"), ("", ""), ("Hund", "dog")]
    found = list(aligner.align(iter(pairs), "union", 2, lambda first, last: None))
    assert [(words, others) for words, others, _ in found] == [
        (source.split(), target.split()) for source, target in pairs
    ]
    # With a single sentence, eflomal may or may not link the two words.
    assert all(links <= {(0, 0)} for _, _, links in found)
    assert not any(found[place][2] for place in (0, 1, 3))


def test_without_eflomal(tmp_path, monkeypatch, capsys):
    write_text(tmp_path)
    monkeypatch.setitem(sys.modules, "eflomal", None)
    assert lexicon(tmp_path) == 2
    message = capsys.readouterr().err
    assert "pip install eflomal" in message and '"convs2s-plugin[lexicon]"' in message
    assert not (tmp_path / "de-en").exists()


def test_eflomal_fails(tmp_path, temporary, monkeypatch, capsys):
    eflomal = pytest.importorskip("eflomal")
    write_text(tmp_path)

    def killed(*_):
        raise subprocess.CalledProcessError(-4, "eflomal")

    monkeypatch.setattr(eflomal.Aligner, "align", killed)
    assert lexicon(tmp_path) == 2
    message = capsys.readouterr().err
    assert "SIGILL" in message and "--force-reinstall --no-cache-dir eflomal" in message
    assert not (tmp_path / "de-en").exists() and list(temporary.iterdir()) == []


GIVEN = {
    "text.de": ["der Hund", "Hund !", "die Katze schläft"],
    "text.en": ["the dog", "dog", "the cat is sleeping"],
    "forward": ["0-0 1-1", "0-0", "0-0 1-1 2-3"],
    "reverse": ["0-0 1-1", "0-0 1-0", "0-0 1-1 2-2"],
}


def entries(path):
    return [(source, target, round(p, 3)) for source, target, p in read_lexicon(str(path))]


def test_given_links(tmp_path, capsys):
    write_files(tmp_path, GIVEN)
    arguments = ("--alignments", tmp_path / "forward", "--reverse-output", tmp_path / "en-de")
    assert lexicon(tmp_path, *arguments) == 0
    assert entries(tmp_path / "de-en") == [
        ("Hund", "dog", 1.0),
        ("Katze", "cat", 1.0),
        ("der", "the", 1.0),
        ("die", "the", 1.0),
        ("schläft", "sleeping", 1.0),
    ]
    assert entries(tmp_path / "en-de") == [
        ("cat", "Katze", 1.0),
        ("dog", "Hund", 1.0),
        ("sleeping", "schläft", 1.0),
        ("the", "der", 0.5),
        ("the", "die", 0.5),
    ]
    assert "de-en: 5 entries, 3 sentence pairs" in capsys.readouterr().out


def test_given_links_of_two_directions(tmp_path):
    write_files(tmp_path, GIVEN)
    both = ("--alignments", tmp_path / "forward", tmp_path / "reverse")
    assert lexicon(tmp_path, *both, "--symmetrise", "intersection") == 0
    assert ("schläft", "sleeping", 1.0) not in entries(tmp_path / "de-en")
    assert lexicon(tmp_path, *both) == 0
    assert ("schläft", "is", 0.5) in entries(tmp_path / "de-en")
    assert lexicon(tmp_path, *both, "--symmetrise", "union", "--min-probability", "0.6") == 0
    assert not any(word == "schläft" for word, _, _ in entries(tmp_path / "de-en"))
    assert lexicon(tmp_path, *both, "--symmetrise", "union", "--max-per-word", "1") == 0
    words = [word for word, _, _ in entries(tmp_path / "de-en")]
    assert len(words) == len(set(words)) == 6


@pytest.mark.parametrize(
    "texts, arguments, message",
    [
        ({"text.en": ["the dog", "dog"]}, (), "text.de, line 3: {}/text.en has no such line"),
        ({"text.de": GIVEN["text.de"][:1]}, (), "text.en, line 2: {}/text.de has no such line"),
        ({"forward": ["0-0"]}, ("forward",), "text.de, line 2: {}/forward has no such line"),
        ({"forward": ["0-0"] * 4}, ("forward",), "forward, line 4: {}/text.de has no such line"),
        ({"forward": ["", "0-1", ""]}, ("forward",), "forward, line 2: the link 0-1 points past"),
        ({"forward": ["", "", "0:0"]}, ("forward",), "forward, line 3: expected links"),
        ({"reverse": ["", "7-0", ""]}, ("forward", "reverse"), "reverse, line 2: the link 7-0"),
        ({"forward": [""] * 3}, ("forward",), "No words of"),
        (dict.fromkeys(GIVEN, []), ("forward",), "are aligned (0 sentence pairs)"),
        ({}, ("forward", "reverse", "forward"), "--alignments has 3 files"),
        ({}, ("missing",), "There is no file {}/missing"),
        ({}, ("forward", "--symmetrise", "union"), "needs two directions"),
        ({}, ("forward", "--min-probability", "1.5"), "--min-probability is 1.5"),
        ({}, ("forward", "--min-probability", "nan"), "--min-probability is nan"),
        ({}, ("forward", "--max-per-word", "0"), "--max-per-word is 0"),
        ({}, ("forward", "--block-pairs", "0"), "--block-pairs is 0"),
        ({}, ("forward", "--reverse-output", "de-en"), "which --output names too"),
        ({}, ("forward", "--output", "text.en"), "the command also reads this file"),
        ({}, ("forward", "--reverse-output", "no/en-de"), "there is no folder {}/no"),
    ],
)
def test_refusals(texts, arguments, message, tmp_path, temporary, capsys):
    if not arguments:
        pytest.importorskip("eflomal")
    write_files(tmp_path, {**GIVEN, **texts})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    flags = ("--symmetrise", "union", "intersection", "1.5", "nan", "0")
    given = [
        word if word.startswith("--") or word in flags else tmp_path / word for word in arguments
    ]
    assert lexicon(tmp_path, *(["--alignments", *given] if given else [])) == 2
    printed = capsys.readouterr()
    assert message.format(tmp_path) in printed.err and printed.out == ""
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("option", ["--output", "--reverse-output"])
def test_an_empty_name_is_refused_before_the_work(option, tmp_path, capsys):
    write_files(tmp_path, GIVEN)
    before = {*tmp_path.iterdir()}
    assert lexicon(tmp_path, "--alignments", tmp_path / "forward", option, "") == 2
    assert f"{option} is empty: give the name of a file." in capsys.readouterr().err
    assert {*tmp_path.iterdir()} == before


def test_text_that_is_not_utf8(tmp_path, capsys):
    """The earlier output file is kept."""
    write_files(tmp_path, {**GIVEN, "de-en": ["of before"]})
    (tmp_path / "text.en").write_bytes(b"the dog\nd\xf6g\nthe cat is sleeping\n")
    assert lexicon(tmp_path, "--alignments", tmp_path / "forward") == 2
    (message,) = capsys.readouterr().err.splitlines()
    place = f"{tmp_path / 'text.en'}, line 2: byte 0xf6 at offset 1 is not valid UTF-8"
    assert message.startswith(f"convs2s lexicon: error: {place}")
    assert (tmp_path / "de-en").read_text() == "of before\n"
    assert len(list(tmp_path.iterdir())) == 5


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(counts, "MIN_PENDING", 256)
    write_text(tmp_path, 300)
    lengths = [len(line.split()) for line in open(tmp_path / "text.de", encoding="utf-8")]
    links = [" ".join(f"{i}-{i}" for i in range(length)) for length in lengths]
    write_files(tmp_path, {"links": links})
    names = ("text.de", "text.en", "links")
    for name in names:
        (tmp_path / f"{name}.10").write_bytes((tmp_path / name).read_bytes() * 10)

    def peak(*paths):
        source, target, alignments = (str(tmp_path / path) for path in paths)
        tracemalloc.start()
        try:
            linked = counts.LinkCounts()
            for pair in read_aligned(source, target, [alignments], "union"):
                linked.add(pair)
            found = list(linked.entries(0.0, 100))
            return tracemalloc.get_traced_memory()[1], found
        finally:
            tracemalloc.stop()

    peak(*names)
    once, entries_once = peak(*names)
    tenfold, entries_tenfold = peak(*(f"{name}.10" for name in names))
    assert entries_once == entries_tenfold
    assert tenfold < 1.2 * once


def test_blocks_bound_what_eflomal_is_given(monkeypatch):
    eflomal = pytest.importorskip("eflomal")
    sizes = []
    real = eflomal.Aligner.align

    def watched(self, source, target, *files):
        sizes.append(len(source))
        real(self, source, target, *files)

    monkeypatch.setattr(eflomal.Aligner, "align", watched)
    taken = []

    def text():
        for number in range(25):
            taken.append(number)
            yield "Hund Katze\n", "dog cat\n"

    found = aligner.align(text(), "union", 10, lambda first, last: None)
    next(found)
    assert len(taken) == 10
    assert len(list(found)) == 24 and sizes == [10, 10, 5]
