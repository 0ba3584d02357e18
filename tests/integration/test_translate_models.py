"""``Translator`` finds dictionaries, languages and preparation; errors are sentences."""

import shutil
from pathlib import Path

import pytest

from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from convs2s.translation import Translator
from tests.support.translation import DATA, FIXTURES, LIMIT, LINES, prepared, text_file


def test_python():
    translator = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu", alignment=True)
    assert translator.languages == ("de", "en") and translator.max_source_tokens == LIMIT
    first, empty = translator.translate(["eins zwei drei", ""])
    assert first.text == " ".join(first.hypotheses[0].tokens) and first.score < 0
    assert first.hypotheses[0].score == pytest.approx(
        sum(first.hypotheses[0].token_scores) / len(first.hypotheses[0].token_scores), abs=1e-5
    )
    assert (empty.text, empty.hypotheses[0].alignment) == ("", [])
    assert next(translator.stream(iter(["eins zwei drei"]))) == first
    with pytest.raises(UserError, match="--workers is 0"):
        Translator(FIXTURES / "convs2s.pt", data=DATA, workers=0)


def test_dictionaries_beside_the_checkpoint(tmp_path):
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    shutil.copy(FIXTURES / "convs2s.pt", tmp_path)
    found = Translator(tmp_path / "convs2s.pt", device="cpu", raw=True).translate(["acht"])
    expected = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu").translate(["acht"])
    assert found == expected


ERRORS = {
    "checkpoint": (["--path", "no/such.pt"], "There is no checkpoint or folder no/such.pt."),
    "text as checkpoint": (["--path", "INPUT"], "bytes) is not a complete checkpoint."),
    "dictionaries": (["--data", "FOLDER"], "dict.de.txt and dict.en.txt are not both in FOLDER."),
    "input": (["--input", "no/such/file"], "There is no file no/such/file (--input)."),
    "empty name": (["--input", ""], "The name of --input is empty: give one, or omit it"),
    "latin-1": (["--input", "LATIN"], "LATIN, line 2: byte 0xf6 at offset 2 is not valid UTF-8"),
    "output": (["--output", "no/such/file"], "no/such/file cannot be written: there is no folder"),
    "overwritten": (
        ["--output", "INPUT"],
        "INPUT cannot be written: the command also reads this file",
    ),
    "model overwritten": (
        ["--output", "MODEL"],
        "MODEL cannot be written: the command also reads this file",
    ),
    "codes overwritten": (
        ["--bpe-codes", "LATIN", "--report", "LATIN"],
        "LATIN cannot be written: the command also reads this file",
    ),
    "nbest": (["--nbest", "6"], "--nbest is 6, but a beam search with --beam 5"),
    "lexicon": (["--lexicon", "INPUT"], "INPUT"),
    "codes": (["--bpe-codes", "no/codes"], "There is no file no/codes (--bpe-codes)."),
    "raw codes": (["--bpe-codes", "INPUT", "--raw"], "--bpe-codes and --raw exclude each other"),
    "workers": (["--workers", "0"], "--workers is 0"),
    "workers by line": (["--workers", "2", "--line-by-line"], "omit --workers"),
    "device": (["--device", "tpu9"], "--device tpu9 cannot be used"),
    "user dir": (["--user-dir", "no/dir"], "There is no folder no/dir (--user-dir)."),
    "preparation": (["--preparation", "no/dir"], "no/dir"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind, tmp_path, capsys):
    arguments, message = ERRORS[kind]
    names = {"FOLDER": tmp_path, "INPUT": text_file(tmp_path, LINES), "LATIN": tmp_path / "latin"}
    names["MODEL"] = Path(shutil.copy(FIXTURES / "convs2s.pt", tmp_path))
    names["LATIN"].write_bytes(b"eins\nzw\xf6lf\n")
    for name, path in names.items():
        arguments = [str(path) if argument == name else argument for argument in arguments]
        message = message.replace(name, str(path))
    given = ["--path", str(names["MODEL"]), "--data", str(DATA), "--device", "cpu"]
    given += ["--input", str(names["INPUT"]), "--output", str(tmp_path / "output")]
    before = names["INPUT"].read_bytes()
    assert convs2s(["translate", *given, *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error and error.startswith("convs2s translate: error: ")
    assert not list(tmp_path.glob("output*")) and names["INPUT"].read_bytes() == before


def test_languages_that_the_checkpoint_does_not_say(corpus, trained, tmp_path, capsys):
    """Training found them in the names of its data, and its options do not have them."""
    path = trained / "checkpoint_last.pt"
    expected = Translator(path, device="cpu").translate(["eins zwei"])
    assert Translator(path, data=corpus / "bin", device="cpu").translate(["eins zwei"]) == expected
    shutil.copy(path, tmp_path)
    (tmp_path / "data").mkdir()
    for language in ("de", "en"):
        shutil.copy(corpus / "bin" / f"dict.{language}.txt", tmp_path / "data")
    named = Translator(
        tmp_path / "checkpoint_last.pt",
        data=tmp_path / "data",
        source_lang="de",
        target_lang="en",
        device="cpu",
    )
    assert named.translate(["eins zwei"]) == expected
    assert convs2s(
        ["translate", "--path", str(tmp_path / "checkpoint_last.pt"), "--data", str(tmp_path)]
    )
    assert "There are no dictionaries for" in capsys.readouterr().err


@pytest.mark.parametrize(
    "where", ["given", "beside the checkpoint", "above the checkpoint", "above the data"]
)
def test_preparation(where, tmp_path):
    path = FIXTURES / "convs2s.pt"
    expected = Translator(path, data=DATA, device="cpu").translate(["eins zwei acht", ""])
    file = prepared(tmp_path)
    given = {}
    if where == "beside the checkpoint":
        path = shutil.copy(path, tmp_path)
    elif where == "above the checkpoint":
        (tmp_path / "checkpoints").mkdir()
        path = shutil.copy(path, tmp_path / "checkpoints")
    elif where == "above the data":
        given = {"data": tmp_path / "data-bin"}
    else:
        given = {"preparation": file}
    found = Translator(path, device="cpu", **given).translate(["  EINS \u00a0zwei Acht", "\ufeff"])
    assert [translation.text for translation in found] == [
        translation.text for translation in expected
    ]


def test_preparation_of_another_model(tmp_path):
    other = {name: {"file": "data-bin/dict.de.txt", "sha256": "0"} for name in ("source", "target")}
    for name, changes, message in (
        ("dictionary", {"dictionaries": other}, "is not the dictionary data-bin/dict.de.txt that"),
        (
            "languages",
            {"languages": {"source": "fr", "target": "en"}},
            "prepares text for translation from fr to en, but .* translates from de to en",
        ),
    ):
        (tmp_path / name).mkdir()
        file = prepared(tmp_path / name, **changes)
        with pytest.raises(UserError, match=message):
            Translator(FIXTURES / "adl.pt", device="cpu", data=DATA, preparation=file)
