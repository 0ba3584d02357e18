"""``convs2s train``: from prepared data to a model, interrupted or not."""

import json
import math
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from convs2s.checkpoints.averaging import average
from convs2s.checkpoints.files import load_checkpoint
from convs2s.cli import main as convs2s
from convs2s.common.locks import lock_folder, locked_file, release
from tests.support.commands import NEEDS_FAIRSEQ, TINY, assert_same_weights, run, server

LAYER = """
from torch import nn
from convs2s.models.adl import POSITION, register_layer

@register_layer("mine", "nothing", reach=POSITION)
class Mine(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, x, context):
        return x
"""
# Without "--arch", which is an option of the command.
OPTIONS = (*TINY[2:], "--batch-size", "8", "--cpu", "--num-workers", "0")


def command(*arguments):
    """In a new interpreter, which gets the signals that are sent to it."""
    return [sys.executable, "-m", "convs2s", "train", *map(str, arguments)]


def quick_command(*arguments):
    """In a fork of the server."""
    return [server().programs / "convs2s", "train", *map(str, arguments)]


def train(*arguments, code=0, start=quick_command):
    done = subprocess.run(start(*arguments), capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    arguments = (corpus / "bin", "--save-dir", folder, "--epochs", "4", *OPTIONS)
    return folder, train(*arguments, start=command)


def test_a_row_for_each_validation_and_the_next_command(trained):
    folder, done = trained
    rows = re.findall(
        r"^ +(\d+) +(\d+) +[\d.]+ +[\d.]+ +[\d.-]+ +[\d.]+ +[\d.-]+$", done.stderr, re.M
    )
    assert rows == [("1", "30"), ("2", "60"), ("3", "90"), ("4", "120")]
    # The last one says that no time is left.
    assert done.stderr.rstrip().endswith(" 0.0")
    assert "validation loss" in done.stderr and "INFO" not in done.stderr
    assert done.stdout.endswith(f"convs2s translate --path {folder / 'average.pt'} --input FILE\n")


def test_the_model_is_the_average_of_the_last_eighth(trained):
    folder, _ = trained
    found = load_checkpoint(str(folder / "average.pt"))["model"]
    inputs = [str(folder / "checkpoint_last.pt")]
    expected = average(inputs)["model"]
    assert all(found[name].equal(expected[name]) for name in expected)


@NEEDS_FAIRSEQ
def test_bleu_of_a_validation_is_that_of_the_text(tmp_path, capsys):
    """The Moses tokenizer marks where its detokenizer would set no space, or another one."""
    pytest.importorskip("sacremoses")
    # Validation has no word that training does not have: an unknown one is no text.
    lines = {"de": "Um {0}:{1} Uhr 10 % : so", "en": "At {1}:{0}, 10 % of a@@ </s> : so"}
    for language, line in lines.items():
        text = "".join(f"{line.format(n % 16, n // 16)}\n" for n in range(240))
        (tmp_path / f"a.{language}").write_text(text, encoding="utf-8")
    texts, out = [str(tmp_path / f"a.{language}") for language in lines], tmp_path / "out"
    assert convs2s(["prepare", "--train", *texts, "--out", str(out)]) == 0
    train(out, "--epochs", "8", "--autocast-dtype", "none", *OPTIONS)
    log = (out / "checkpoints" / "train.log").read_text(encoding="utf-8")
    *_, validated = re.findall(r'"valid_bleu": "([\d.]+)"', log)
    capsys.readouterr()
    source, references = (f"{out}/text/valid.{language}" for language in lines)
    command = ["evaluate", str(out / "checkpoints" / "checkpoint_last.pt"), "--beam", "1"]
    command += ["--source", source, "--references", references, "--metrics", "bleu", "--score-only"]
    assert convs2s(command) == 0
    found = float(capsys.readouterr().out)
    assert found > 20 and found == pytest.approx(float(validated), abs=0.006)


def test_a_training_that_has_ended_says_so(corpus, trained):
    folder, done = trained
    again = train(corpus / "bin", "--save-dir", folder, "--epochs", "4", *OPTIONS)
    assert again.returncode == 0 and again.stdout == done.stdout
    assert "Nothing was left to train" in again.stderr
    assert "Nothing was left to train" not in done.stderr


def test_an_interrupted_training_goes_on_to_the_same_weights(corpus, trained, tmp_path):
    arguments = (corpus / "bin", "--save-dir", tmp_path, "--epochs", "4", *OPTIONS)
    process = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True)
    log = tmp_path / "train.log"
    deadline = time.monotonic() + 120
    while not (log.exists() and '"num_updates": "20"' in log.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and "done training" not in log.read_text()
    assert errors.endswith("Interrupted. The same command continues from here.\n")
    state = load_checkpoint(str(tmp_path / "checkpoint_last.pt"))
    assert 20 <= state["optimizer_history"][-1]["num_updates"] < 120
    assert not (tmp_path / "average.pt").exists()
    train(*arguments)
    assert_same_weights(
        tmp_path / "checkpoint_last.pt", trained[0] / "checkpoint_last.pt", atol=0, rtol=0
    )


def test_interrupted_before_the_first_update(corpus, tmp_path):
    process = subprocess.Popen(
        command(corpus / "bin", "--save-dir", tmp_path, *OPTIONS), stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "train.log").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.endswith("Interrupted. Nothing was trained yet.\n")


def test_minutes(corpus, tmp_path):
    done = train(corpus / "bin", "--save-dir", tmp_path, "--minutes", "0.02", *OPTIONS)
    assert (tmp_path / "average.pt").exists()
    assert "0.02 minutes" in done.stderr


def test_adl(corpus, tmp_path):
    adl = ("--adl", "pos -> res_nd(cnn(glu))", "pos -> res_nd(rnn) -> res_nd(dot_src_att)")
    sizes = ("--model-dim", "32", "--ff-dim", "32", "--attention-heads", "2")
    train(corpus / "bin", "--save-dir", tmp_path, "--epochs", "1", *adl, *sizes)
    options = load_checkpoint(str(tmp_path / "average.pt"))["cfg"]["model"]
    assert options["encoder_adl"] == adl[1] and options["model_dim"] == 32


@pytest.mark.parametrize(
    "definitions, options",
    [
        # The recipe for little data has 128 channels.
        (("res_nd(bi(ssru(64))) -> norm", "res_nd(ssru) -> mlp_att"), ()),
        (("cnn(512,3,relu)", "mh_dot_att"), ("--adl-dialect", "sockeye")),
        (("pos -> mine", "mlp_att"), ("--user-dir", "{tmp_path}/own_layers")),
    ],
)
def test_definitions_are_checked_as_they_are_trained(corpus, tmp_path, definitions, options):
    package = tmp_path / "own_layers"
    package.mkdir()
    (package / "__init__.py").write_text(LAYER)
    options = [option.format(tmp_path=tmp_path) for option in options]
    folder = ("--save-dir", tmp_path / "new", "--print")
    done = train(corpus / "bin", *folder, "--adl", *definitions, *options, start=command)
    assert "--encoder-adl" in done.stdout
    if options[:1] != ["--user-dir"]:
        other = ("--model-dim", "64") if not options else ("--adl-dialect", "paper")
        done = train(corpus / "bin", *folder, "--adl", *definitions, *other, code=2)
        assert "--encoder-adl, line 1, column " in done.stderr


def test_another_training_begins_with_a_model(corpus, trained, tmp_path):
    model = trained[0] / "average.pt"
    start = ("--finetune-from-model", model, "--save-dir", tmp_path)
    # Steps that change nothing: the weights of the end are those of the beginning.
    few = ("--epochs", "1", "--lr", "1e-12", "--batch-size", "60", "--cpu")
    train(corpus / "bin", *start, *few)
    assert_same_weights(tmp_path / "average.pt", model, atol=1e-6, rtol=0)
    printed = train(corpus / "bin", *start, "--print").stdout
    assert "--encoder-layers '[(32, 3)] * 2'" in printed and "--dropout 0.1" in printed
    # A quarter of the learning rate, and a tenth of the epochs.
    plain = train(corpus / "bin", "--save-dir", tmp_path, "--print").stdout
    rates, epochs = (
        [float(re.search(rf"--{option} (\S+)", text)[1]) for text in (printed, plain)]
        for option in ("lr", "max-epoch")
    )
    assert rates[0] == rates[1] / 4 and epochs[0] == math.ceil(epochs[1] / 10)


def test_what_no_training_can_begin_with(corpus, trained, tmp_path, capsys):
    int8 = tmp_path / "int8.pt"
    assert convs2s(["quantize", str(trained[0] / "average.pt"), str(int8)]) == 0
    state = load_checkpoint(str(trained[0] / "average.pt"))
    state["cfg"]["model"]["_name"] = "transformer"
    torch.save(state, tmp_path / "other.pt")
    model = trained[0] / "average.pt"
    for arguments, words in (
        ((int8,), "int8.pt has weights in 8 bits"),
        ((tmp_path / "other.pt",), "other.pt has the architecture transformer, which is none of"),
        ((tmp_path / "no.pt",), "no.pt"),
        ((model, "--arch", "convs2s_iwslt_de_en"), "has an architecture of its own: omit --arch"),
        ((model, "--adl", "cnn", "rnn"), "has an architecture of its own: omit --adl"),
    ):
        given = ("--save-dir", tmp_path / "new", "--finetune-from-model", *arguments)
        done = train(corpus / "bin", *given, code=2)
        assert words in done.stderr and len(done.stderr.splitlines()) < 6
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--arch", "convs2s_iwslt_deen"), "did you mean 'convs2s_iwslt_de_en'"),
        (("--arch", "trasformer"), "did you mean 'transformer'"),
        (("--drpout", "0.1"), "did you mean '--dropout'"),
        (("--adl", "cn(glu)", "rnn"), "did you mean 'cnn'"),
        (("--epochs", "0"), "--epochs is 0"),
        (("--minutes", "0"), "--minutes is 0"),
        (("--minutes", "1", "--epochs", "1"), "both end"),
        (("--arch", "adl", "--adl", "rnn", "rnn"), "one of them"),
        (("--lr", "x"), "argument --lr"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(corpus, tmp_path, arguments, words):
    done = train(corpus / "bin", "--save-dir", tmp_path / "new", *arguments, code=2)
    lines = done.stderr.splitlines()
    assert any(words in line and len(line) < 500 for line in lines)
    assert "convs2s train: error: " in done.stderr and len(lines) < 6


def test_another_training_in_the_folder_is_refused(corpus, trained, tmp_path):
    folder, _ = trained
    done = train(
        corpus / "bin", "--save-dir", folder, "--epochs", "4", *OPTIONS, "--lr", "0.5", code=2
    )
    assert "--lr 0.01, but now it is 0.5" in done.stderr
    (tmp_path / "checkpoint_last.pt").write_bytes(b"")
    done = train(corpus / "bin", "--save-dir", tmp_path, code=2)
    assert "did not start" in done.stderr


def test_a_misspelled_option_is_no_other_training(corpus, trained):
    arguments = (corpus / "bin", "--save-dir", trained[0], *OPTIONS, "--droput", "0.2")
    for more in ((), ("--print",)):
        done = train(*arguments, *more, code=2)
        assert "--droput: " in done.stderr and "did you mean 'dropout'?" in done.stderr
        assert done.stdout == ""


def test_a_corrected_command_may_follow_one_that_failed(corpus, tmp_path):
    train(corpus / "bin", "--save-dir", tmp_path, "--lr", "x", code=2)
    train(corpus / "bin", "--save-dir", tmp_path, "--epochs", "1", *OPTIONS)
    assert json.loads((tmp_path / "training.json").read_text())["options"]["lr"] == "0.01"


def test_fairseq_train_names_the_nearest_option_in_one_line(corpus):
    done = run(
        "train", corpus / "bin", "--user-dir", "convs2s_plugin", "--arch", "convs2s_iwslt_deen"
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "there is no 'convs2s_iwslt_deen' (did you mean 'convs2s_iwslt_de_en'?)"
    )
    assert len(done.stderr.splitlines()) < 3


@pytest.mark.parametrize("own", [True, False])
def test_another_training_in_the_folder(corpus, tmp_path, own):
    """Nothing of it is removed, whether ``convs2s train`` or ``fairseq-train`` has started it."""
    (tmp_path / "average.pt").write_text("model")
    (tmp_path / "training.json").write_text("{}")
    if own:
        with locked_file(str(tmp_path / "lock"), ""):
            done = train(corpus / "bin", "--save-dir", tmp_path, *OPTIONS, code=2)
    else:
        descriptor = lock_folder(str(tmp_path), "")
        done = train(corpus / "bin", "--save-dir", tmp_path, *OPTIONS, code=2)
        release(descriptor)
    assert f"Another training run saves its checkpoints in {tmp_path}: wait" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"average.pt", "training.json", "lock"}
    assert (tmp_path / "average.pt").read_text() == "model"
