"""The stages of a preparation one by one: cleaning, held-out sets, sub-words, resuming."""

import json
import os
import signal
import time
from functools import partial

import pytest

from convs2s.common.errors import UserError, WorkInterrupted
from convs2s.text import learning
from convs2s.text.cleaning import (
    Limits,
    choose_held_out,
    fault,
    held_out_size,
    pair_hash,
    unspaced_count,
)
from convs2s.text.parallel import mapper
from convs2s.text.settings import (
    Settings,
    default_length,
    default_method,
    default_size,
    default_tokenizer,
    dictionary_limit,
)
from convs2s.text.sources import ParallelText
from convs2s.text.stages import Stages
from convs2s.text.subwords import SentencePiece, SubwordNmt


def test_hashes_of_pairs():
    assert pair_hash("a b", "c") != pair_hash("a", "b c") != 0


@pytest.mark.parametrize(
    "line, count",
    [
        ("a", 1),
        ("a b .", 3),
        ("你好 。", 3),
        ("你好x y", 4),
        ("über alles", 2),
        ("สวัสดี", 6),
        ("ສະບາຍ", 5),
        ("မြန်", 4),
        ("ខ្មែរ", 5),
        ("ひらカナ", 4),
        ("㐀𠀀豈", 3),
        ("a你", 2),
    ],
)
def test_count_of_scripts_without_spaces(line, count):
    assert unspaced_count(line) == count


@pytest.mark.parametrize(
    "pair, reason",
    [
        (("a b", "c d"), None),
        (("", "a"), "empty"),
        (("a", ""), "empty"),
        (("a b c d e", "a b c d e f"), "long"),
        (("x" * 1001, "a"), "long"),
        (("x" * 1000 + " y", "a"), None),
        (("a", "b c"), None),
        (("a", "b c d"), "ratio"),
        (("a b c d e", "b c"), "ratio"),
        (("twice", "2 y"), None),
    ],
)
def test_cleaning(pair, reason):
    assert fault(*pair, Limits(length=5, ratio=2.0)) == reason
    both, source, target = (True, True), (True, False), (False, True)
    assert fault("你好", "hello", Limits(3, 2.0, unspaced=both)) is None
    assert fault("你好吗。", "how are you", Limits(3, 2.0, unspaced=both)) == "long"
    assert fault("你好吗。", "how are you", Limits(5, 2.0, unspaced=source)) is None
    assert fault("how are you", "你好吗。", Limits(5, 2.0, unspaced=target)) is None
    assert fault("你好吗。", "how are you", Limits(5, 2.0, unspaced=target)) == "ratio"


@pytest.mark.parametrize(
    "pairs, size", [(5, 1), (20, 1), (1000, 50), (40_000, 2000), (10**7, 2000)]
)
def test_default_size_of_held_out_sets(pairs, size):
    assert held_out_size(pairs) == size


@pytest.mark.parametrize(
    "pairs, sizes",
    [
        (4, {"valid": 1, "test": 1}),
        (100, {"valid": 5}),
        (1000, {"valid": 50, "test": 50}),
        (1000, {"valid": 10, "test": 333}),
        (999, {"valid": 250, "test": 1}),
    ],
)
def test_held_out_pairs_are_spread(pairs, sizes):
    chosen = choose_held_out(pairs, sizes)
    assert chosen == choose_held_out(pairs, sizes)
    names = list(chosen.values())
    assert {name: names.count(name) for name in sizes} == sizes
    places = sorted(chosen)
    assert 0 <= places[0] and places[-1] < pairs
    gaps = [after - before for before, after in zip(places, places[1:])]
    assert max(gaps) - min(gaps) <= 1
    for name, size in sizes.items():
        half = sum(place < pairs / 2 for place in places if chosen[place] == name)
        assert abs(half - size / 2) <= 1


def test_too_few_pairs_to_hold_out():
    with pytest.raises(UserError, match="3 pairs remain .* hold out 1 for valid"):
        choose_held_out(3, {"valid": 1, "test": 1})


@pytest.mark.parametrize(
    "pairs, size", [(1, 2000), (9999, 2000), (10_000, 8000), (200_000, 16_000), (10**7, 32_000)]
)
def test_default_size_of_subwords(pairs, size):
    assert default_size(pairs) == size


@pytest.mark.parametrize(
    "tokenizer, languages, method, used",
    [
        (None, ("de", "en"), "subword_nmt", "moses"),
        (None, ("zh_CN", "en"), "sentencepiece", "none"),
        (None, ("en", "ja"), "sentencepiece", "none"),
        ("characters", ("de", "en"), "none", "characters"),
        ("letters/none", ("de", "en"), "none", "letters/none"),
        ("none/letters", ("de", "ja"), "none", "none/letters"),
        ("moses", ("de", "en"), "subword_nmt", "moses"),
    ],
)
def test_default_tokenizer_and_method(tokenizer, languages, method, used):
    assert default_method(tokenizer, languages) == method
    assert (tokenizer or default_tokenizer(method)) == used
    assert default_length(used) == (1000 if "letters" in used or "char" in used else 175)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"tokenizer": "characters"}, "--tokenizer characters .* --bpe subword_nmt cannot split"),
        ({"tokenizer": "none/letters"}, "--tokenizer letters .* --bpe subword_nmt cannot split"),
        (
            {"tokenizer": "leters/none"},
            r"no tokenizer 'leters' \(did you mean 'letters'",
        ),
        ({"tokenizer": "none/"}, "no tokenizer '': choose none, .* such as letters/none"),
        ({"tokenizer": "none/none/none"}, "no tokenizer 'none/none'"),
        ({"size": 0}, "--bpe-size is 0"),
        ({"limits": Limits(0, 3.0)}, "--max-length is 0"),
        ({"limits": Limits(9, 0.5)}, "--max-ratio is 0.5"),
        ({"sizes": {"valid": 0, "test": None}}, "--valid-size is 0"),
        ({"sizes": {"valid": None, "test": -1}}, "--test-size is -1"),
        (
            {"given": ["test"], "sizes": {"valid": None, "test": 5}},
            "--test gives files and --test-size 5",
        ),
    ],
)
def test_wrong_settings(tmp_path, changes, message):
    given = changes.pop("given", [])
    make_settings(tmp_path, given).recorded()
    with pytest.raises(UserError, match=message):
        make_settings(tmp_path, given, **changes)


def make_settings(folder, given=(), **changes):
    (folder / "a.tsv").touch()
    text = ParallelText("--train", (str(folder / "a.tsv"),))
    values = dict(
        languages=("de", "en"),
        texts=dict.fromkeys(["train", *given], text),
        tokenizer="none",
        method="subword_nmt",
        size=None,
        joint=True,
        lowercase=False,
        limits=Limits(175, 3.0),
        sizes={"valid": None, "test": None},
    )
    return Settings(**{**values, **changes})


@pytest.mark.parametrize(
    "tokenizer, method, size, limit",
    [
        ("none", "subword_nmt", 9, None),
        ("none", "none", None, 50_000),
        ("none", "none", 9, 9),
        ("none/letters", "none", None, 50_000),
        ("characters", "none", None, None),
        ("characters", "none", 9, 9),
        ("letters/characters", "none", 9, 9),
    ],
)
def test_limit_of_a_dictionary(tmp_path, tokenizer, method, size, limit):
    settings = make_settings(tmp_path, tokenizer=tokenizer, method=method, size=size)
    assert dictionary_limit(settings) == limit


SETTINGS = {"--bpe": "none", "--bpe-size": None, "--separate": False}


def test_a_complete_stage_is_not_repeated(tmp_path):
    calls = []

    def work(folder):
        calls.append(folder)
        (folder / "x").touch()
        return {"pairs": 3}

    assert Stages(tmp_path / "work", SETTINGS).run("clean", work) == {"pairs": 3}
    assert Stages(tmp_path / "work", SETTINGS).run("clean", work) == {"pairs": 3}
    assert len(calls) == 1 and (tmp_path / "work" / "clean" / "x").exists()


def test_an_interrupted_stage_starts_again(tmp_path):
    def fail(folder):
        (folder / "x").touch()
        raise UserError("wrong")

    stages = Stages(tmp_path, SETTINGS)
    with pytest.raises(UserError):
        stages.run("clean", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["stages.json"]
    # What a killed process leaves: a partial folder, or a folder that is not recorded.
    for name in ("clean.partial", "clean"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").touch()
    Stages(tmp_path, SETTINGS).run("clean", lambda folder: {})
    assert not list((tmp_path / "clean").iterdir())
    assert json.loads((tmp_path / "stages.json").read_text())["stages"] == {"clean": {}}


def test_a_full_disk_interrupts_a_stage(tmp_path):
    def fill(folder):
        with open("/dev/full", "w") as file:
            file.write("x")

    with pytest.raises(WorkInterrupted, match="clean.partial cannot be written: No space left"):
        Stages(tmp_path, SETTINGS).run("clean", fill)
    assert [path.name for path in tmp_path.iterdir()] == ["stages.json"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"--bpe": "subword_nmt"}, "prepared with --bpe none, now with --bpe subword_nmt: choose"),
        ({"--bpe-size": 5}, "prepared with no --bpe-size, now with --bpe-size 5"),
        ({"--separate": True}, "prepared with no --separate, now with --separate: .*--overwrite"),
    ],
)
def test_other_settings_are_refused(tmp_path, changes, message):
    Stages(tmp_path, SETTINGS)
    with pytest.raises(UserError, match=message):
        Stages(tmp_path, {**SETTINGS, **changes})


def test_a_file_that_has_changed_is_noticed(tmp_path):
    path = tmp_path / "a.tsv"
    path.touch()
    text = ParallelText("--train", (str(path),))
    Stages(tmp_path / "work", {"--train": text.fingerprint()})
    path.write_text("more\n")
    with pytest.raises(UserError, match="a.tsv has changed since .* was prepared"):
        Stages(tmp_path / "work", {"--train": text.fingerprint()})


def double():
    return lambda number: 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_mapper_keeps_the_order(workers):
    with mapper(workers, double) as run:
        assert list(run(iter(range(9000)))) == list(range(0, 18_000, 2))


def wait_for_a_later_item(folder):
    """An item of the eighth chunk ends after one of the tenth has begun."""

    def work(number):
        if number == 4700:
            (folder / "begun").touch()
        while number == 3700 and not (folder / "begun").exists():
            time.sleep(0.01)
        return number

    return work


def test_processes_wait_for_no_others(tmp_path):
    """Two processes have eight chunks of 500 items before them, and go on as results are read."""
    read = []

    def items():
        for number in range(9000):
            read.append(number)
            yield number

    with mapper(2, partial(wait_for_a_later_item, tmp_path)) as run:
        for number, found in enumerate(run(items())):
            assert found == number and len(read) <= number + 9 * 500
    assert len(read) == 9000


def fail_at_600():
    def fail(number):
        if number == 600:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return fail


def test_a_process_that_is_killed_ends_the_others():
    found = []
    with mapper(2, fail_at_600) as run, pytest.raises(WorkInterrupted, match="One of 2 processes"):
        found.extend(run(iter(range(9000))))
    assert found == list(range(len(found))) and len(found) <= 600


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_subword_nmt_is_learned(tmp_path):
    counts = learning.count_words(["hunde rennen", "runde hunde", "unde"] * 6)
    learning.learn_subword_nmt(counts, 3, tmp_path / "codes")
    subwords = SubwordNmt(tmp_path / "codes")
    assert subwords.encode("hunde rennen") == "h@@ unde r@@ e@@ n@@ n@@ e@@ n"
    with pytest.raises(UserError, match="have one character"):
        learning.learn_subword_nmt(learning.count_words("abc"), 3, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_number_of_counted_words_is_bounded(monkeypatch):
    monkeypatch.setattr(learning, "MAX_COUNTED", 3)
    counts = learning.count_words(["a a b b", "c d e"])
    assert learning.count_words(["b f"], counts) == {"a": 2, "b": 3, "f": 1}
    text = ["a a a b b b c c d d", "a b"]
    assert learning.count_words(text) == {"a": 4, "b": 4}


def test_sentencepiece_is_learned(tmp_path):
    pytest.importorskip("sentencepiece")
    lines = ["Zwei Hunde rennen über eine Wiese.", "Ein Mann liest ein Buch."] * 20
    text = write(tmp_path / "a", lines)
    model = tmp_path / "model"
    learning.learn_sentencepiece(lines, 60, model, 1.0, len(lines))
    subwords = SentencePiece(model)
    for line in (*lines[:2], "Ein Ñ", ""):
        assert subwords.decode(subwords.encode(line)) == line
    with pytest.raises(learning.TooFewSubwords, match="cannot learn 3 sub-words .*--bpe") as error:
        learning.learn_sentencepiece(lines, 3, model, 1.0, len(lines))
    least = error.value.least
    with pytest.raises(UserError, match=f"need {least}: give --bpe-size {least} or more"):
        learning.learn_sentencepiece(lines, least - 1, model, 1.0, len(lines))
    learning.learn_sentencepiece(lines, least, model, 1.0, len(lines))
    with pytest.raises(UserError, match="is not a model of sentencepiece"):
        SentencePiece(text)
