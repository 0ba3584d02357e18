"""``convs2s prepare``: from two text files to data that trains."""

import errno
import gzip
import hashlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import yaml

from convs2s.cli import main
from convs2s.common import text_files
from convs2s.common.locks import lock_folder, release
from convs2s.text import Preparation, pipeline, prepare_tokens, workflow
from tests import ROOT
from tests.support.commands import NEEDS_FAIRSEQ, PLUGIN, server
from tests.support.packed import PACK

WORDS = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf Hunde rennen".split()
NONE = ("--tokenizer", "none", "--workers", "1")
# Appended to the commands that are printed: a small model, hardly trained, and short translations.
TRAINING = (
    "--max-update 2 --cpu --encoder-layers '[(8, 3)]' --decoder-layers '[(8, 3)]' "
    "--encoder-embed-dim 8 --decoder-embed-dim 8 --decoder-out-embed-dim 8"
)
SHORT = "--max-len-b 9"


def make_pairs(size=200, seed=1):
    """Different pairs of sentences with punctuation."""
    numbers = random.Random(seed)
    pairs = {}
    while len(pairs) < size:
        words = numbers.choices(WORDS, k=numbers.randint(3, 7))
        end = numbers.choice(".!")
        pairs[f"{' '.join(words)}{end}"] = f"The {', '.join(word[::-1] for word in words)}{end}"
    return list(pairs.items())


PAIRS = make_pairs()


def write_pairs(folder, name, pairs, suffix="", end="\n"):
    """Two files; their paths."""
    paths = []
    for language, lines in zip(("de", "en"), zip(*pairs)):
        path = folder / f"{name}.{language}{suffix}"
        path.write_bytes(PACK[suffix]("".join(f"{line}{end}" for line in lines).encode()))
        paths.append(str(path))
    return paths


@pytest.fixture
def prepare(capsys):
    """Runs the command in this process; returns what it printed.

    It must succeed, unless ``code`` is another exit code.
    """

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main(["prepare", *map(str, arguments)]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return run


def files(folder):
    """Path -> content of all files in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def data(folder):
    """Path -> digest of the text and of the binarized data."""
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files(folder).items()
        if name.endswith((".bin", ".idx", ".txt", ".bpe")) or name.startswith(("text", "tokens"))
    }


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


def test_a_killed_preparation_continues(prepare, tmp_path, monkeypatch):
    train = write_pairs(tmp_path, "a", PAIRS)
    arguments = ("--train", *train, "--out", tmp_path / "out", *NONE)
    record = tmp_path / "out" / "work" / "stages.json"
    command = [sys.executable, "-m", "convs2s", "prepare", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
    while not record.exists() or not json.loads(record.read_text())["stages"]:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["work"]
    message = prepare(*arguments, "--lowercase", code=2)
    assert "prepared with no --lowercase, now with --lowercase" in message
    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "clean", None)
        prepare(*arguments)
    prepare("--train", *train, "--out", tmp_path / "other", *NONE)
    assert data(tmp_path / "out") == data(tmp_path / "other")


def start(*arguments):
    command = [sys.executable, "-m", "convs2s", "prepare", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("more", [(), ("--lowercase",)])
def test_two_at_once(prepare, tmp_path, more):
    """The first one ends as if it were alone; the second is told of it, or finds its result."""
    train, out = write_pairs(tmp_path, "a", make_pairs(3000)), tmp_path / "out"
    arguments = ("--train", *train, *NONE, "--bpe-size", 100)
    both = start(*arguments, "--out", out), start(*arguments, *more, "--out", out)
    errors = [process.communicate()[1].decode() for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes and {*codes} <= {0, 2}
    for code, error in zip(codes, errors):
        told = f"Another `convs2s prepare` writes to {out}: wait until it ends, or choose another"
        assert not code or told in error or "was prepared with" in error
    options = more if codes[0] else ()
    prepare(*arguments, *options, "--out", tmp_path / "alone")
    assert data(out) == data(tmp_path / "alone")
    assert not (out / "work").exists()


def test_nothing_of_another_process_is_removed(prepare, tmp_path):
    train, out = write_pairs(tmp_path, "a", PAIRS), tmp_path / "out"
    (out / "work").mkdir(parents=True)
    (out / "work" / "stages.json").write_text("not finished")
    descriptor = lock_folder(str(out), "")
    for more in (), ("--overwrite",):
        message = prepare("--train", *train, "--out", out, *NONE, *more, code=2)
        assert f"Another `convs2s prepare` writes to {out}" in message
    release(descriptor)
    assert files(out) == {"work/stages.json": b"not finished"}
    message = prepare("--train", *train, "--out", out, *NONE, code=2)
    assert "stages.json is damaged: start again with --overwrite" in message
    prepare("--train", *train, "--out", out, *NONE, "--overwrite")


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


def test_a_finished_preparation_is_not_repeated(prepare, tmp_path, monkeypatch):
    train = write_pairs(tmp_path, "a", PAIRS)
    arguments = ("--train", *train, "--out", tmp_path / "out", *NONE)
    printed = prepare(*arguments)
    before = files(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(workflow, "Pipeline", None)
        assert prepare(*arguments) == printed
        message = prepare(*arguments, "--bpe", "none", code=2)
    assert "--bpe subword_nmt, now with --bpe none" in message
    assert files(tmp_path / "out") == before
    prepare(*arguments, "--bpe", "none", "--overwrite")
    assert "codes.bpe" not in files(tmp_path / "out")


def test_ctrl_c(prepare, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "binarize", stop)
    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    assert "the same command continues" in prepare(*arguments, code=130)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["work"]


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


def test_a_disk_that_is_full_at_the_end(prepare, tmp_path, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "binarize", fill)
        message = prepare(*arguments, code=2)
    assert "No space left on device. The same command continues" in message
    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "clean", None)
        prepare(*arguments)


def test_a_file_that_cannot_be_read_for_a_moment(prepare, tmp_path, monkeypatch):
    """Nothing is removed once there is something, as there is when the lines are counted."""
    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    work, opened = tmp_path / "out" / "work", text_files.open_binary

    def fail_after(name, path):
        if (work / name).exists():
            raise OSError(errno.ESTALE, "Stale file handle")
        return opened(path)

    for name, continues in (("stages.json", False), ("lines.json", True), ("clean", True)):
        with monkeypatch.context() as patch:
            patch.setattr(text_files, "open_binary", partial(fail_after, name))
            message = prepare(*arguments, code=2)
        assert "a.de cannot be read: Stale file handle." in message
        assert ("The same command continues from here." in message) == continues
        assert work.exists() == continues
    with monkeypatch.context() as patch:
        patch.setattr(workflow.Pipeline, "lines", json.loads((work / "lines.json").read_text()))
        prepare(*arguments)
    prepare("--train", *arguments[1:3], "--out", tmp_path / "other", *NONE)
    assert data(tmp_path / "out") == data(tmp_path / "other")


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


def test_a_worker_that_is_killed_leaves_the_complete_stages(prepare, tmp_path, monkeypatch):
    train = write_pairs(tmp_path, "a", PAIRS)
    arguments = ("--train", *train, "--out", tmp_path / "out", *NONE[:-1], "2")
    parent = os.getpid()

    def killed(*_):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "split", killed)
        message = prepare(*arguments, code=2)
    assert "One of 2 processes was stopped or ended" in message
    assert "The same command continues" in message
    with monkeypatch.context() as patch:
        patch.setattr(workflow.texts, "clean", None)
        prepare(*arguments)


def test_folders_of_others_are_left_alone(prepare, tmp_path):
    train = write_pairs(tmp_path, "a", PAIRS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for more in ((), ("--overwrite",)):
        message = prepare("--train", *train, "--out", tmp_path / "out", *NONE, *more, code=2)
        assert "files that `convs2s prepare` did not write" in message
    assert "which is a file" in prepare("--train", *train, "--out", train[0], *NONE, code=2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("old.codes.bpe", "did not write, such as old.codes.bpe: move them away"),
        ("sentencepiece.model", "did not write, such as sentencepiece.model"),
        ("models/checkpoint_last.pt", "models has models for the dictionaries"),
        ("data-bin/models/checkpoint1.pt", "models has models for the dictionaries"),
        ("checkpoint_best.pt", "out has models for the dictionaries"),
    ],
)
def test_overwriting_removes_nothing_of_others(prepare, tmp_path, name, message):
    out, options = tmp_path / "out", (*NONE, "--bpe-size", 20, "--separate")
    train = write_pairs(tmp_path, "a", PAIRS)
    prepare("--train", *train, "--out", out, *options)
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    (out / name).write_text("mine")
    before = files(out)
    assert message in prepare("--train", *train, "--out", out, *options, "--overwrite", code=2)
    assert files(out) == before
    (out / name).unlink()
    if not any((out / name).parent.iterdir()):
        (out / name).parent.rmdir()
    prepare("--train", *train, "--out", out, *NONE, "--bpe", "none", "--overwrite")
    assert not [*out.glob("*.bpe")]


def test_overwriting_what_was_killed_at_the_end(prepare, tmp_path, monkeypatch):
    """The results are in their places, but there is no record of them yet."""

    def kill(*_):
        raise KeyboardInterrupt

    arguments = ("--train", *write_pairs(tmp_path, "a", PAIRS), "--out", tmp_path / "out", *NONE)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_record", kill)
        prepare(*arguments, "--separate", code=130)
    assert "de.codes.bpe" in files(tmp_path / "out")
    prepare(*arguments, "--overwrite")
    assert [path.name for path in (tmp_path / "out").glob("*codes.bpe")] == ["codes.bpe"]


@pytest.mark.parametrize("method", ["subword_nmt", "sentencepiece", "none"])
def test_all_pairs_are_held_out(prepare, tmp_path, method):
    train = write_pairs(tmp_path, "a", [("gleich", "the same")] * 30)
    options = ("--keep-duplicates", "--bpe", method, "--workers", "1")
    message = prepare("--train", *train, "--out", tmp_path / "out", *options, code=2)
    assert "No training pair is left: all 28 that are not held out equal" in message
    assert not (tmp_path / "out").exists()
