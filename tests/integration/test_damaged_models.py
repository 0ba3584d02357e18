"""Checkpoints with wrong entries, and other files that no command can use: one sentence each."""

import os
import subprocess

import pytest
import torch

from tests.support.commands import PLUGIN, TASK, refused, run, server
from tests.support.translation import DATA, FIXTURES

EMBEDDINGS = "encoder.embed.words.weight"


def with_option(part, name, value):
    def change(checkpoint):
        checkpoint["cfg"][part][name] = value

    return change


def with_weight(name, value):
    def change(checkpoint):
        checkpoint["model"][name] = value

    return change


def with_entry(name, value):
    def change(checkpoint):
        checkpoint[name] = value

    return change


# What is changed in a checkpoint, and what the error says.
DAMAGED = {
    "no weights": (lambda checkpoint: checkpoint.pop("model"), "has no weights"),
    "weights": (with_entry("model", [1]), "has no weights"),
    "no tensor": (with_weight(EMBEDDINGS, 3), f"its weight {EMBEDDINGS} is not a tensor"),
    "no name": (with_weight(5, torch.zeros(2)), "its weight 5 is not a tensor"),
    "number": (with_weight(EMBEDDINGS, torch.tensor(1.0)), "another architecture"),
    "no options": (with_entry("cfg", None), "has no options"),
    "options": (with_entry("cfg", [1]), "has no options of its model"),
    "model": (lambda checkpoint: checkpoint["cfg"].update(model="x"), "no options of its model"),
    "task": (lambda checkpoint: checkpoint["cfg"].update(task=[1]), "no options of its task"),
    "name": (with_option("model", "_name", [1]), "no options of its model"),
    "integer": (with_option("model", "encoder_embed_dim", "x"), "must be an integer"),
    "number option": (with_option("model", "dropout", [1]), "must be a number"),
    "flag": (with_option("model", "share_all_embeddings", "x"), "must be True or False"),
    "language": (with_option("task", "source_lang", "../../de"), "it must be a name"),
    "length": (with_option("task", "max_source_positions", "x"), "must be an integer"),
}


@pytest.fixture(params=DAMAGED)
def damaged(request, tmp_path):
    """A damaged checkpoint, and a part of the error."""
    change, message = DAMAGED[request.param]
    checkpoint = torch.load(FIXTURES / "convs2s.pt", weights_only=True)
    change(checkpoint)
    path = tmp_path / "damaged.pt"
    torch.save(checkpoint, path)
    return path, message


def convs2s(*arguments):
    """The error of a command that failed without a traceback."""
    done = subprocess.run(
        [server().programs / "convs2s", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr[-3000:]
    return done.stderr


def test_translate(damaged):
    path, message = damaged
    error = convs2s("translate", "--path", path, "--data", DATA, "--device", "cpu", "--raw")
    assert message in error


def interactive(*arguments, **options):
    return run(
        "interactive",
        DATA,
        "--user-dir",
        PLUGIN,
        "--cpu",
        "-s",
        "de",
        "-t",
        "en",
        *arguments,
        **options,
    )


@pytest.mark.parametrize(
    ("entry", "value", "message"), [("model", [1], "no weights"), ("cfg", None, "no options")]
)
def test_fairseq_interactive(entry, value, message, tmp_path):
    checkpoint = torch.load(FIXTURES / "convs2s.pt", weights_only=True)
    checkpoint[entry] = value
    torch.save(checkpoint, tmp_path / "damaged.pt")
    # fairseq's own task would raise fairseq's error: no option names a model of this package.
    error = refused(interactive("--path", tmp_path / "damaged.pt", *TASK))
    assert "fairseq-train: it has" in error and message in error


def test_plot_attention(tmp_path):
    checkpoint = torch.load(FIXTURES / "convs2s.pt", weights_only=True)
    checkpoint["cfg"] = None
    torch.save(checkpoint, tmp_path / "damaged.pt")
    given = ("--path", tmp_path / "damaged.pt", "--data", DATA, "--raw", "--output")
    error = convs2s("plot-attention", *given, tmp_path / "a.json", "eins")
    assert "damaged.pt is not a checkpoint of fairseq-train" in error


def test_an_option_that_fairseq_refuses(tmp_path):
    checkpoint = torch.load(FIXTURES / "convs2s.pt", weights_only=True)
    # fairseq checks the options of a model that is not a named architecture.
    checkpoint["cfg"]["model"].update(_name="convs2s", encoder_layers=[[1]])
    torch.save(checkpoint, tmp_path / "damaged.pt")
    error = refused(interactive("--path", tmp_path / "damaged.pt"))
    assert error.startswith("--encoder-layers has a value of another type: ")
    assert error.endswith("If the option is from a checkpoint, the checkpoint is damaged.")


@pytest.mark.parametrize("command", ["average", "quantize", "export-transformer"])
def test_commands_that_read_checkpoints(command, tmp_path):
    path, new = tmp_path / "damaged.pt", tmp_path / "new.pt"
    torch.save({"model": {"weight": 3}, "cfg": {"model": {}, "task": {}}}, path)
    files = ("--inputs", path, "--output", new) if command == "average" else (path, new)
    error = convs2s(command, *files)
    assert "damaged.pt" in error and not new.exists()


def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    error = convs2s("average", "--inputs", tmp_path / "pipe.pt", "--output", tmp_path / "new.pt")
    assert "pipe.pt is not a plain file" in error


def test_input_of_fairseq_interactive(tmp_path):
    model = ("--path", FIXTURES / "convs2s.pt")
    error = refused(interactive(*model, "--input", tmp_path / "missing"))
    assert error == f"There is no file {tmp_path}/missing (--input)."
    error = refused(interactive(*model, "--input", tmp_path))
    assert error == f"{tmp_path} cannot be read (--input): Is a directory."


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "random"])
def test_a_model_of_sentencepiece(kind, tmp_path):
    pytest.importorskip("sentencepiece")
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else bytes(range(256)))
    model = ("--path", FIXTURES / "convs2s.pt", "--bpe", "sentencepiece")
    error = refused(interactive(*model, "--sentencepiece-model", path))
    assert f"{path} cannot be read as a model of sentencepiece" in error


@pytest.mark.parametrize(
    ("method", "option"),
    [("sentencepiece", "--sentencepiece-model"), ("subword_nmt", "--bpe-codes")],
)
def test_sub_words_without_their_model(method, option):
    error = refused(interactive("--path", FIXTURES / "convs2s.pt", "--bpe", method))
    assert error.startswith(f"--bpe {method} needs its") and f"{option} FILE" in error


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    ("arguments", "content", "message"),
    [
        ("plot lengths FILE", DEEP, "has no BLEU by length"),
        ("plot sweep FILE --option dropout", DEEP, "has no results"),
        (
            "plot sweep FILE --option a",
            '{"results": [{"options": {"a": 1}}], "systems": {}}',
            "has no results",
        ),
        ("experiment FILE", DEEP, "is not valid YAML"),
        ("translate --path x --preparation FILE", DEEP, "is not valid YAML"),
        (
            "translate --path x --preparation FILE",
            "{format: 1, tokenizer: [1]}",
            "its tokenizer is '[1]'",
        ),
    ],
)
def test_other_files(arguments, content, message, tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(content)
    checkpoint = str(FIXTURES / "convs2s.pt")
    words = {"FILE": str(path), "x": checkpoint}
    assert message in convs2s(*(words.get(word, word) for word in arguments.split()))
