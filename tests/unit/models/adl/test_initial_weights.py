"""The initial weights of the layers beyond the paper, against those of their sources."""

import math

import pytest
import torch

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.layers.chains import LayerChain

C, HEADS = 512, 8
# The gain of RetNet's and GLA's projections.
GAIN = 2**-2.5


def xavier(inputs, outputs, gain=1.0):
    """The bound of Glorot and Bengio's uniform weights."""
    return "uniform", gain * math.sqrt(6 / (inputs + outputs))


def around(std):
    return "normal", std


ONES, ZEROS = ("constant", 1.0), ("constant", 0.0)
# torch's default for a linear map without bias, and for a convolution of 4 positions per channel.
DEFAULT, DEPTHWISE = (("uniform", 1 / math.sqrt(fan_in)) for fan_in in (C, 4))
MEGA = {
    **{f"{name}.weight": around(0.02) for name in ("gates", "values", "queries", "keys_values")},
    **{f"{name}.bias": ZEROS for name in ("gates", "values", "queries", "keys_values", "output")},
    "output.weight": around(0.02),
    "scales": around(0.02),
    "shifts": ZEROS,
    "biases.weight": around(0.02),
    "averages.weight": around(1.0),
}
LAYERS = {
    # A weight H x 1 x k of a grouped convolution
    "light_conv(k=31)": {"scores": xavier(31, HEADS * 31)},
    "dynamic_conv(k=31)": {"scores.weight": xavier(C, HEADS * 31)},
    "qrnn(k=3)": {"linear.weight": xavier(3 * C, 3 * C), "linear.bias": ZEROS},
    "ssru": {
        "candidate.weight": xavier(C, C),
        "forget.weight": xavier(C, C),
        "forget.bias": ZEROS,
    },
    "min_gru": {"linear.weight": xavier(C, C), "linear.bias": ZEROS},
    "min_lstm": {"linear.weight": xavier(C, C), "linear.bias": ZEROS},
    "rg_lru": {"linear.weight": xavier(C, C), "linear.bias": ZEROS},
    "ema(16)": {"alpha": around(0.2), "delta": around(0.2), "eta": around(0.25)},
    "retention": {
        # Queries, keys, values and gates
        "projections.weight": [
            (rows, xavier(C, rows, GAIN)) for rows in (C, C, 2 * C, 2 * C)
        ],
        "output.weight": xavier(2 * C, C),
    },
    "gla": {
        "projections.weight": [
            (rows, xavier(C, rows, GAIN)) for rows in (C // 2, C // 2, C, C, 16)
        ],
        "gates.weight": xavier(16, C // 2, GAIN),
        "gates.bias": ZEROS,
        "norm_weight": ONES,
        "output.weight": xavier(C, C, GAIN),
    },
    "mamba2(k=4)": {
        "projections.weight": DEFAULT,
        "convolution": DEPTHWISE,
        "convolution_bias": DEPTHWISE,
        "skip": ONES,
        "norm_weight": ONES,
        "output.weight": ("uniform", 1 / math.sqrt(2 * C)),
    },
    "rms_norm": {"norm.weight": ONES},
    "mega_self_att": MEGA,
    "mega_src_att": MEGA,
}  # fmt: skip
# Checked below, by what they stand for.
DERIVED = ("beta", "decay", "dt_bias", "log_a")


def built(text):
    in_decoder = "src_att" in text
    sides = ("id", text) if in_decoder else (text, "id")
    spec = resolve(*sides, Settings(model_dim=C, attention_heads=HEADS))
    torch.manual_seed(1)
    (layer,) = LayerChain((spec.decoder if in_decoder else spec.encoder).layers)
    return layer


def check(values, kind, size, message):
    values = values.detach().flatten()
    if kind == "constant":
        assert (values == size).all(), message
        return
    # Four standard errors of a mean, and of a standard deviation
    error = 4 / math.sqrt(len(values))
    std = size / math.sqrt(3) if kind == "uniform" else size
    assert values.mean().abs() < error * std, message
    assert abs(float(values.std()) / std - 1) < error, message
    if kind == "uniform":
        assert 0.9 * size < values.abs().max() <= size * (1 + 1e-6), message


@pytest.mark.parametrize("text", LAYERS)
def test_initial_weights(text):
    expected = LAYERS[text]
    for name, parameter in built(text).named_parameters():
        if name.rpartition(".")[2] in DERIVED:
            continue
        of_averages = name.startswith("averages.") and name not in expected
        wanted = LAYERS["ema(16)"][name.rpartition(".")[2]] if of_averages else expected[name]
        parts = wanted if isinstance(wanted, list) else [(len(parameter), wanted)]
        for part, (_, (kind, size)) in zip(parameter.split([rows for rows, _ in parts]), parts):
            check(part, kind, size, name)


def test_decays_and_averages():
    """Decays between those of the sources, and averages of alternating sign."""
    mamba = built("mamba2")
    dt = torch.nn.functional.softplus(mamba.dt_bias)
    assert 0.0009 < dt.min() and dt.max() < 0.101
    assert 1 <= mamba.log_a.exp().min() and mamba.log_a.exp().max() <= 16.001
    # With an open gate, its decay is the eighth power.
    decay = torch.sigmoid(built("rg_lru").decay.detach().double()) ** 8
    assert 0.9 <= decay.min() < 0.901 and 0.998 < decay.max() <= 0.9991
    beta = built("ema(16)").beta
    check(beta[:, ::2] - 1, *around(0.02), "even")
    check(beta[:, 1::2] + 1, *around(0.02), "odd")
