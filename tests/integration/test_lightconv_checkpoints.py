"""``convs2s convert-lightconv``: converted checkpoints of fairseq translate as before."""

import shutil

import pytest
import torch

from convs2s.cli import main as convs2s
from tests.integration.test_fairseq_generate import generate
from tests.integration.test_fconv_archives import archive, translate
from tests.integration.test_fconv_checkpoints import assert_translates_alike
from tests.support.commands import train

OPTIONS = (
    *("--arch", "lightconv_iwslt_de_en", "--dropout", "0.1", "--share-decoder-input-output-embed"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32", "--encoder-layers", "2"),
    *("--encoder-ffn-embed-dim", "32", "--decoder-ffn-embed-dim", "32", "--decoder-layers", "2"),
    *("--encoder-kernel-size-list", "[3, 7]", "--decoder-kernel-size-list", "[3, 5]"),
    *("--decoder-conv-type", "lightweight", "--encoder-conv-type", "dynamic"),
    *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "4"),
)


@pytest.fixture(scope="module")
def lightconv(corpus, tmp_path_factory):
    """A checkpoint that fairseq trained with its own lightconv."""
    folder = tmp_path_factory.mktemp("lightconv")
    train(corpus, folder, options=OPTIONS)
    return folder / "checkpoint_last.pt"


def test_the_same_translations_and_scores(corpus, lightconv, tmp_path, capsys):
    new = tmp_path / "new.pt"
    assert convs2s(["convert-lightconv", str(lightconv), str(new)]) == 0
    assert "tensors" in capsys.readouterr().out
    assert_translates_alike(corpus, lightconv, new, "--beam", 4, "--nbest", 2)
    assert_translates_alike(corpus, lightconv, new, "--score-reference")


def test_a_bias_that_fairseq_never_sets(corpus, lightconv, tmp_path):
    """Memory that is not set may be anything: neither fairseq's commands nor ours mind."""
    checkpoint = torch.load(lightconv, weights_only=False)
    unused = [name for name in checkpoint["model"] if name.endswith(".conv.conv_bias")]
    assert unused
    for name in unused:
        checkpoint["model"][name].fill_(torch.nan)
    undefined, new = tmp_path / "undefined.pt", tmp_path / "new.pt"
    torch.save(checkpoint, undefined)
    assert convs2s(["convert-lightconv", str(undefined), str(new)]) == 0
    assert_translates_alike(corpus, lightconv, undefined)
    assert_translates_alike(corpus, lightconv, new)


def test_a_released_archive(corpus, lightconv, tmp_path):
    folder = tmp_path / "wmt.de-en.dynamicconv"
    folder.mkdir()
    shutil.copyfile(lightconv, folder / "model.pt")
    for language in ("de", "en"):
        shutil.copyfile(corpus / "bin" / f"dict.{language}.txt", folder / f"dict.{language}.txt")
    packed = archive(folder, tmp_path / "wmt.de-en.dynamicconv.tar.gz")
    new = tmp_path / "new"
    command = ["convert-lightconv", str(packed), str(new), "--tokenizer", "none"]
    assert convs2s(command) == 0
    assert "Written by `convs2s convert-lightconv`" in (new / "preparation.yaml").read_text("utf-8")
    lines = translate([new / "model.pt"], corpus / "test.de", tmp_path / "output")
    found = generate(corpus, lightconv, "--beam", 5).splitlines()
    expected = {int(x[2:].split("\t")[0]): x.split("\t")[2] for x in found if x.startswith("H-")}
    assert lines == [expected[number] for number in range(len(lines))]


def test_training_from_a_converted_checkpoint(corpus, lightconv, tmp_path):
    new = tmp_path / "new.pt"
    assert convs2s(["convert-lightconv", str(lightconv), str(new)]) == 0
    args = vars(torch.load(new, weights_only=True)["args"])
    options = (
        *("--arch", "adl", "--model-dim", "32", "--share-input-output-embed"),
        *("--encoder-adl", args["encoder_adl"], "--decoder-adl", args["decoder_adl"]),
        *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "1"),
    )
    log = train(corpus, tmp_path / "more", "--finetune-from-model", new, options=options)
    assert "Loaded checkpoint" in log and (tmp_path / "more" / "checkpoint_last.pt").exists()


def test_other_models_are_refused(fconv, tmp_path, capsys):
    assert convs2s(["convert-lightconv", str(fconv), str(tmp_path / "new.pt")]) == 2
    error = capsys.readouterr().err
    assert "only translation models of fairseq's lightconv can be converted" in error
    assert not (tmp_path / "new.pt").exists()
