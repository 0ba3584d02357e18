"""``convs2s prepare``: from two text files to data that trains."""

import gzip
import random
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from convs2s.text import Preparation, prepare_tokens
from tests import ROOT
from tests.support.commands import NEEDS_FAIRSEQ, PLUGIN, server
from tests.support.packed import PACK
from tests.support.preparing import NONE, PAIRS, data, files, make_pairs, preparing, write_pairs

# Appended to the commands that are printed: a small model, hardly trained, and short translations.
TRAINING = (
    "--max-update 2 --cpu --encoder-layers '[(8, 3)]' --decoder-layers '[(8, 3)]' "
    "--encoder-embed-dim 8 --decoder-embed-dim 8 --decoder-out-embed-dim 8"
)
SHORT = "--max-len-b 9"


@pytest.fixture
def prepare(capsys):
    return preparing(capsys)


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_every_format_gives_the_same_data(prepare, tmp_path):
    first = None
    tsv = tmp_path / "corpus.de-en.tsv.gz"
    tsv.write_bytes(gzip.compress("".join(f"{s}\t{t}\r\n" for s, t in PAIRS).encode("utf-8-sig")))
    for name, train in (
        *((suffix, write_pairs(tmp_path, "corpus", PAIRS, suffix)) for suffix in PACK),
        ("crlf", write_pairs(tmp_path, "other", PAIRS, end="\r\n")),
        ("tsv", [tsv]),
    ):
        out = tmp_path / f"out{name}"
        prepare("--train", *train, "--out", out, *NONE)
        first = first or data(out)
        assert data(out) == first and len(first) == 25
        assert sorted(path.name for path in out.iterdir()) == [
            "codes.bpe",
            "data-bin",
            "preparation.yaml",
            "text",
            "tokens",
        ]


@pytest.mark.parametrize(
    "options, package",
    [
        (("--tokenizer", "moses", "--workers", "2"), "sacremoses"),
        (("--bpe", "sentencepiece", "--bpe-size", "80", "--lowercase"), "sentencepiece"),
        (("--bpe", "sentencepiece", "--bpe-size", "60", "--separate"), "sentencepiece"),
        (("--tokenizer", "none", "--bpe-size", "50", "--separate"), None),
        (("--tokenizer", "none", "--bpe", "none", "--bpe-size", "20"), None),
        (("--tokenizer", "characters", "--max-length", "40"), None),
        (("--tokenizer", "letters/none", "--separate", "--max-ratio", "99"), None),
    ],
)
def test_the_preparation_of_the_data_prepares_raw_text(prepare, tmp_path, options, package):
    if package:
        pytest.importorskip(package)
    out = tmp_path / "out"
    prepare("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", out, "--workers", "1", *options)
    preparation = Preparation.read(out)
    for name in ("valid", "test"):
        for side in (preparation.source, preparation.target):
            texts = lines(out / "text" / f"{name}.{side.language}")
            tokens = lines(out / "tokens" / f"{name}.{side.language}")
            assert len(texts) == len(tokens) > 0
            assert [side.encode(text) for text in texts] == tokens
            assert [side.decode(line) for line in tokens] == texts
    folder = out / "data-bin"
    preparation.check_dictionaries(folder / "dict.de.txt", folder / "dict.en.txt")
    separate = "--separate" in options
    same = (folder / "dict.de.txt").read_bytes() == (folder / "dict.en.txt").read_bytes()
    assert same != separate
    if "20" in options:
        assert len(lines(folder / "dict.de.txt")) <= 24


LIGHT = """
import re, sys
from convs2s.cli import main
try:
    main(sys.argv[1:])
finally:
    loaded = {"torch", "fairseq", "omegaconf"} & {*sys.modules}
    assert not loaded, loaded
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())
    print(int(peak[1]) / 1024, file=sys.stderr)
"""


def peak(*arguments):
    """MiB of a command that must import neither torch nor fairseq."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return float(done.stderr.split()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sampled", [False, True])
def test_a_preparation_takes_little_memory(sampled, tmp_path):
    options = ("--bpe-dropout", "0.1", "--segmentations", "3") if sampled else ()
    train = write_pairs(tmp_path, "a", make_pairs(3000))
    out = str(tmp_path / "out")
    assert peak("prepare", "--train", *train, "--out", out, *NONE, *options) < 150


def test_held_out_pairs_and_counts(prepare, tmp_path):
    extra = [("", "x"), ("a", "b c d e f g"), PAIRS[5], (" ".join("x" * 200), "y " * 200)]
    valid = [*make_pairs(7, seed=2), ("", "")]
    train = [*PAIRS, *extra, valid[0]]
    out = tmp_path / "out"
    printed = prepare(
        "--train",
        *write_pairs(tmp_path, "a", train),
        "--valid",
        *write_pairs(tmp_path, "v", valid),
        "--test-size",
        "13",
        "--out",
        out,
        *NONE,
    )
    assert lines(out / "text" / "valid.de") == [source for source, _ in valid]
    content = yaml.safe_load((out / "preparation.yaml").read_text(encoding="utf-8"))
    assert content["left_out"] == dict(empty=1, long=1, ratio=1, held_out=1, duplicate=1)
    assert content["pairs"] == dict(train=187, valid=8, test=13)
    assert "205 pairs of training text read" in printed and "13 pairs in test, cut" in printed
    kept = {
        name: set(zip(lines(out / "tokens" / f"{name}.de"), lines(out / "tokens" / f"{name}.en")))
        for name in ("train", "valid", "test")
    }
    assert not kept["train"] & (kept["valid"] | kept["test"]) and len(kept["test"]) == 13


def test_duplicates_of_pairs_that_are_held_out_are_dropped(prepare, tmp_path):
    out = tmp_path / "out"
    train = write_pairs(tmp_path, "a", PAIRS[:50] * 3)
    prepare("--train", *train, "--keep-duplicates", "--out", out, *NONE)
    content = yaml.safe_load((out / "preparation.yaml").read_text(encoding="utf-8"))
    kept = {
        name: set(zip(lines(out / "tokens" / f"{name}.de"), lines(out / "tokens" / f"{name}.en")))
        for name in ("train", "valid", "test")
    }
    assert not kept["train"] & (kept["valid"] | kept["test"])
    assert content["left_out"]["held_out"] > 0 == content["left_out"]["duplicate"]
    assert sum(content["pairs"].values()) + content["left_out"]["held_out"] == 150


@NEEDS_FAIRSEQ
@pytest.mark.parametrize(
    "tokenizer, beam, language", [("none", "", "de"), ("characters", "--beam 1 ", "de-CH")]
)
def test_the_printed_commands_run(prepare, tmp_path, tokenizer, beam, language):
    from fairseq.data.data_utils import infer_language_pair

    out = tmp_path / "my data"
    options = ("--tokenizer", tokenizer, "--source-lang", language, "--workers", "1")
    train = write_pairs(tmp_path, "a", PAIRS)
    printed = prepare("--train", *train, "--out", out, *options)
    assert re.search(r"Train \(in about \d minutes? on these processors\)", printed)
    # fairseq's own programs do not find a language with a hyphen; the page says so.
    found = infer_language_pair(str(out / "data-bin"))
    assert (found == [language, "en"]) == (language == "de")
    first, translate, evaluate = printed.splitlines()[-3:]
    done = server().bash(f"{first} {TRAINING}", tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert (out / "checkpoints" / "average.pt").is_file()
    assert f"{beam}--input FILE" in translate
    text = out / "text" / f"test.{language}"
    command = translate.replace("FILE", shlex.quote(str(text)))
    done = server().bash(f"{command} {SHORT}", tmp_path)
    assert done.returncode == 0 and done.stdout.count("\n") == len(lines(text))
    done = server().bash(f"{evaluate} {SHORT}", tmp_path)
    # The model has hardly been trained.
    assert done.returncode == 0 and all("cut off" in line for line in done.stderr.splitlines())
    assert f"{tmp_path.name}/my data" in done.stdout
    message = prepare("--train", *train, "--out", out, *options, "--overwrite", code=2)
    assert "dictionaries that --overwrite would replace" in message


@NEEDS_FAIRSEQ
def test_a_colon_in_a_path(prepare, tmp_path):
    """fairseq takes it for the end of a path; folders named after a time have one."""
    train, out = write_pairs(tmp_path, "a", PAIRS), tmp_path / "run_12:30"
    printed = prepare("--train", *train, "--out", out, *NONE)
    first, translate, evaluate = printed.splitlines()[-3:]
    done = server().bash(f"{first} {TRAINING}", tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    text = shlex.quote(str(out / "text" / "test.de"))
    done = server().bash(f"{translate.replace('FILE', text)} {SHORT}", tmp_path)
    assert done.returncode == 0 and done.stdout.count("\n") == len(lines(out / "text" / "test.de"))
    assert server().bash(f"{evaluate} {SHORT}", tmp_path).returncode == 0
    # Without the preparation, the dictionaries are those of the training data.
    (tmp_path / "model_12:31.pt").write_bytes((out / "checkpoints" / "average.pt").read_bytes())
    path = f"--path {tmp_path / 'model_12:31.pt'} --raw --input {text} {SHORT}"
    assert server().bash(f"convs2s translate {path}", tmp_path).returncode == 0
    generate = f"fairseq-generate {out / 'data-bin'} --user-dir {PLUGIN} --task convs2s_translation"
    path = f"--path {tmp_path / 'model_12:31.pt'}"
    done = server().bash(f"{generate} {path} --cpu {SHORT}", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "names, options, message",
    [
        (("a.de", "a.en"), (), "line 2: .* has no such line"),
        (("a.de", "latin.en"), (), "latin.en, line 2: byte 0xfc"),
        (("a.de-en.tsv",), (), "a.de-en.tsv, line 2: expected .* found 2 tabs"),
        (("a.de.lz4", "a.en"), (), "a.de.lz4 is a .lz4 file"),
        (("a.de.lz4", "a.en.lz4"), (), "a.de.lz4 is a .lz4 file"),
        (("a.de.zst", "a.en"), (), "a.de.zst cannot be read beyond line 0"),
        (("utf16.de", "b.en"), (), "utf16.de, line 1: there is a NUL byte"),
        (("empty.de", "empty.en"), (), "has no lines"),
        (("blank.de", "blank.en"), (), "No training pair is left"),
        (("b.de", "b.en"), (), "which is too few to hold out"),
        (("b.de", "b.en"), ("--out", "b.de/out"), "b.de/out cannot be made: Not a directory"),
        (("b.de", "b.en"), ("--workers", "0"), "--workers is 0"),
        (("b.de", "b.en"), ("--max-ratio", "nan"), "--max-ratio is nan"),
        (("b.de", "b.en"), ("--bpe", "none", "--bpe-size", "4"), "--bpe-size is 4: .* at least 5"),
        (("b.de", "b.en"), ("--source-lang", "en"), "are in de and en, .* --source-lang is en"),
        (("b.de", "none.en"), (), "There is no file .*none.en"),
        (("b.de", "b.en"), ("--tokenizer", ""), "--tokenizer is '', .*: choose none"),
        (("b.de", "b.en"), ("--out", ""), "--out is empty: give the name of a folder"),
        (("b.de", "b.en"), ("--source-lang", ""), "--source-lang is '': use only"),
        (("b.de", "b.en"), ("--valid", ""), "--valid has an empty file name"),
    ],
)
def test_bad_input_leaves_nothing(prepare, tmp_path, monkeypatch, names, options, message):
    contents = {
        "a.de": "a\nb\n",
        "a.en": "a\n",
        "a.de-en.tsv": "a\tb\na\tb\t\n",
        "a.de.zst": "a\n",
        "a.de.lz4": "a\n",
        "a.en.lz4": "a\n",
        "empty.de": "",
        "empty.en": "",
        "blank.de": "a\n \n",
        "blank.en": "\n\n",
        "b.de": "a\nb\n",
        "b.en": "c\nd\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "latin.en").write_bytes(b"a\na\xfc\n")
    (tmp_path / "utf16.de").write_text("a\nb\n", encoding="utf-16-le")
    monkeypatch.chdir(tmp_path)
    paths = [tmp_path / name for name in names]
    error = prepare("--train", *paths, "--out", tmp_path / "out", *NONE, *options, code=2)
    sentence = error.splitlines()[-1]
    assert sentence.startswith("convs2s prepare: error: ") and re.search(message, sentence)
    assert not (tmp_path / "out").exists()


def write_chinese(folder, size):
    """Pairs with two thousand Chinese characters, and the options that name them."""
    numbers = random.Random(1)
    characters = [chr(0x4E00 + number) for number in range(2000)]
    pairs = {"".join(numbers.choices(characters, k=9)): source for source, _ in make_pairs(size)}
    return ("--train", *write_pairs(folder, "a", pairs.items()), "--source-lang", "zh")


@pytest.mark.parametrize("tokenizer", ["none", "none/none", "none/moses"])
def test_characters_of_each_side_without_spaces_count(prepare, tmp_path, tokenizer):
    if "moses" in tokenizer:
        pytest.importorskip("sacremoses")
    options = ("--tokenizer", tokenizer, "--bpe", "none", "--workers", "1")
    prepare(*write_chinese(tmp_path, 100), "--out", tmp_path / "out", *options)
    content = yaml.safe_load((tmp_path / "out" / "preparation.yaml").read_text(encoding="utf-8"))
    assert sum(content["left_out"].values()) == 0 and content["read"]["train"] == 100


def test_few_pairs_with_many_characters(prepare, tmp_path):
    """A default size has room for sub-words beside the characters; a size that is given stays."""
    pytest.importorskip("sentencepiece")
    train, out = write_chinese(tmp_path, 3000), tmp_path / "out"
    message = prepare(*train, "--out", out, "--bpe-size", 1900, "--workers", 1, code=2)
    least = int(re.search(r"need 2,0\d\d: give --bpe-size (20\d\d) or more", message)[1])
    for size, options in ((2000 + least, ()), (least, ("--bpe-size", least, "--overwrite"))):
        prepare(*train, "--out", out, "--workers", 1, *options)
        content = yaml.safe_load((out / "preparation.yaml").read_text(encoding="utf-8"))
        assert content["subwords"]["size"] == size
        assert content["settings"]["--bpe-size"] == (least if options else None)
        model = Preparation.read(out).source.subwords
        assert model.decode(model.encode("一丁 Hunde")) == "一丁 Hunde"


@pytest.mark.parametrize("merges", [0, 20])
def test_tokenized_text_becomes_data(prepare, tmp_path, merges):
    """The same data as from the command, if that has nothing to clean."""
    splits = {"train": PAIRS, "valid": make_pairs(9, 2), "test": make_pairs(7, 3)}
    named = {name: write_pairs(tmp_path, name, pairs) for name, pairs in splits.items()}
    arguments = [item for name, paths in named.items() for item in (f"--{name}", *paths)]
    method = ("--bpe-size", 20) if merges else ("--bpe", "none")
    out = tmp_path / "out"
    prepare(*arguments, "--out", tmp_path / "expected", *NONE, *method)
    out.mkdir()
    found = prepare_tokens(tmp_path, ("de", "en"), ["test"], out, merges, True)
    assert found == out / "data-bin"
    expected = files(tmp_path / "expected")
    made = files(out)
    assert made.keys() == {
        name
        for name in expected
        if name.startswith(("data-bin", "codes") + (("tokens",) if merges else ()))
    }
    assert all(expected[name] == content for name, content in made.items())


@pytest.mark.parametrize("method", ["subword_nmt", "sentencepiece", "none"])
def test_all_pairs_are_held_out(prepare, tmp_path, method):
    train = write_pairs(tmp_path, "a", [("gleich", "the same")] * 30)
    options = ("--keep-duplicates", "--bpe", method, "--workers", "1")
    message = prepare("--train", *train, "--out", tmp_path / "out", *options, code=2)
    assert "No training pair is left: all 28 that are not held out equal" in message
    assert not (tmp_path / "out").exists()
