"""``convs2s find-lr`` for models of every family and of fairseq: its output, files and errors."""

import json
import os
import re
import subprocess

import pytest

from tests.support.commands import TINY, server

COMMON = ("--optimizer", "adam", "--clip-norm", "1.0", "--max-tokens", "400", "--cpu")
COMMON += ("--num-workers", "0")
SELF = "pos -> repeat(1, res_nd(mh_dot_self_att) -> res_nd(ffl)) -> norm"
MODELS = {
    "convs2s": (*TINY, "--num-workers", "0", "--cpu"),
    "pervasive": (
        *("--arch", "pervasive_iwslt_de_en", "--num-layers", "2", "--kernel-size", "3"),
        *("--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--growth-rate", "8"),
        *COMMON,
        *("--task", "convs2s_translation", "--autocast-dtype", "bfloat16"),
    ),
    "adl": (
        *("--arch", "adl", "--model-dim", "32", "--attention-heads", "4", "--ff-dim", "32"),
        *("--encoder-adl", SELF, "--decoder-adl", f"{SELF} -> res_nd(mh_dot_src_att)"),
        *COMMON,
        *("--task", "convs2s_translation", "--criterion", "convs2s_cross_entropy"),
    ),
    "transformer": (
        *("--arch", "transformer", "--encoder-layers", "1", "--decoder-layers", "1"),
        *("--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "32"),
        *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
        *COMMON,
        *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "400", "--update-freq", "2"),
    ),
}


def find_lr(folder, *arguments, **environment):
    """Run the command in a folder."""
    return subprocess.run(
        [server().programs / "convs2s", "find-lr", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", MODELS)
def test_every_family(name, corpus, tmp_path):
    done = find_lr(
        *(tmp_path, corpus / "bin", "--sweep-updates", "30", "--min-lr", "1e-4", "--max-lr", "0.3"),
        *MODELS[name],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "training loss (bits per token)" in done.stdout
    written = json.loads((tmp_path / "lr.json").read_text(encoding="utf-8"))
    lrs = [update["lr"] for update in written["updates"]]
    assert lrs[0] == pytest.approx(1e-4) and lrs == sorted(lrs) and len(lrs) <= 30
    assert len(lrs) < 30 or lrs[-1] == pytest.approx(0.3)
    assert written["updates"][0]["loss"] > 2 and str(corpus / "bin") in written["arguments"]
    if written["suggestion"] is None:
        assert "There is no suggestion." in done.stdout
    else:
        assert 1e-4 < written["suggestion"] < 0.3
        assert f"Suggestion: --lr {written['suggestion']:g}\n" in done.stdout
        assert "<- suggestion" in done.stdout and "schedule with a warm-up" in done.stdout
    files = {path.name for path in tmp_path.iterdir()}
    assert files in ({"lr.json", "lr.png"}, {"lr.json"})
    assert "lr.png" not in files or done.stdout.endswith("lr.json\nlr.png\n")
    if name == "transformer":
        assert "ignores --lr-scheduler, --warmup-updates.\n" in done.stdout


def test_without_matplotlib(corpus, tmp_path):
    """A list of learning rates is not used, an optimizer without an exploding loss suffices."""
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError\n")
    code = (
        "import sys; sys.path.insert(0, '.'); "
        "from convs2s.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [server().programs / "python", "-c", code, "find-lr", corpus / "bin", *MODELS["convs2s"]]
        + ["--lr", "0.1,0.2", "--sweep-updates", "10", "--max-lr", "0.1", "--output", "plot.svg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ignores --lr.\n" in done.stdout
    assert "plot.svg was not written. Plotting needs matplotlib" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"matplotlib", "plot.json"}


def test_fine_tuning_starts_from_the_checkpoint(corpus, trained, tmp_path):
    checkpoint = trained / "checkpoint_last.pt"
    options = (*MODELS["convs2s"], "--sweep-updates", "10", "--output", "lr.svg")
    done = find_lr(tmp_path, corpus / "bin", *options, "--finetune-from-model", checkpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    updates = json.loads((tmp_path / "lr.json").read_text(encoding="utf-8"))["updates"]
    assert updates[0]["loss"] < 2
    missing = find_lr(tmp_path, corpus / "bin", *options, "--finetune-from-model", "no.pt")
    assert "There is no checkpoint no.pt" in refused(missing)


def without(options, name):
    """Options without one of them and its value."""
    place = options.index(name)
    return (*options[:place], *options[place + 2 :])


ERRORS = {
    "arch": (("--arch", "convs2s_iwslt_de_em"), "nearest: 'convs2s_iwslt_de_en'"),
    "option": (("--no-such-option", "1"), "unrecognized arguments: --no-such-option"),
    "range": (("--min-lr", "0.1", "--max-lr", "0.01"), "--min-lr is 0.1 and --max-lr is 0.01"),
    "subset": (("--train-subset", "nothing"), "The training data cannot be read"),
    "user dir": (("--user-dir", "no/such/folder"), "no folder no/such/folder"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, corpus, tmp_path):
    arguments, message = ERRORS[name]
    assert message in refused(find_lr(tmp_path, corpus / "bin", *MODELS["convs2s"], *arguments))


def test_missing_options(corpus, tmp_path):
    (tmp_path / "text").mkdir()
    options = MODELS["convs2s"]
    for arguments, message in (
        ((corpus / "bin", *without(options, "--optimizer")), "--optimizer is missing"),
        ((corpus / "bin", *without(options, "--arch")), "--arch is missing"),
        ((corpus / "bin", *without(options, "--max-tokens")), "--max-tokens or --batch-size"),
        (options, "The data are missing"),
        (("no/such/data", *options), "There is no folder no/such/data"),
        (("text", *options), "text is not binarized data"),
    ):
        assert message in refused(find_lr(tmp_path, *arguments))


def refused(done):
    """The error message of a command that failed without a traceback and wrote nothing."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (sentence,) = re.findall(r"^convs2s find-lr: error: (.*)", done.stderr, flags=re.MULTILINE)
    return sentence
