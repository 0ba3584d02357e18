"""Layers in one graph of ``torch.compile``, in training: outputs and gradients stay the same."""

import pytest
import torch

from tests.support.batches import random_batch
from tests.support.families import build

LAYERS = {
    "attention": ["mh_dot_self_att(pos=rope, qk_norm=true)", "dot_self_att(window=2, pos=alibi)"],
    "convolutions": ["cnn", "light_conv(h=2)", "dynamic_conv(h=2)", "ffl(v=swiglu)"],
    "recurrences": ["qrnn", "ssru", "min_gru", "min_lstm", "rg_lru"],
    "linear attention": ["retention", "gla", "mamba2"],
    "averages": ["ema", "mega_self_att", "sum(rms_norm, ema)"],
}


@pytest.mark.parametrize("kind", LAYERS)
def test_one_graph(kind):
    torch._dynamo.reset()
    layers = " -> ".join(f"res_nd({layer})" for layer in LAYERS[kind])
    network = build(
        "adl",
        encoder_adl=f"pos -> {layers}",
        decoder_adl=f"pos -> {layers} -> mh_dot_src_att",
        model_dim=8,
        attention_heads=2,
    ).train()
    inputs = random_batch([(7, 5), (3, 9), (4, 2)])["net_input"]
    tokens = inputs["src_tokens"], inputs["prev_output_tokens"]
    found = []
    for model in (network, torch.compile(network, backend="eager", fullgraph=True)):
        network.zero_grad()
        logits, *_ = model(*tokens)
        logits.square().sum().backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters()}
        found.append((logits.detach(), gradients))
    (plain, expected), (compiled, gradients) = found
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-5)
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-3, atol=1e-4, msg=name)
