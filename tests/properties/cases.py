"""Random cases: a small architecture of a family, a batch, and how it is decoded."""

from typing import Any

from hypothesis import strategies as st

from convs2s.models.pervasive.options import AGGREGATORS
from tests.support.adl_random import random_definition
from tests.support.families import tiny_adl, tiny_convs2s, tiny_pervasive

# A case is plain data, so that one command can repeat it.
Case = dict[str, Any]
BUILD = {"convs2s": tiny_convs2s, "adl": tiny_adl, "pervasive": tiny_pervasive}


@st.composite
def layer_lists(draw) -> str:
    """The layers of a side of ConvS2S: channels, kernel size, residual connection."""
    layers = [
        (
            draw(st.sampled_from((8, 12, 16))),
            draw(st.integers(1, 4)),
            draw(st.integers(0, min(number, 3))),
        )
        for number in range(1, draw(st.integers(1, 4)) + 1)
    ]
    text = f"[{', '.join(map(str, layers))}]"
    return f"{text} + [({layers[-1][0]}, 3)] * 2" if draw(st.booleans()) else text


@st.composite
def convs2s(draw) -> dict[str, Any]:
    """Options of ConvS2S."""
    width = draw(st.sampled_from((8, 16)))
    options = {
        "encoder_embed_dim": width,
        "decoder_embed_dim": width,
        "encoder_layers": draw(layer_lists()),
        "decoder_layers": draw(layer_lists()),
        "no_source_positions": draw(st.booleans()),
        "no_target_positions": draw(st.booleans()),
        "share_all_embeddings": draw(st.booleans()),
    }
    shared = options["share_all_embeddings"]
    options["decoder_out_embed_dim"] = width if shared else draw(st.sampled_from((8, 16)))
    return options


@st.composite
def adl(draw) -> dict[str, Any]:
    """Options of a model in ADL, drawn from the grammar."""
    drawn = random_definition(draw(st.integers(0, 10**6)))
    return {
        "encoder_adl": drawn.encoder,
        "decoder_adl": drawn.decoder,
        "model_dim": drawn.settings.model_dim,
        "ff_dim": drawn.settings.ff_dim,
        "attention_heads": drawn.settings.attention_heads,
        "input_feeding": drawn.input_feeding,
    }


@st.composite
def pervasive(draw) -> dict[str, Any]:
    """Options of pervasive attention."""
    aggregator = draw(st.sampled_from(sorted(AGGREGATORS)))
    return {
        "encoder_embed_dim": draw(st.sampled_from((8, 12))),
        "decoder_embed_dim": draw(st.sampled_from((8, 12))),
        "num_layers": draw(st.integers(1, 4)),
        "growth_rate": draw(st.integers(2, 6)),
        "kernel_size": draw(st.sampled_from((1, 3, 5))),
        "bottleneck": draw(st.integers(1, 4)),
        "aggregator": aggregator,
        "gated": draw(st.booleans()),
        "no_halving": draw(st.booleans()),
        "no_transition": draw(st.booleans()),
        "separate_output": draw(st.booleans()),
        "no_source_eos": draw(st.booleans()),
        "target_bos": draw(st.booleans()),
    }


FAMILIES = {"convs2s": convs2s, "adl": adl, "pervasive": pervasive}


@st.composite
def cases(draw) -> Case:
    """A family, its options, the lengths of a batch, its padding, and a search."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    size = draw(st.integers(1, 4))
    return {
        "family": family,
        "options": draw(FAMILIES[family]()),
        "lengths": [[draw(st.integers(2, 9)), draw(st.integers(1, 7))] for _ in range(size)],
        "left_pad_source": draw(st.booleans()),
        "left_pad_target": draw(st.booleans()),
        "precision": draw(st.sampled_from(("float64", "float64", "float32"))),
        "chunks": draw(st.lists(st.integers(1, 3), min_size=1, max_size=7)),
        "beam": draw(st.integers(1, 4)),
        "seed": draw(st.integers(0, 1000)),
    }


def build(case: Case, seed: int | None = None):
    """The model of a case, in evaluation mode.

    Args:
        case: the case.
        seed: of other weights than those of the case.
    """
    arch = {"arch": "adl"} if case["family"] == "adl" else {}
    model = BUILD[case["family"]](
        **arch, **case["options"], seed=case["seed"] if seed is None else seed
    )
    return model.double() if case["precision"] == "float64" else model
