"""``convs2s clean-checkpoint``: fairseq's own models translate as before."""

import pytest
import torch

from convs2s.cli import main as convs2s
from tests.integration.test_fairseq_generate import generate
from tests.support.adapters import config_with_objects
from tests.support.commands import PLUGIN, fairseq, hypotheses, refused, run, train

# Architecture of fairseq -> options of a small model.
MODELS = {
    "transformer_tiny": ("--encoder-layers", "1", "--decoder-layers", "1"),
    "lstm": (
        "--encoder-embed-dim",
        "16",
        "--decoder-embed-dim",
        "16",
        "--decoder-out-embed-dim",
        "16",
        "--encoder-hidden-size",
        "16",
        "--decoder-hidden-size",
        "16",
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def checkpoint(corpus, tmp_path_factory, request):
    """A checkpoint of one of fairseq's own models, after a few updates."""
    folder = tmp_path_factory.mktemp(request.param)
    options = (
        *("--arch", request.param, *MODELS[request.param]),
        *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-update", "8"),
    )
    train(corpus, folder, "--no-epoch-checkpoints", options=options)
    return folder / "checkpoint_last.pt"


def old_style(checkpoint, target, form):
    """Rewrite a checkpoint as an earlier version of fairseq would have written it."""
    from fairseq.logging.meters import AverageMeter

    old = torch.load(checkpoint, weights_only=True)
    if form == "args":
        # fairseq-train keeps all options of its command line with those of the model.
        old["args"], old["cfg"] = old["cfg"]["model"], None
    else:
        old["cfg"] = config_with_objects(old["cfg"])
    old["extra_state"]["train_meters"] = {"loss": AverageMeter()}
    torch.save(old, target, _use_new_zipfile_serialization=form == "cfg")


@pytest.mark.parametrize("form", ["args", "cfg"])
def test_fairseq_generate_with_a_cleaned_checkpoint(corpus, checkpoint, form, tmp_path):
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    old_style(checkpoint, old, form)
    arguments = (
        *(corpus / "bin", "--user-dir", PLUGIN, "--cpu", "--gen-subset", "test"),
        *("--max-tokens", "200", "--num-workers", "0", "--beam", "2"),
    )
    sentence = refused(run("generate", *arguments, "--path", old))
    assert "is not plain data" in sentence and "`convs2s clean-checkpoint`" in sentence
    assert "convert-fconv" not in sentence and "weights_only" not in sentence
    assert convs2s(["clean-checkpoint", str(old), str(new), "--drop-optimizer"]) == 0
    expected = hypotheses(generate(corpus, checkpoint, "--beam", 2))
    assert expected
    assert hypotheses(fairseq("generate", *arguments, "--path", new)) == expected


def test_a_training_continues_from_a_cleaned_checkpoint(corpus, checkpoint, tmp_path):
    arch = "lstm" if "lstm" in str(checkpoint) else "transformer_tiny"
    folder = tmp_path / "more"
    folder.mkdir()
    assert convs2s(["clean-checkpoint", str(checkpoint), str(folder / "checkpoint_last.pt")]) == 0
    options = (
        *("--arch", arch, *MODELS[arch]),
        *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-update", "12"),
    )
    log = train(corpus, folder, "--no-epoch-checkpoints", options=options)
    assert "Loaded checkpoint" in log and "num_updates: 12" in log
