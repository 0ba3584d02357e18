"""Every model on a GPU: equal to the CPU, in half precision, and in fairseq's commands."""

from argparse import Namespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from convs2s_plugin.criterions import ConvS2SCrossEntropy
from tests.support.adapters import dictionary, make
from tests.support.batches import random_batch
from tests.support.commands import PLUGIN, TINY, fairseq, hypotheses
from tests.support.families import MODELS, NAMED

if not torch.cuda.is_available():
    pytest.skip("there is no GPU here", allow_module_level=True)

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 2), (1, 1)]


@pytest.fixture(autouse=True)
def exact():
    """Let cuDNN compute in single precision, not in TF32."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def on_gpu(batch):
    """The batch with all tensors on the GPU."""
    if isinstance(batch, dict):
        return {key: on_gpu(value) for key, value in batch.items()}
    return batch.cuda() if torch.is_tensor(batch) else batch


def step(model, batch, dtype=None):
    """The loss per token, and all gradients as one vector on the CPU in double precision."""
    criterion = ConvS2SCrossEntropy(Namespace(target_dictionary=dictionary()), False, 0.1)
    model.train().zero_grad()
    enabled = dtype is not None
    with torch.autocast("cuda", dtype or torch.float16, enabled=enabled):
        loss, size, _ = criterion(model, batch)
    loss.backward()
    flat = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return loss.item() / size, torch.cat(flat).double().cpu()


@pytest.mark.parametrize("name", [*MODELS, *NAMED])
def test_loss_and_gradients_are_those_of_the_cpu(name):
    batch = random_batch(LENGTHS)
    loss, gradient = step(make(name), batch)
    ours, on_device = step(make(name).cuda(), on_gpu(batch))
    assert ours == pytest.approx(loss, rel=1e-5)
    assert (on_device - gradient).norm() < 2e-4 * gradient.norm()


@EVERY_MODEL
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(name, dtype):
    batch = on_gpu(random_batch(LENGTHS))
    loss, gradient = step(make(name).cuda(), batch)
    ours, half = step(make(name).cuda(), batch, dtype)
    assert ours == pytest.approx(loss, rel=2e-2)
    assert (half - gradient).norm() < (0.05 if dtype == torch.float16 else 0.3) * gradient.norm()


@EVERY_MODEL
def test_half_precision_throughout(name):
    """fairseq's --fp16: weights in half precision."""
    batch = on_gpu(random_batch(LENGTHS))
    loss, gradient = step(make(name).cuda(), batch)
    ours, half = step(make(name).cuda().half(), batch)
    assert ours == pytest.approx(loss, rel=2e-2)
    assert (half - gradient).norm() < 0.1 * gradient.norm()


@EVERY_MODEL
@torch.no_grad()
def test_a_beam_search_finds_what_it_finds_on_the_cpu(name):
    batch = random_batch(LENGTHS)
    found = []
    for model, sample in ((make(name), batch), (make(name).cuda(), on_gpu(batch))):
        model.make_generation_fast_(need_attn=False)
        search = SequenceGenerator([model], dictionary(), beam_size=3, max_len_b=8)
        found.append(search.generate([model], sample))
    for ours, theirs in zip(*found):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        for mine, other in zip(ours, theirs):
            torch.testing.assert_close(mine["score"], other["score"].cpu(), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(
                mine["attention"], other["attention"].cpu(), rtol=1e-3, atol=1e-4
            )


OURS = ("--task", "convs2s_translation", "--criterion", "convs2s_cross_entropy")
ADL = (
    *("--arch", "adl_rnn_self_att", "--model-dim", "32", "--attention-heads", "2"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
)
PERVASIVE = (
    *("--arch", "pervasive_iwslt_de_en", "--num-layers", "2", "--growth-rate", "8"),
    *("--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--kernel-size", "3"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
)
PRECISIONS = {
    "single": (),
    "fp16": ("--fp16",),
    "memory-efficient-fp16": ("--memory-efficient-fp16",),
    "amp": ("--amp",),
    "bf16": ("--bf16",),
    "autocast-fp16": ("--autocast-dtype", "float16"),
    "autocast-bf16": ("--autocast-dtype", "bfloat16"),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("options", [TINY, ADL, PERVASIVE], ids=["convs2s", "adl", "pervasive"])
def test_training_and_translating_in_every_precision(corpus, tmp_path, options, precision):
    log = fairseq(
        "train",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--save-dir",
        tmp_path,
        *OURS,
        *options,
        "--max-epoch",
        "3",
        "--num-workers",
        "0",
        "--log-format",
        "simple",
        *PRECISIONS[precision],
    )
    assert "epoch 003 | valid on" in log and "loss nan" not in log
    half = ("--fp16",) if "fp16" in precision else ()
    printed = fairseq(
        "generate",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        tmp_path / "checkpoint_last.pt",
        "--beam",
        "2",
        "--max-tokens",
        "200",
        "--print-alignment",
        *half,
    )
    assert sorted(hypotheses(printed)) == list(range(24))
