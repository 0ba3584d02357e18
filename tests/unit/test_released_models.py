"""The released models: the table that builds them, the manifest and the page agree."""

import os
import re
import shutil
import tarfile

import pytest

from convs2s.common.errors import UserError
from convs2s.text.preparation import digest
from convs2s.text.tokenizers import TOKENIZERS
from convs2s.translation import released
from convs2s.translation.released import RELEASED, read_manifest
from models import build
from tests import ROOT

PAGE = (ROOT / "models" / "README.md").read_text(encoding="utf-8")
MODELS = read_manifest(RELEASED).models


def test_the_manifest_is_that_of_the_table():
    assert [*MODELS] == [*build.RECIPES]
    for name, model in MODELS.items():
        recipe = build.RECIPES[name]
        assert (model.title, tuple(model.languages)) == (recipe.title, recipe.languages)
        assert (model.license, model.limits) == (recipe.license, recipe.limits)
        assert model.file == f"{name}.tar.xz" and model.size <= build.MAX_BYTES


def test_the_archives_of_the_checkout_are_those_of_the_manifest():
    assert released.CHECKOUT == ROOT / "models"
    for model in MODELS.values():
        archive = released.CHECKOUT / model.file
        assert (archive.stat().st_size, digest(archive)) == (model.size, model.sha256)


def test_the_page_lists_the_models():
    rows = re.findall(r"^\| `([\w-]+)` \|(?:[^|\n]*\|){2} ([\d.]+) MB \|", PAGE, re.MULTILINE)
    assert rows == [(name, f"{model.size / 1e6:.1f}") for name, model in MODELS.items()]


def test_the_examples_that_train_exist():
    for recipe in build.RECIPES.values():
        (file,) = (word for word in recipe.command if word.startswith(str(build.EXAMPLES)))
        assert os.path.isfile(file) and {"TEXT", "OUT"} <= set(recipe.command)


def test_the_same_files_make_the_same_archive(tmp_path):
    """Whenever and by whomever they were written, in any order."""
    digests = set()
    for number, names in enumerate((["b", "a", "c/d"], ["c/d", "a", "b"])):
        folder = tmp_path / str(number) / "tiny"
        (folder / "c").mkdir(parents=True)
        for name in names:
            (folder / name).write_text(name)
            (folder / name).chmod((0o600, 0o664)[number])
            os.utime(folder / name, (number, number))
        archive = tmp_path / f"{number}.tar.xz"
        build.pack(folder, archive)
        digests.add(archive.read_bytes())
    assert len(digests) == 1
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
    assert [member.name for member in members] == [
        *("tiny", "tiny/a", "tiny/b", "tiny/c", "tiny/c/d")
    ]
    assert {(each.uid, each.gid, each.mtime, each.uname) for each in members} == {(0, 0, 0, "")}


def test_an_archive_may_not_be_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MAX_BYTES", 10)
    (tmp_path / "a.tar.xz").write_bytes(bytes(11))
    with pytest.raises(UserError, match="a.tar.xz has 11 bytes, but at most 10 are released"):
        build.described(build.RECIPES["multi30k-de-en"], tmp_path / "a.tar.xz")


# Raw text and tokens of captions, by language.
CAPTIONS = {
    "de": [
        ("Ein Hund rennt auf saftig-grünem Gras.", "ein hund rennt auf saftig-grünem gras ."),
        ('Auf dem Schild steht "Halt".', "auf dem schild steht &quot; halt &quot; ."),
    ],
    "en": [
        ("A dog runs on lush-green grass.", "a dog runs on lush-green grass ."),
        ("A boy sits on a woman's lap.", "a boy sits on a woman &apos;s lap ."),
    ],
}


def write_captions(folder):
    """A folder as an experiment leaves it: dictionaries, codes, and the tokens of a test set."""
    data = folder / "data"
    (data / "data-bin").mkdir(parents=True)
    (data / "text").mkdir()
    for language, lines in CAPTIONS.items():
        (data / "data-bin" / f"dict.{language}.txt").write_text("a 1\n")
        tokens = "".join(f"{each}\n" for _, each in lines)
        (data / "text" / f"test_2016.{language}").write_text(tokens, encoding="utf-8")
    (data / "codes.bpe").write_text("#version: 0.2\na b\n")
    (data / "data.json").write_text('{"tests": {"test_2016": "test", "test_2017": "test1"}}')
    return data


def test_captions_are_raw_text(tmp_path):
    """Their tokens are those that the model was trained on."""
    pytest.importorskip("sacremoses")
    data, folder = write_captions(tmp_path), tmp_path / "prepared"
    folder.mkdir()
    build.prepare_captions(data, folder, ("de", "en"))
    preparation = build.Preparation.read(folder)
    for side in (preparation.source, preparation.target):
        file = folder / "text" / f"test.{side.language}"
        lines = CAPTIONS[side.language]
        raw = file.read_text(encoding="utf-8").splitlines()
        assert raw == [text.lower() for text, _ in lines]
        encoded = [side.encode(text).replace("@@ ", "") for text, _ in lines]
        assert encoded == [tokens for _, tokens in lines]
    shutil.rmtree(folder)
    folder.mkdir()
    (data / "text" / "test_2016.en").write_text("a boy's hat\n")
    with pytest.raises(UserError, match="The tokens of 'a boy's hat' are not those of Multi30k"):
        build.prepare_captions(data, folder, ("de", "en"))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "It’s a “well-known” man’s hat.",
            "It &apos;s a &quot; well-known &quot; man &apos;s hat .",
        ),
        ("a – b", "a - b"),
        ("", ""),
    ],
)
def test_the_scripts_of_moses(text, tokens):
    pytest.importorskip("sacremoses")
    assert TOKENIZERS["moses_scripts"]("en").tokenize(text) == tokens


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--models", "pronunciation"], "cannot be downloaded: give --sigmorphon FOLDER"),
        (["--multi30k", "missing"], "There is no folder missing (--multi30k)"),
        (["--trained", "multi30k-de-en=."], "there is no runs/diversified_longer.1/average.pt"),
        (
            ["--trained", "multi30k-de-en=.", "--models", "pronunciation"],
            "which is not built: name it with --models",
        ),
    ],
)
def test_arguments_are_checked_before_anything_is_trained(arguments, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["build.py", *arguments])
    with pytest.raises(UserError) as refused:
        build.main()
    assert part in str(refused.value) and not any(tmp_path.iterdir())
