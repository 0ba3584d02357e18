"""Commands refuse to replace a file that they read, before they read it."""

import os
import subprocess

import pytest

from tests.support.commands import server

# The files hard, link, link.png and link.json are the file input under other names.
COMMANDS = (
    "average --inputs other input --output input",
    "average other input --output link",
    "average --inputs other input --output hard",
    "convert-attn2d other hard --params input",
    "convert-fconv input link",
    "convert-lightconv input link",
    "evaluate other --references link --output input",
    "evaluate model=data/model.pt --references data/model.txt --source other --translations data",
    "export-transformer input hard",
    "lexicon --source other --target link --output input",
    "plot training name=input --output link.png",
    "plot lengths input --output link.png",
    "plot sweep input --option dropout --output link.png",
    "plot-attention --path other --data data --input input --output link.json",
    "quantize input hard",
    "rerank link --utility bleu --output input",
    "rerank other --scores name=link --weights other --output input",
    "score --path other --input input --target-input other --output hard",
    "score --path link --input other --target-input other --output input",
    "translate --path other --input link --report input",
    "translate --path other --lexicon input --output hard",
    "translate --path other --data data --output data/dict.de.txt",
)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("input", "other", "data/dict.de.txt", "data/model.pt", "data/model.txt"):
        (tmp_path / name).write_text(f"text of {name}\n")
    os.link(tmp_path / "input", tmp_path / "hard")
    for name in ("link", "link.png", "link.json"):
        (tmp_path / name).symlink_to("input")
    return tmp_path


def convs2s(folder, arguments, text=""):
    return subprocess.run(
        [server().programs / "convs2s", *arguments.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=text or subprocess.DEVNULL,
    )


@pytest.mark.parametrize("arguments", COMMANDS)
def test_an_input_is_not_replaced(arguments, folder):
    before = contents(folder)
    done = convs2s(folder, arguments)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "cannot be written: the command also reads this file" in done.stderr
    assert contents(folder) == before


def test_standard_input_is_not_replaced(folder):
    with open(folder / "input") as text:
        done = convs2s(folder, "translate --path other --output link", text)
    assert "cannot be written: the command also reads this file" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "translate --path other --output new --report ./new",
        "translate --path other --output new --alignment data/../new",
    ],
)
def test_two_outputs_are_two_files(arguments, folder):
    done = convs2s(folder, arguments)
    assert done.returncode == 2 and "names too: choose two files" in done.stderr
    assert not (folder / "new").exists()


def test_text_in_the_folder_of_an_earlier_preparation(folder):
    """--overwrite would remove it before it is read."""
    text = folder / "out" / "text"
    text.mkdir(parents=True)
    (folder / "out" / "preparation.yaml").touch()
    for language in ("de", "en"):
        (text / f"valid.{language}").write_text("a b\n")
    done = convs2s(
        folder, "prepare --train out/text/valid.de out/text/valid.en --out out --overwrite"
    )
    assert done.returncode == 2 and "(--train) is in a folder of --out" in done.stderr
    assert (text / "valid.de").read_text() == "a b\n"


def test_text_in_the_folder_of_an_experiment(folder):
    text = folder / "out" / "data" / "text"
    text.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            (text / f"{split}.{language}").write_text("a b\n")
    (folder / "file.yaml").write_text(
        "data: {source: de, target: en}\ntrain: {optimizer: adam, max-tokens: 9}\n"
        "systems: {a: {updates: 1, train: {arch: convs2s}}}\n"
    )
    done = convs2s(folder, "experiment file.yaml --text out/data/text --out out")
    assert "in a folder of the output" in done.stderr + done.stdout
    assert (text / "train.de").read_text() == "a b\n"
