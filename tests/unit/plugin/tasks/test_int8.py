"""What ``--int8`` quantizes, where it falls back, and what it refuses."""

import logging

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.translation import precision as precision_module
from convs2s.translation.precision import Precision
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.adapters import dictionary, make, tiny_fairseq_transformer
from tests.support.batches import random_batch


def option(wanted=True, autocast="none"):
    return Precision(autocast, wanted)


def test_only_if_it_is_wanted():
    model = make("convs2s")
    option(wanted=False).prepare_(model)
    assert not model.quantized
    if precision_module.is_int8_supported():
        option().prepare_(model)
        assert model.quantized


@torch.no_grad()
def test_without_the_instructions_it_says_so_once_and_computes_in_single_precision(
    monkeypatch, caplog
):
    monkeypatch.setattr(precision_module, "is_int8_supported", lambda: False)
    monkeypatch.setattr("convs2s.nn.int8.is_supported", lambda: False)
    batch, wanted = random_batch([(5, 7), (3, 4)])["net_input"], option()
    single = make("convs2s")
    expected, _ = single(**batch)
    loaded = make("convs2s")
    loaded.quantize_()
    with caplog.at_level(logging.WARNING):
        option(wanted=False).prepare_(loaded)
        assert not caplog.messages
        wanted.prepare_(single)
        wanted.prepare_(make("convs2s"))
    (message,) = caplog.messages
    assert "neither the VNNI instructions of AVX-512 nor AMX" in message
    assert "single precision instead of int8" in message
    assert not single.quantized and torch.equal(single(**batch)[0], expected)
    assert (loaded(**batch)[0] - expected).abs().max() < 0.2 * expected.std()
    assert any(p.shape == (48, 48) for p in loaded.parameters())


def test_models_on_a_gpu_are_left_alone():
    assert "on a GPU" in precision_module._unsupported_on(torch.device("cuda"))


@pytest.mark.parametrize("half", ["--autocast-dtype", "--fp16", "checkpoint"])
def test_half_precision_is_refused(half):
    model = make("adl-transformer")
    wanted = option(half != "checkpoint", "float16" if half == "--fp16" else "bfloat16")
    if half == "--fp16":
        model, wanted = model.half(), option()
    if half == "checkpoint":
        model.quantize_()
    with pytest.raises(UserError, match="cannot be combined with half precision"):
        wanted.prepare_(model)


def test_models_of_fairseq_are_refused():
    with pytest.raises(UserError, match="needs a model of this package, but TransformerModel"):
        option().prepare_(tiny_fairseq_transformer())


def test_training_is_refused():
    task = ConvS2STranslationTask(ConvS2STranslationConfig(int8=True), dictionary(), dictionary())
    with pytest.raises(UserError, match="--int8 is for generation"):
        task.build_criterion(None)
