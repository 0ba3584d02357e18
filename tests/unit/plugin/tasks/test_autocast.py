"""Weights cast in advance give the logits of autocast; CPUs without half precision fall back."""

import logging
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

from convs2s.translation import precision as precision_module
from convs2s.translation.precision import Precision, is_supported
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.adapters import dictionary, make, tiny_fairseq_transformer
from tests.support.batches import random_batch
from tests.support.families import MODELS

MAKERS = {
    **{name: lambda name=name: make(name) for name in MODELS},
    "transformer": tiny_fairseq_transformer,
}


@pytest.mark.parametrize("name", MAKERS)
@torch.no_grad()
def test_weights_cast_in_advance_equal_autocast(name):
    model, batch = MAKERS[name]().eval(), random_batch([(5, 7), (3, 4)])
    precision = Precision("bfloat16")
    with precision.autocast(model):
        expected, _ = model(**batch["net_input"])
    if name.startswith("convs2s"):
        model.make_generation_fast_()
    precision.prepare_(model)
    types = {p.dtype for p in model.parameters()}
    assert types == {torch.float32, torch.bfloat16}
    with precision.autocast(model):
        scores, _ = model(**batch["net_input"])
    assert scores.dtype == torch.bfloat16
    # Embeddings that are also the weights of the output layer are rounded too.
    difference = (scores.float() - expected.float()).abs()
    assert difference.max() < 0.1 * expected.float().std()


@torch.no_grad()
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_task_computes_in_single_precision_where_half_precision_is_emulated(
    monkeypatch, caplog, dtype
):
    monkeypatch.setattr(precision_module, "is_supported", lambda *_: False)
    model, batch = make("convs2s").eval(), random_batch([(5, 7), (3, 4)])["net_input"]
    expected, _ = model(**batch)
    config = ConvS2STranslationConfig(autocast_dtype=dtype)
    task = ConvS2STranslationTask(config, dictionary(), dictionary())
    with caplog.at_level(logging.WARNING):
        task.build_generator([model], Namespace(beam=2))
        task.precision.prepare_(model)
        for _ in range(2):
            with task.precision.autocast(model):
                found, _ = model(**batch)
    assert torch.equal(found, expected)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    (message,) = caplog.messages
    assert message.startswith(f"--autocast-dtype {dtype}: this CPU has no instructions for {dtype}")
    assert "computes in single precision" in message


@torch.no_grad()
def test_where_half_precision_is_supported_the_task_uses_it(monkeypatch, caplog):
    monkeypatch.setattr(precision_module, "is_supported", lambda *_: True)
    model, batch = make("convs2s").eval(), random_batch([(5, 7), (3, 4)])["net_input"]
    config = ConvS2STranslationConfig(autocast_dtype="bfloat16")
    task = ConvS2STranslationTask(config, dictionary(), dictionary())
    with task.precision.autocast(model):
        assert model(**batch)[0].dtype == torch.bfloat16
    assert not caplog.messages


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_supported(dtype, monkeypatch):
    is_supported_now = is_supported.__wrapped__
    assert is_supported_now(dtype, torch.device("cuda"))
    for found in (True, False):
        operations = SimpleNamespace(
            _is_mkldnn_bf16_supported=lambda found=found: found,
            _is_mkldnn_fp16_supported=lambda found=found: found,
        )
        monkeypatch.setattr(torch.ops, "mkldnn", operations)
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
        assert is_supported_now(dtype, torch.device("cpu")) == found
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        assert not is_supported_now(dtype, torch.device("cpu"))
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    assert is_supported_now(dtype, torch.device("cpu"))
