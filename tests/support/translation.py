"""Shared by the tests of ``convs2s translate``: models, text, and the command."""

import hashlib
import json
import shutil

from convs2s.cli import main as convs2s
from tests import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "old_checkpoints"

DATA = FIXTURES / "data"

MODELS = sorted(path.stem for path in FIXTURES.glob("*.pt"))

LINES = (DATA / "test.de").read_text(encoding="utf-8").splitlines()

# Each position of the models of the fixtures: 20 with the end of the sentence.
LIMIT = 19

SENTENCE = "acht vier fünf zehn elf zwölf eins zwei drei ."


def text_file(folder, lines, name="input.de"):
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def translate(path, lines, folder, *arguments, data=DATA):
    """The lines that ``convs2s translate`` writes."""
    output = folder / "output.en"
    paths = path if isinstance(path, list) else [path]
    code = convs2s(
        [
            "translate",
            "--path",
            *map(str, paths),
            "--data",
            str(data),
            "--device",
            "cpu",
            "--input",
            str(text_file(folder, lines)),
            "--output",
            str(output),
            *map(str, arguments),
        ]
    )
    assert code == 0
    return output.read_text(encoding="utf-8").split("\n")[:-1]


def prepared(folder, **changes):
    """A folder as ``convs2s prepare`` leaves it, with the dictionaries of the fixtures."""
    shutil.copytree(DATA, folder / "data-bin")
    sides = {"source": "de", "target": "en"}
    files = {name: f"data-bin/dict.{language}.txt" for name, language in sides.items()}
    content = {
        "format": 1,
        "languages": sides,
        "tokenizer": "none",
        "lowercase": True,
        "subwords": {"method": "none"},
        "dictionaries": {
            name: {
                "file": file,
                "sha256": hashlib.sha256((folder / file).read_bytes()).hexdigest(),
            }
            for name, file in files.items()
        },
    }
    path = folder / "preparation.yaml"
    path.write_text(json.dumps({**content, **changes}), encoding="utf-8")
    return path


def export(*arguments):
    """Run ``convs2s export``, which must succeed."""
    assert convs2s(["export", *map(str, arguments)]) == 0


def copied(model, folder):
    """A prepared folder with a model of the fixtures."""
    folder.mkdir()
    prepared(folder)
    shutil.copyfile(FIXTURES / f"{model}.pt", folder / "model.pt")
    return folder
