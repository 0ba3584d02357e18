"""Sizes that no model can have are refused with a sentence, in every family."""

import pytest

from convs2s.common.errors import UserError
from tests.support.families import tiny_adl, tiny_convs2s, tiny_pervasive

BUILDERS = {"convs2s": tiny_convs2s, "adl": tiny_adl, "pervasive": tiny_pervasive}


@pytest.mark.parametrize("family", BUILDERS)
@pytest.mark.parametrize("option", ["max_source_positions", "max_target_positions"])
@pytest.mark.parametrize("length", [0, -1, 10**12])
def test_lengths(family, option, length):
    name = f"--{option.replace('_', '-')}"
    with pytest.raises(UserError, match=f"{name} is {length}, .* from 1 to 1000000"):
        BUILDERS[family](**{option: length})


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("convs2s", {"encoder_embed_dim": 0}, "--encoder-embed-dim is 0, but must be from 1"),
        ("convs2s", {"dropout": float("nan")}, "--dropout is nan, but must be at least 0"),
        ("convs2s", {"dropout": 1.0}, "--dropout is 1.0, but must be at least 0 and below 1"),
        ("pervasive", {"num_layers": 10**6}, "--num-layers is 1000000, but must be from 1 to"),
        ("pervasive", {"dropout": -0.1}, "--dropout is -0.1, but must be at least 0"),
        ("adl", {"attention_dropout": 1.0}, "--attention-dropout is 1.0, but must be at least 0"),
        ("adl", {"init_gain": float("nan")}, "--init-gain is nan, but must be from 0 to 100"),
        ("adl", {"model_dim": 10**9}, "--model-dim is 1000000000, but must be from 1 to 65536"),
    ],
)
def test_sizes_and_probabilities(family, options, message):
    with pytest.raises(UserError, match=message):
        BUILDERS[family](**options)
