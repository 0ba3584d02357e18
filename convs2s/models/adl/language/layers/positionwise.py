"""Layers of single positions (Domhan 2018, section 2.3)."""

from ..arguments import Argument, Flag, Real, setting_default
from ..registry import POSITION, Cost, declare, register_unsupported
from .common import (
    DROPOUT,
    GATED,
    PROBABILITY,
    WIDTH,
    activation_argument,
    given_width,
    input_parts,
)

declare(
    "id",
    "its input (section 2.3)",
    reach=POSITION,
    cost=Cost(),
    parameters=0,
)
declare(
    "dropout",
    "dropout (section 2.3)",
    Argument("p", PROBABILITY, setting_default("dropout"), "probability of dropping a channel"),
    reach=POSITION,
    cost=Cost(),
    parameters=0,
)
declare(
    "act",
    "a non-linearity (beyond the paper)",
    activation_argument("relu", "its name", without=(*GATED, "none")),
    reach=POSITION,
    cost=Cost(),
    parameters=0,
)
declare(
    "norm",
    "layer normalization with learned scale and shift (section 2.3)",
    Argument("eps", Real(1e-12, 1), 1e-6, "is added to the variance"),
    reach=POSITION,
    cost=Cost(),
    parameters=lambda spec: 2 * spec.input_width,
)
declare(
    "rms_norm",
    "division by the root mean square, with a learned scale (beyond the paper)",
    reach=POSITION,
    cost=Cost(),
    parameters=lambda spec: spec.input_width,
)
declare(
    "linear",
    "a linear projection (section 2.3)",
    WIDTH,
    Argument("bias", Flag(), True, "whether to add a bias"),
    reach=POSITION,
    width=given_width,
    cost=lambda spec: Cost(spec.input_width * spec["d"]),
    parameters=lambda spec: (spec.input_width + spec["bias"]) * spec["d"],
)
declare(
    "ff",
    "a linear projection, a non-linearity, dropout (section 2.3)",
    WIDTH,
    activation_argument("relu"),
    DROPOUT,
    reach=POSITION,
    width=given_width,
    cost=lambda spec: Cost(spec.input_width * input_parts(spec["v"]) * spec["d"]),
    parameters=lambda spec: (spec.input_width + 1) * input_parts(spec["v"]) * spec["d"],
)
for _name in ("layer_norm", "layernorm"):
    register_unsupported(_name, f"there is no layer '{_name}': layer normalization is 'norm'")
