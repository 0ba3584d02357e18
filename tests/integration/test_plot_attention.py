"""``convs2s plot-attention`` as a user starts it: raw text, and fonts."""

import json
import os
import re
import subprocess

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from tests import ROOT
from tests.support.commands import server
from tests.support.translation import DATA, FIXTURES, prepared, text_file

MODEL = FIXTURES / "convs2s.pt"
# No font of a system has the character for private use; matplotlib's default font has the other.
RARE, COMMON = "\U00100abc", "ä"


def plot_attention(folder, *arguments):
    program = server().programs / "convs2s"
    return subprocess.run(
        [program, "plot-attention", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def tokens(done, folder):
    """The source and target tokens of the first sentence, without the ends of sentence."""
    assert done.returncode == 0, done.stderr
    sentence = json.loads((folder / "a.json").read_text(encoding="utf-8"))["sentences"][0]
    return sentence["source"][:-1], sentence["target"][:-1]


@pytest.fixture
def folder(tmp_path):
    """A prepared folder whose codes split all words into letters."""
    (tmp_path / "codes.bpe").write_text("#version: 0.2\nq q\n", encoding="utf-8")
    files = {"source": "codes.bpe", "target": "codes.bpe"}
    prepared(tmp_path, subwords={"method": "subword_nmt", "files": files})
    return tmp_path


@pytest.mark.parametrize("how", ["above the data", "given", "above the checkpoint"])
def test_raw_text_is_prepared(how, folder, tmp_path):
    path, options = MODEL, ["--data", folder / "data-bin"]
    if how == "given":
        options = ["--data", DATA, "--preparation", folder]
    elif how == "above the checkpoint":
        (folder / "checkpoints").mkdir()
        path, options = folder / "checkpoints" / "model.pt", []
        path.write_bytes(MODEL.read_bytes())
    given = [*options, "--path", path, "--output", "a.json", " EI\u00a0", "--target", "ON "]
    done = plot_attention(tmp_path, *given)
    assert tokens(done, tmp_path) == (["e@@", "i"], ["o@@", "n"])
    # The target is printed as text.
    assert done.stdout.splitlines() == ["on", "a.json"]
    (sentence,) = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["sentences"]
    assert (sentence["source_text"], sentence["target_text"]) == ("EI", "on")
    assert "preparation" not in done.stderr


def test_sub_words_with_raw(folder, tmp_path):
    data = ["--data", folder / "data-bin", "--path", MODEL, "--output", "a.json"]
    done = plot_attention(tmp_path, *data, "--raw", "E@@ i", "--target", "ON")
    assert tokens(done, tmp_path) == (["E@@", "i"], ["ON"])
    assert "preparation" not in done.stderr
    done = plot_attention(tmp_path, *data, "--bpe-codes", folder / "codes.bpe", "Ei")
    assert tokens(done, tmp_path)[0] == ["E@@", "i"]


def test_without_a_preparation(tmp_path):
    text_file(tmp_path, ["Eins zwei"])
    given = ["--path", MODEL, "--data", DATA, "--output", "a.json", "--input", "input.de"]
    done = plot_attention(tmp_path, *given)
    assert tokens(done, tmp_path)[0] == ["Eins", "zwei"]
    assert "no preparation.yaml: the text is read" in done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--raw", "--preparation", "."], "--preparation and --raw exclude each other"),
        (["--preparation", "missing"], "There is no file or folder missing"),
        (["--target-lang", "fr"], "--target-lang is fr, but .* translates from de to en: omit"),
        (["--heads", "1"], "source.mean has no single heads .*--layers source"),
        (["\ufeff"], "Sentence 2 is empty after its preparation"),
        (["zwei\udcff"], "Sentence 2 or its target is not UTF-8"),
        (["--target", "two\udcff"], "Sentence 1 or its target is not UTF-8"),
    ],
)
def test_errors(arguments, message, folder, tmp_path):
    path = folder / "model.pt"
    path.write_bytes(MODEL.read_bytes())
    done = plot_attention(tmp_path, "--path", path, "--output", "a.json", "eins", *arguments)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(f"^convs2s plot-attention: error: .*{message}", done.stderr, re.MULTILINE)


def make_font(path, characters):
    """Write a font in which each character is a square."""
    names = {ord(character): f"u{ord(character):X}" for character in characters}
    glyphs = [".notdef", *names.values()]
    pen = TTGlyphPen(None)
    for point, draw in ((0, 0), pen.moveTo), ((0, 700), pen.lineTo), ((700, 700), pen.lineTo):
        draw(point)
    pen.closePath()
    square = pen.glyph()
    font = FontBuilder(1000)
    font.setupGlyphOrder(glyphs)
    font.setupCharacterMap(names)
    font.setupGlyf(dict.fromkeys(glyphs, square))
    font.setupHorizontalMetrics(dict.fromkeys(glyphs, (800, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Rare Letters", "styleName": "Regular",
                         "psName": "RareLetters"})  # fmt: skip
    font.setupOS2()
    font.setupPost()
    path.parent.mkdir(parents=True)
    font.save(path)


def test_fonts_of_the_system(tmp_path):
    """Also a font that was installed after matplotlib has listed the fonts."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_DATA_HOME": str(tmp_path / "share"),
        "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
    }
    (tmp_path / "matplotlib").mkdir()
    command = [server().programs / "convs2s", "plot-attention", "--path", str(MODEL)]
    command += ["--data", str(DATA), "--raw", "--output", "a.svg", f"{COMMON} {RARE} {RARE}"]

    def stderr():
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, encoding="utf-8", env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    (sentence,) = [line for line in stderr().splitlines() if re.search("font|Glyph|box", line)]
    assert sentence.startswith(f"No font of this system has {RARE}, which the picture")
    assert "install a font that has them" in sentence
    make_font(tmp_path / "share" / "fonts" / "rare.ttf", RARE)
    assert "font" not in stderr()
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert 'id="RareLetters-' in picture and 'id="DejaVuSans-' in picture
