"""Attention layers (Domhan 2018, section 2.3): dot attention, multi-head attention, and MLP scores.

Projections have no biases, as in the original implementation. Multi-head attention has arguments
beyond the paper: biases, windows, shared heads of keys and values (Ainslie et al. 2023),
normalized queries and keys (Henry et al. 2020), and relative positions (Su et al. 2021, Press et
al. 2022).
"""

from collections.abc import Callable
from typing import Any

from .....common.limits import MAX_HEADS, MAX_POSITIONS, MAX_WIDTH, option_name
from ..arguments import (
    Argument,
    Choice,
    Default,
    Flag,
    Integer,
    LayerError,
    Real,
    setting_default,
)
from ..registry import BLOCK, PAST, POSITION, SENTENCE, Cost, Reach, declare, register_unsupported
from ..spec import LayerSpec
from .common import PROBABILITY, WIDTH, given_width
from .macros import register_alias

INNER_WIDTH = Argument(
    "d_p",
    Integer(1, MAX_WIDTH),
    setting_default("model_dim"),
    "channels of projected queries and keys",
)
WEIGHT_DROPOUT = Argument(
    "dropout",
    PROBABILITY,
    Default(
        lambda spec: (
            spec.settings.dropout
            if spec.settings.attention_dropout is None
            else spec.settings.attention_dropout
        ),
        option_name("attention_dropout"),
    ),
    "probability of dropping a weight",
)
HEADS = Argument("h", Integer(1, MAX_HEADS), setting_default("attention_heads"), "heads")
BIAS = Argument("bias", Flag(), False, "whether the projections have biases")
HEADS_WIDTH = Argument(
    "d_p",
    Integer(1, MAX_WIDTH),
    Default(lambda spec: spec["d"], "d"),
    "channels of the projected queries, keys or values of all heads together",
)
WINDOW = Argument(
    "window",
    Integer(1, MAX_POSITIONS),
    Default(lambda spec: None, "all"),
    "attend to this many positions on either side; in a decoder, to this many last ones, its own "
    "included",
)
KV_HEADS = Argument(
    "kv_heads",
    Integer(1, MAX_HEADS),
    Default(lambda spec: spec["h"], "h"),
    "heads of keys and values, which heads of queries share",
)
QK_NORM = Argument(
    "qk_norm",
    Flag(),
    False,
    "whether to divide each head's queries and keys by their root mean square, with learned scales",
)
ROPE, ALIBI = "rope", "alibi"
DISTANCES = Argument(
    "pos",
    Choice(("none", ROPE, ALIBI)),
    "none",
    "how scores depend on distances: rope rotates queries and keys, alibi subtracts a multiple",
)
SOURCE_DISTANCES = Argument(
    "pos",
    Choice(("none", ROPE)),
    "none",
    "how scores depend on the distance of target and source positions: rope rotates both",
)


def scale_argument(text: str, default: Callable[[LayerSpec], float]) -> Argument:
    """The argument s: dot products are divided by its square root."""
    help = "dot products are divided by sqrt(s)"
    return Argument("s", Real(1e-6, 1e9), Default(default, text), help)


WIDTH_SCALE = scale_argument("C", lambda spec: float(spec.input_width))
INNER_SCALE = scale_argument("d_p", lambda spec: float(spec["d_p"]))
HEAD_SCALE = scale_argument("d_p / h", lambda spec: spec["d_p"] / spec["h"])


def attended_width(spec: LayerSpec) -> int:
    """Channels of the sequence that the layer attends to."""
    return spec.input_width if spec.source_width is None else spec.source_width


def inner_width(spec: LayerSpec) -> int:
    return spec["d_p"]


def check_source_width(spec: LayerSpec) -> None:
    if spec.input_width != spec.source_width:
        raise LayerError(
            f"'{spec.name}' compares its input with the encoder's output as they are, but the "
            f"first has {spec.input_width} channels and the second {spec.source_width}: use "
            "proj_dot_att or mh_dot_att, or put a linear layer before it"
        )


def check_heads(spec: LayerSpec) -> None:
    if spec["d_p"] % spec["h"]:
        raise LayerError(
            f"{spec['h']} heads do not divide {spec['d_p']} channels: choose another number of "
            f"heads (h, {option_name('attention_heads')}) or of channels (d_p)",
            "h",
        )


def check_multi_head(spec: LayerSpec) -> None:
    check_heads(spec)
    if spec["h"] % spec["kv_heads"]:
        raise LayerError(
            f"{spec['kv_heads']} heads of keys and values (kv_heads) do not divide the "
            f"{spec['h']} heads of queries (h), which share them evenly",
            "kv_heads",
        )
    size = spec["d_p"] // spec["h"]
    if spec.arguments["pos"] == ROPE and size % 2:
        others = "" if spec.source_width is not None else ", or pos=alibi"
        raise LayerError(
            f"pos=rope rotates pairs of channels, but each of the {spec['h']} heads (h) has {size} "
            f"of the {spec['d_p']} channels (d_p): choose an even number for each head{others}",
            "pos",
        )


def sentence_reach(spec: LayerSpec) -> Reach:
    window = spec.arguments.get("window")
    if window is None:
        return PAST if spec.in_decoder else SENTENCE
    return Reach(window - 1, 0) if spec.in_decoder else Reach(window, window)


def attention_cost(spec: LayerSpec, query: int, attended: int, pair: int) -> Cost:
    """The cost of an attention layer.

    Args:
        spec: the resolved layer.
        query: multiply-adds for each position of the input.
        attended: multiply-adds for each position that the layer attends to.
        pair: multiply-adds for each pair of these positions.
    """
    if spec.source_width is None:
        return Cost(position=query + attended, pair=pair)
    return Cost(position=query, source=attended, pair=pair)


def kv_width(spec: LayerSpec) -> int:
    """Channels of the projected keys of all heads together, and of the values."""
    inner: int = spec["d_p"]
    return inner // spec["h"] * spec["kv_heads"] if "kv_heads" in spec.arguments else inner


def projected_cost(spec: LayerSpec) -> Cost:
    inner = spec["d_p"]
    queries, keys_values = inner * spec.input_width, 2 * kv_width(spec) * attended_width(spec)
    return attention_cost(spec, queries, keys_values, 2 * inner)


def projected_parameters(spec: LayerSpec) -> int:
    return spec["d_p"] * spec.input_width + 2 * kv_width(spec) * attended_width(spec)


def multi_head_cost(spec: LayerSpec) -> Cost:
    cost = projected_cost(spec)
    return cost._replace(position=cost.position + spec["d_p"] * spec["d"])


def multi_head_parameters(spec: LayerSpec) -> int:
    scales = 2 * (spec["d_p"] // spec["h"]) if spec["qk_norm"] else 0
    biases = spec["d_p"] + 2 * kv_width(spec) + spec["d"] if spec["bias"] else 0
    return projected_parameters(spec) + spec["d_p"] * spec["d"] + scales + biases


def mlp_cost(spec: LayerSpec) -> Cost:
    inner, values = spec["d_p"], attended_width(spec)
    return attention_cost(spec, inner * spec.input_width, inner * values, inner + values)


def mlp_parameters(spec: LayerSpec) -> int:
    return spec["d_p"] * (spec.input_width + attended_width(spec) + 1)


def declare_attention(
    name: str,
    summary: str,
    before: tuple[Argument, ...],
    after: tuple[Argument, ...],
    within: tuple[Argument, ...] = (),
    across: tuple[Argument, ...] = (),
    **facts: Any,
) -> None:
    """Declare attention to the source, ``*_src_att``, and to the sentence itself, ``*_self_att``.

    Args:
        name: the names of both without these ends.
        summary: one line for the list of layers, with {} for what the layer attends to.
        before, after: the arguments before and after BLOCK, which self-attention does not have.
        within: further arguments, only for self-attention.
        across: further arguments, only for attention to the source.
        facts: as for ``declare``.
    """
    declare(
        f"{name}_src_att",
        summary.format("the source"),
        *before,
        BLOCK,
        *after,
        *across,
        reach=POSITION,
        attends=True,
        **facts,
    )
    declare(
        f"{name}_self_att",
        summary.format("the sentence itself"),
        *before,
        *after,
        *within,
        reach=sentence_reach,
        **facts,
    )


declare(
    "dot_att",
    "dot attention to the source without any weights (section 2.3)",
    WIDTH_SCALE,
    BLOCK,
    WEIGHT_DROPOUT,
    reach=POSITION,
    width=attended_width,
    check=check_source_width,
    cost=lambda spec: Cost(pair=2 * spec.input_width),
    parameters=0,
    attends=True,
)
declare_attention(
    "proj_dot",
    "dot attention to {} with projected queries, keys and values (section 2.3)",
    (INNER_WIDTH, INNER_SCALE),
    (WEIGHT_DROPOUT,),
    width=inner_width,
    cost=projected_cost,
    parameters=projected_parameters,
)
declare_attention(
    "mh_dot",
    "multi-head dot attention to {}, with all projections (section 2.3)",
    (HEADS, HEAD_SCALE),
    (WIDTH, HEADS_WIDTH, WEIGHT_DROPOUT, BIAS, KV_HEADS, QK_NORM),
    (WINDOW, DISTANCES),
    (SOURCE_DISTANCES,),
    width=given_width,
    check=check_multi_head,
    cost=multi_head_cost,
    parameters=multi_head_parameters,
)
declare_attention(
    "mlp",
    "attention to {} with scores from a network of one layer; values as they are (section 2.3)",
    (INNER_WIDTH,),
    (WEIGHT_DROPOUT,),
    width=attended_width,
    cost=mlp_cost,
    parameters=mlp_parameters,
)

register_alias(
    "dot_src_att", "mh_dot_src_att", "mh_dot_src_att(h=1) (section 2.3)", h=1, kv_heads=1
)
register_alias("dot_self_att", "mh_dot_self_att", "mh_dot_self_att(h=1)", h=1, kv_heads=1)
register_alias("mh_dot_att", "mh_dot_src_att", "mh_dot_src_att: attention to the source")
register_alias("proj_dot_att", "proj_dot_src_att", "proj_dot_src_att: attention to the source")
register_alias("mlp_att", "mlp_src_att", "mlp_src_att: attention to the source")
for _name in ("att", "attention", "self_att", "self_attention", "mh_att", "mh_self_att"):
    register_unsupported(
        _name,
        f"there is no layer '{_name}': write 'mh_dot_self_att', or 'mh_dot_src_att' for attention "
        "to the source",
    )
