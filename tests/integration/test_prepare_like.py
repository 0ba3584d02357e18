"""``convs2s prepare --like``: other text, with the sub-words and dictionaries of a model."""

import re
import shutil

import pytest

from convs2s.text import Preparation
from tests.support.preparing import NONE, make_pairs, preparing, write_pairs

OTHERS = make_pairs(90, seed=2)
# Letters that the first text does not have.
ODD = [("ein Ω.", "The Ω."), *OTHERS]


@pytest.fixture
def prepare(capsys):
    return preparing(capsys)


@pytest.fixture
def first(prepare, tmp_path):
    """The options of another preparation, like one with these options."""

    def run(*options):
        folder = tmp_path / "first"
        texts = write_pairs(tmp_path, "a", make_pairs())
        prepare("--train", *texts, "--out", folder, "--workers", 1, *options)
        return ("--train", *write_pairs(tmp_path, "b", ODD), "--like", folder)

    return run


@pytest.mark.parametrize(
    "options, package",
    [
        (("--tokenizer", "moses", "--lowercase"), "sacremoses"),
        (("--bpe", "sentencepiece", "--bpe-size", "60", "--separate"), "sentencepiece"),
        (("--tokenizer", "none", "--bpe-size", "50"), None),
        (("--tokenizer", "none", "--bpe-size", "50", "--separate"), None),
        (("--tokenizer", "none", "--bpe", "none", "--bpe-size", "20"), None),
        (("--tokenizer", "letters/none", "--separate", "--max-ratio", "99"), None),
    ],
)
def test_tokens_are_those_of_the_earlier_preparation(prepare, first, tmp_path, options, package):
    if package:
        pytest.importorskip(package)
    given, second = first(*options), tmp_path / "second"
    ratio = options[-2:] if "--max-ratio" in options else ()
    printed = prepare(*given, "--out", second, *ratio)
    assert f"convs2s train {second} --finetune-from-model MODEL" in printed
    earlier, later = (Preparation.read(tmp_path / name) for name in ("first", "second"))
    folders = (tmp_path / "first", second)
    names = ["data-bin/dict.de.txt", "data-bin/dict.en.txt"]
    names += {*(earlier.content["subwords"]["files"] or {}).values()}
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    for name in ("tokenizer", "lowercase", "subwords", "dictionaries"):
        assert later.content[name] == earlier.content[name]
    for side in ("source", "target"):
        before, now = (getattr(each, side) for each in (earlier, later))
        texts = (second / "text" / f"valid.{now.language}").read_text("utf-8").splitlines()
        tokens = (second / "tokens" / f"valid.{now.language}").read_text("utf-8").splitlines()
        assert [*map(before.encode, texts)] == [*map(now.encode, texts)] == tokens and tokens
    # The letter is a token, or a part of one, that the dictionaries do not have.
    assert re.search(r"Note: \d+\.\d\d% of the de tokens are not in the dictionary", printed)
    if "20" not in options:
        # A dictionary of 20 words lacks most of them.
        shares = re.findall(r"Note: (\S+)% of", printed)
        assert len(shares) == 2 and all(0 < float(share) < 10 for share in shares)


def test_nothing_is_said_of_text_without_unknown_tokens(prepare, first, tmp_path):
    given = first(*NONE)
    texts = write_pairs(tmp_path, "c", OTHERS)
    printed = prepare("--train", *texts, *given[3:], "--out", tmp_path / "second")
    assert "not in the dictionary" not in printed
    # The command that is printed names the model that was trained on the earlier preparation.
    model = tmp_path / "first" / "checkpoints" / "average.pt"
    model.parent.mkdir()
    model.touch()
    printed = prepare("--train", *texts, *given[3:], "--out", tmp_path / "second")
    assert f"--finetune-from-model {model}\n" in printed


def test_shards(prepare, first, tmp_path):
    given = first(*NONE)
    prepare(*given, "--workers", 1, "--out", tmp_path / "single")
    out = ("--out", tmp_path / "out", "--workers", 1, "--num-shards", 2)
    for _ in range(2):
        for shard in (0, 1):
            prepare(*given, *out, "--shard-id", shard)
        prepare(*given, *out)
    single, shared = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "data-bin").iterdir()}
        for name in ("single", "out")
    )
    assert single == shared and len(single) == 14


@pytest.mark.parametrize(
    "more, words",
    [
        (("--tokenizer", "none"), r"--like \S+first has chosen tokens, .*: omit --tokenizer"),
        (("--bpe-size", "9"), "omit --bpe-size"),
        (("--separate",), "omit --separate"),
        (("--source-lang", "fr"), "is for de and en, but the text is in fr and en"),
        (("--like", "nowhere"), "There is no file nowhere"),
    ],
)
def test_what_does_not_fit_is_refused(prepare, first, tmp_path, more, words):
    error = prepare(*first(*NONE), "--out", tmp_path / "second", *more, code=2)
    assert re.search(words, error) and not (tmp_path / "second").exists()


def test_text_in_other_languages_is_refused(prepare, first, tmp_path):
    given = first(*NONE)
    shutil.copy(tmp_path / "b.en", tmp_path / "b.fr")
    texts = ("--train", tmp_path / "b.de", tmp_path / "b.fr", *given[3:])
    error = prepare(*texts, "--out", tmp_path / "second", code=2)
    assert "is for de and en, but the text is in de and fr" in error
    prepare(*texts, "--out", tmp_path / "second", "--source-lang", "de", "--target-lang", "en")
    assert (tmp_path / "second" / "data-bin" / "dict.en.txt").exists()


def test_the_earlier_preparation_stays(prepare, first, tmp_path):
    given = first(*NONE)
    error = prepare(*given, "--out", tmp_path / "first", "--overwrite", code=2)
    assert "--like and --out are both" in error
    assert (tmp_path / "first" / "preparation.yaml").exists()
    dictionary = tmp_path / "first" / "data-bin" / "dict.de.txt"
    dictionary.write_text(f"{dictionary.read_text('utf-8')}more 1\n", "utf-8")
    error = prepare(*given, "--out", tmp_path / "second", code=2)
    assert "dict.de.txt is not the dictionary data-bin/dict.de.txt that" in error


def test_tokens_without_marks_are_refused(prepare, first, tmp_path):
    pytest.importorskip("sacremoses")
    given = first("--tokenizer", "moses")
    record = tmp_path / "first" / "preparation.yaml"
    record.write_text(record.read_text("utf-8").replace("marks_spaces: true\n", ""), "utf-8")
    error = prepare(*given, "--out", tmp_path / "second", code=2)
    assert "was made by an earlier version, whose tokens were others" in error
