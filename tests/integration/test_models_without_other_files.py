"""A trained model is read from its checkpoint alone, whatever files its training began with."""

import os
from argparse import Namespace

import pytest
import torch

from convs2s.cli.plugin import load_model
from convs2s.common.errors import UserError
from convs2s.translation import Translator
from tests.integration.test_damaged_models import convs2s, interactive
from tests.support.commands import NEEDS_FAIRSEQ, PLUGIN, TASK, fairseq, hypotheses, refused
from tests.support.translation import DATA, FIXTURES, LINES, translate
from tests.unit.cli.test_plot_attention import FAMILIES, make_checkpoint

SIDES = ("encoder", "decoder")
# None of these is read: a pipe would be waited for, a missing file refused.
FILES = ("pipe", "missing")
SIZES = dict(encoder_embed_dim=8, decoder_embed_dim=8)
OF_FAIRSEQ = {
    "transformer": FAMILIES["transformer"],
    "lstm": {**SIZES, "encoder_hidden_size": 8, "decoder_hidden_size": 8},
    "fconv": {
        **SIZES,
        "decoder_out_embed_dim": 8,
        "encoder_layers": "[(8, 3)]",
        "decoder_layers": "[(8, 3)]",
    },
}


@pytest.fixture(params=FILES)
def file(request, tmp_path):
    path = tmp_path / request.param
    if request.param == "pipe":
        os.mkfifo(path)
    return path


def naming(path, new, **options):
    """A copy of a checkpoint whose model has other options."""
    checkpoint = torch.load(path, weights_only=True)
    model = checkpoint["cfg"]["model"]
    (vars(model) if isinstance(model, Namespace) else model).update(options)
    torch.save(checkpoint, new)
    return new


def with_embeddings(path, new, file):
    return naming(path, new, **{f"{side}_embed_path": str(file) for side in SIDES})


@pytest.mark.parametrize("name", ["convs2s", "adl", "pervasive"])
def test_translate(name, file, tmp_path):
    path = with_embeddings(FIXTURES / f"{name}.pt", tmp_path / "model.pt", file)
    expected = translate(FIXTURES / f"{name}.pt", LINES, tmp_path)
    assert translate(path, LINES, tmp_path) == expected


@NEEDS_FAIRSEQ
@pytest.mark.parametrize("task", [(), TASK])
def test_programs_of_fairseq(task, file, corpus, trained, tmp_path):
    good = trained / "checkpoint_last.pt"
    path = with_embeddings(good, tmp_path / "model.pt", file)
    given = (corpus / "bin", "--user-dir", PLUGIN, "--cpu", "--path")
    options = (*task, "--max-tokens", "200", "--num-workers", "0")
    found, expected = (
        hypotheses(fairseq("generate", *given, model, *options, timeout=120))
        for model in (path, good)
    )
    assert found == expected and len(found) == 24
    fairseq("validate", *given, path, *options, "--valid-subset", "test", timeout=120)
    assert "H-0" in fairseq("interactive", *given, path, *task, text="eins\n", timeout=120)


@NEEDS_FAIRSEQ
def test_from_pretrained(file, tmp_path):
    from convs2s_plugin.hub import from_pretrained

    path = with_embeddings(FIXTURES / "convs2s.pt", tmp_path / "model.pt", file)
    hub = from_pretrained(path, data_name_or_path=str(DATA))
    assert hub.translate(LINES) == translate(FIXTURES / "convs2s.pt", LINES, tmp_path)


@NEEDS_FAIRSEQ
@pytest.mark.parametrize("arch", OF_FAIRSEQ)
def test_models_of_fairseq(arch, file, tmp_path):
    _, path, _, data = make_checkpoint(tmp_path / "model", arch, OF_FAIRSEQ[arch])
    expected = Translator(path, data=data, load=load_model, device="cpu").translate(["ein zwei"])
    other = with_embeddings(path, tmp_path / "other.pt", file)
    found = Translator(other, data=data, load=load_model, device="cpu").translate(["ein zwei"])
    assert found == expected


@pytest.mark.parametrize("side", SIDES)
def test_layers_in_a_file(side, tmp_path):
    """Training writes them into the checkpoint."""
    (tmp_path / "layers.adl").write_text("learn_pos")
    options = {f"{side}_adl": f"@{tmp_path}/layers.adl -> linear(16)"}
    path = naming(FIXTURES / "adl.pt", tmp_path / "model.pt", **options)
    said = f"{path} does not have the layers of its model: --{side}-adl is @"
    with pytest.raises(UserError, match=said):
        Translator(path, data=DATA)
    for command in ("quantize", "export-transformer"):
        assert said in convs2s(command, path, tmp_path / "new.pt")


@NEEDS_FAIRSEQ
def test_layers_in_a_file_under_fairseq(tmp_path):
    (tmp_path / "layers.adl").write_text("learn_pos")
    options = {"encoder_adl": f"@{tmp_path}/layers.adl"}
    path = naming(FIXTURES / "adl.pt", tmp_path / "model.pt", **options)
    assert "does not have the layers of its model" in refused(interactive("--path", path))
