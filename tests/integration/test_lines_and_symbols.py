"""Only line feeds end lines, and words of the text are no symbols, from raw text to scores."""

import json
import subprocess

import numpy as np
import pytest

from convs2s.common.lines import LINE_ENDS
from convs2s.experiments import data
from convs2s.experiments.file import DataSettings
from convs2s.text import Preparation
from convs2s.text.binarize import HEADER, count_sentences
from convs2s.text.vocabulary import Vocabulary
from tests.support.commands import PLUGIN, fairseq, hypotheses, server
from tests.support.translation import DATA, FIXTURES, LINES, translate

ENDS = [*LINE_ENDS[1:], "\r\r", "\u2028\x85"]
SYMBOLS = ["<s>", "</s>", "<pad>", "<unk>", "madeupword0000", "a@@"]


def convs2s(folder, *arguments):
    command = [server().programs / "convs2s", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def hostile_pairs(size):
    """Pairs with the same number on both sides, and ends of lines inside most sources."""
    for number in range(size):
        end = ENDS[number % len(ENDS)]
        target = f"dog {number} runs" if number % 3 else f"dog {number}{end}{end}runs"
        yield (
            f"hund{end if number % 4 else ' '}{number} rennt{end if number % 5 == 1 else ''}",
            target,
        )


def write(folder, name, pairs, end="\n", last=True):
    for language, lines in zip(("de", "en"), zip(*pairs)):
        text = end.join(lines) + end * last
        (folder / f"{name}.{language}").write_bytes(text.encode())


def numbers(line):
    return [word for word in line.split() if word.isdigit()]


def sentences(path):
    """The tokens of binarized data, without the ends."""
    count = count_sentences(path)
    raw = path.with_name(f"{path.name}.idx").read_bytes()
    sizes = np.frombuffer(raw, np.int32, count, HEADER.size)
    tokens = np.fromfile(path.with_name(f"{path.name}.bin"), np.uint16)
    return [part[:-1].tolist() for part in np.split(tokens, sizes.cumsum()[:-1])]


def check_pairs(folder, pair="de-en"):
    """Each source of binarized data has the number of its target."""
    for split in ("train", "valid", "test"):
        sides = []
        for language in ("de", "en"):
            symbols = Vocabulary.load(folder / f"dict.{language}.txt").symbols
            found = sentences(folder / f"{split}.{pair}.{language}")
            sides.append([numbers(" ".join(symbols[token] for token in one)) for one in found])
        assert sides[0] == sides[1] and all(map(len, sides[0]))


def check_ends(folder):
    """Every program finds the same lines in a folder of text."""
    for path in folder.iterdir():
        text = path.read_bytes().decode()
        assert len(text.splitlines()) == text.count("\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bpe", ["none", "subword_nmt"])
def test_prepare(tmp_path, end, bpe):
    write(tmp_path, "a", hostile_pairs(120), end, last=end == "\n")
    options = ("--tokenizer", "none", "--bpe", bpe, "--bpe-size", 1000, "--workers", 1)
    convs2s(tmp_path, "prepare", "--train", "a.de", "a.en", "--out", "out", *options)
    preparation = Preparation.read(tmp_path / "out")
    for name, count in (("train", 108), ("valid", 6), ("test", 6)):
        sides = []
        for side in (preparation.source, preparation.target):
            text = (tmp_path / "out" / "tokens" / f"{name}.{side.language}").read_text()
            sides.append([numbers(side.decode(line)) for line in text.splitlines()])
            path = tmp_path / "out" / "data-bin" / f"{name}.de-en.{side.language}"
            assert count_sentences(path) == count
        assert sides[0] == sides[1] and len(sides[0]) == count and all(map(len, sides[0]))
    for name in ("text", "tokens"):
        check_ends(tmp_path / "out" / name)
    (tmp_path / "table.de-en.tsv").write_bytes(
        end.join("\t".join(pair) for pair in hostile_pairs(120)).encode()
    )
    convs2s(tmp_path, "prepare", "--train", "table.de-en.tsv", "--out", "two", *options)
    for name in ("train", "valid", "test"):
        for language in ("de", "en"):
            path = f"data-bin/{name}.de-en.{language}.bin"
            assert (tmp_path / "two" / path).read_bytes() == (tmp_path / "out" / path).read_bytes()


@pytest.mark.parametrize("merges", [0, 500])
def test_text_of_an_experiment(tmp_path, merges):
    text = tmp_path / "text"
    text.mkdir()
    for name, size in (("train", 80), ("valid", 40), ("test", 40)):
        write(text, name, hostile_pairs(size))
    settings = DataSettings("de", "en", text, bpe_merges=merges, joined_dictionary=True)
    data.prepare_data(settings, data.DataFolders(tmp_path / "out"), False, False, print)
    check_pairs(tmp_path / "out" / "data" / "data-bin")
    check_ends(tmp_path / "out" / "data" / "text")
    check_ends(tmp_path / "out" / "references")


def test_translate_and_evaluate(tmp_path):
    lines = [LINES[number % len(LINES)] for number in range(len(ENDS))]
    odd = [line.replace(" ", end, 1) for line, end in zip(lines, ENDS)]
    found = translate(FIXTURES / "convs2s.pt", odd, tmp_path)
    assert found == translate(FIXTURES / "convs2s.pt", lines, tmp_path)
    for name, texts in (("odd", odd), ("even", lines)):
        (tmp_path / name).write_bytes("\r\n".join(texts).encode())
    done = convs2s(tmp_path, "evaluate", "odd", "--references", "even", "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert all(score == pytest.approx(100) for score in result["scores"].values())


@pytest.mark.parametrize("bpe", ["none", "subword_nmt"])
def test_symbols_in_training_text(tmp_path, bpe):
    """As in OpenNMT-py 503."""
    words = [(word, SYMBOLS[(place * 5 + 1) % 6]) for place, word in enumerate(SYMBOLS * 10)]
    write(
        tmp_path,
        "a",
        [(f"preis {a} {n} x{b}", f"price {a} {n} {b}") for n, (a, b) in enumerate(words)],
    )
    options = ("--tokenizer", "none", "--bpe", bpe, "--bpe-size", 1000, "--workers", 1)
    convs2s(tmp_path, "prepare", "--train", "a.de", "a.en", "--out", "out", *options)
    folder = tmp_path / "out" / "data-bin"
    preparation = Preparation.read(tmp_path / "out")
    symbols = Vocabulary.load(folder / "dict.en.txt").symbols
    texts = set()
    for language, side in (("de", preparation.source), ("en", preparation.target)):
        for one in sentences(folder / f"train.de-en.{language}"):
            assert not {0, 1, 2, 3} & {*one}
            texts.add(side.decode(" ".join(symbols[token] for token in one)))
    given = "".join((tmp_path / f"a.{language}").read_text() for language in ("de", "en"))
    assert texts <= {*given.splitlines()} and any("</s>" in text for text in texts)


def test_symbols_in_text_to_translate(tmp_path):
    """Without a preparation, they are unknown words."""
    path = FIXTURES / "convs2s.pt"
    lines = ["eins {} zwei drei", "{} vier", "fünf {}", "{}"]
    unknown = translate(path, [line.format("unbekannt") for line in lines], tmp_path)
    for word in ("<s>", "</s>", "<pad>", "<unk>"):
        assert translate(path, [line.format(word) for line in lines], tmp_path) == unknown
    (tmp_path / "source").write_text("eins zwei\n" * 4)
    scores = []
    for words in (["unbekannt"] * 4, ["<s>", "</s>", "<pad>", "<unk>"]):
        (tmp_path / "target").write_text("".join(f"zwei-th {word}\n" for word in words))
        files = ("--input", "source", "--target-input", "target")
        options = ("--path", path, "--data", DATA, "--device", "cpu", "--raw")
        scores.append(convs2s(tmp_path, "score", *options, *files).stdout)
    assert scores[0] == scores[1]


def test_symbols_in_fairseq_interactive(corpus, trained):
    words = ("unbekannt", "</s>", "<pad>", "<s>")
    options = ("--task", "convs2s_translation", "--path", trained / "checkpoint_last.pt", "--cpu")
    text = "".join(f"eins {word} zwei\n" for word in words)
    printed = fairseq("interactive", corpus / "bin", *options, "--user-dir", PLUGIN, text=text)
    found = hypotheses(printed)
    assert len(found) == 4 and all(found[number] == found[0] for number in found)
