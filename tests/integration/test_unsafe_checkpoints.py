"""Checkpoints with code in them, in every command that loads one: refused, and nothing runs."""

import argparse
import os

import pytest
import torch

from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from convs2s_plugin.models import ConvS2SModel
from tests.support.commands import PLUGIN, TASK, refused, run, train_arguments
from tests.support.fconv import FCONV


class Call:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture
def hacked(tmp_path):
    """A folder that must not be made."""
    yield tmp_path / "hacked"
    assert not (tmp_path / "hacked").exists()


def translate(name, corpus, checkpoint, *arguments, compat="1"):
    return refused(
        run(
            name,
            corpus / "bin",
            "--user-dir",
            PLUGIN,
            "--path",
            checkpoint,
            "--cpu",
            "--source-lang",
            "de",
            "--target-lang",
            "en",
            *arguments,
            text="eins\n",
            env={**os.environ, "CONVS2S_COMPAT": compat},
        )
    )


def train(corpus, folder, option, checkpoint):
    options = (*FCONV, option, checkpoint)
    return refused(run("train", *train_arguments(corpus, folder / "new", options=options)))


def command(capsys, *arguments):
    assert convs2s(list(map(str, arguments))) == 2
    return capsys.readouterr().err


def hub(corpus, checkpoint):
    with pytest.raises(UserError) as caught:
        ConvS2SModel.from_pretrained(str(checkpoint.parent), checkpoint.name, str(corpus / "bin"))
    return str(caught.value)


# Commands of fairseq that use nothing of this package.
OF_FAIRSEQ = {
    "generate": lambda c, p, *_: translate("generate", c, p),
    "interactive": lambda c, p, *_: translate("interactive", c, p),
}
WAYS = {
    "generate with our task": lambda c, p, *_: translate("generate", c, p, *TASK),
    "interactive with our task": lambda c, p, *_: translate("interactive", c, p, *TASK),
    "generate with all changes": lambda c, p, *_: translate("generate", c, p, compat="all"),
    "interactive with all changes": lambda c, p, *_: translate("interactive", c, p, compat="all"),
    "validate": lambda c, p, *_: refused(
        run(
            "validate",
            c / "bin",
            "--user-dir",
            PLUGIN,
            "--path",
            p,
            "--cpu",
            *TASK,
            "--max-tokens",
            "400",
        )
    ),
    "from_pretrained": lambda c, p, *_: hub(c, p),
    "translate": lambda c, p, _, capsys: command(
        *(capsys, "translate", "--path", p, "--data", c / "bin", "--raw", "--device", "cpu"),
        *("--input", c / "test.de"),
    ),
    "plot-attention": lambda c, p, folder, capsys: command(
        capsys,
        "plot-attention",
        "--path",
        p,
        "--data",
        c / "bin",
        "--output",
        folder / "picture.png",
        "eins",
    ),
}
WEIGHTS = {
    "--restore-file": lambda c, p, folder, _: train(c, folder, "--restore-file", p),
    "--finetune-from-model": lambda c, p, folder, _: train(c, folder, "--finetune-from-model", p),
    "average": lambda _c, p, folder, capsys: command(
        capsys, "average", "--inputs", p, "--output", folder / "average.pt"
    ),
    "export-onnx": lambda c, p, folder, capsys: command(
        capsys, "export-onnx", p, folder / "onnx", "--data", c / "bin"
    ),
    "export-transformer": lambda _c, p, folder, capsys: command(
        capsys, "export-transformer", p, folder / "transformer.pt"
    ),
}


@pytest.mark.parametrize("way", [*OF_FAIRSEQ, *WAYS, *WEIGHTS])
def test_an_object_is_named_and_not_made(way, corpus, fconv, hacked, tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    content = torch.load(fconv, weights_only=True)
    content["extra_state"]["train_meters"] = Call(hacked)
    torch.save(content, path)
    error = {**OF_FAIRSEQ, **WAYS, **WEIGHTS}[way](corpus, path, tmp_path, capsys)
    assert f"{path} holds an object of posix.mkdir" in error
    assert "weights_only" not in error and "Traceback" not in error


def test_an_object_in_a_language_model(corpus, fconv, trained, hacked, tmp_path):
    path = tmp_path / "language_model.pt"
    torch.save({**torch.load(fconv, weights_only=True), "last_optimizer_state": Call(hacked)}, path)
    last = trained / "checkpoint_last.pt"
    for task in ((), TASK):
        error = translate("generate", corpus, last, "--lm-path", path, *task)
        assert f"{path} holds an object of posix.mkdir" in error and "weights_only" not in error


@pytest.mark.parametrize("way", WAYS)
def test_an_option_is_not_evaluated(way, corpus, fconv, hacked, tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    content = torch.load(fconv, weights_only=True)
    code = f"__import__('os').mkdir('{hacked}') or [(256, 3)]"
    for options in (content.get("args"), content["cfg"] and content["cfg"]["model"]):
        if isinstance(options, argparse.Namespace):
            options.encoder_layers = code
        elif options:
            options["encoder_layers"] = code
    torch.save(content, path)
    error = WAYS[way](corpus, path, tmp_path, capsys)
    assert "__import__" in error and "is not evaluated" in error
    assert "Traceback" not in error
