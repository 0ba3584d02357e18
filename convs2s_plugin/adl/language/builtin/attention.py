"""Attention to the source and to the sentence itself (Domhan 2018, section 2.3).

The multi-head forms project queries, keys and values, attend with each head, and project what the
heads give once more, all without biases, as the original implementation does; the paper's formula
leaves the last projection out. ``proj_dot_*`` is the paper's formula for one head, without it.
"""

from ..arguments import Argument, Default, Integer, Real, Refusal
from ..registry import BLOCK, PAST, POSITION, SENTENCE, Cost, LayerType, Reach, register
from ..spec import MAX_HEADS, MAX_WIDTH, LayerSpec
from .pointwise import PROBABILITY, WIDTH, given_width, none

HEADS = Argument(
    "h",
    Integer(1, MAX_HEADS),
    Default(lambda layer: layer.settings.attention_heads, "--attention-heads"),
    "heads",
)
HEADS_WIDTH = Argument(
    "d_p",
    Integer(1, MAX_WIDTH),
    Default(lambda layer: layer["d"], "d"),
    "channels of all projected queries, keys and values together",
)
INNER = Argument(
    "d_p",
    Integer(1, MAX_WIDTH),
    Default(lambda layer: layer.settings.model_dim, "--model-dim"),
    "channels of projected queries and keys",
)
WEIGHT_DROPOUT = Argument(
    "dropout",
    PROBABILITY,
    Default(
        lambda layer: (
            layer.settings.dropout
            if layer.settings.attention_dropout is None
            else layer.settings.attention_dropout
        ),
        "--attention-dropout",
    ),
    "of attention weights",
)


def scale(text: str, width) -> Argument:
    """The argument s, by whose square root scores are divided."""
    return Argument("s", Real(1e-6, 1e9), Default(width, text), "scores are divided by sqrt(s)")


def self_reach(layer: LayerSpec) -> Reach:
    return PAST if layer.in_decoder else SENTENCE


def attended_width(layer: LayerSpec) -> int:
    """Channels of keys and values before they are projected."""
    return layer.input_width if layer.source_width is None else layer.source_width


def check_heads(layer: LayerSpec) -> None:
    if layer["d_p"] % layer["h"]:
        raise Refusal(
            f"{layer['h']} heads do not divide {layer['d_p']} channels: take another number of "
            "heads (h, --attention-heads) or of channels (d_p)",
            "h",
        )


def check_same_space(layer: LayerSpec) -> None:
    if layer.input_width != layer.source_width:
        raise Refusal(
            f"'{layer.name}' compares its input with the encoder's output as they are, but the "
            f"first has {layer.input_width} channels and the second {layer.source_width}: take "
            "proj_dot_att or mh_dot_att, or a linear layer before it"
        )


def cost(layer: LayerSpec, query: int, attended: int, pair: int) -> Cost:
    """Costs of one projection of queries (and output), one of what is attended, and the pairs."""
    if layer.source_width is None:
        return Cost(position=query + attended, pair=pair)
    return Cost(position=query, source=attended, pair=pair)


def multi_head_cost(layer: LayerSpec) -> Cost:
    inner = layer["d_p"]
    query = inner * (layer.input_width + layer["d"])
    return cost(layer, query, 2 * attended_width(layer) * inner, 2 * inner)


def projected_cost(layer: LayerSpec) -> Cost:
    inner = layer["d_p"]
    return cost(layer, inner * layer.input_width, 2 * attended_width(layer) * inner, 2 * inner)


def mlp_cost(layer: LayerSpec) -> Cost:
    inner, values = layer["d_p"], attended_width(layer)
    return cost(layer, inner * layer.input_width, inner * values, inner + values)


def projections(cost: Cost) -> int:
    """As many weights as multiply-adds for one position of either kind."""
    return cost.position + cost.source


for form, to_source in (("src", True), ("self", False)):
    block = (BLOCK,) if to_source else ()
    shared = {"reach": POSITION if to_source else self_reach, "attends": to_source}
    to = "to the source" if to_source else "to the sentence itself"
    register(
        LayerType(
            f"mh_dot_{form}_att",
            f"multi-head dot attention {to}, projections and all (section 2.3)",
            (
                HEADS,
                scale("d_p / h", lambda layer: layer["d_p"] / layer["h"]),
                *block,
                WIDTH,
                HEADS_WIDTH,
                WEIGHT_DROPOUT,
            ),
            module="..layers.attention:MultiHeadAttention",
            width=given_width,
            check=check_heads,
            parameters=lambda layer: projections(multi_head_cost(layer)),
            cost=multi_head_cost,
            **shared,
        )
    )
    register(
        LayerType(
            f"proj_dot_{form}_att",
            f"dot attention {to} with projected queries, keys and values (section 2.3)",
            (INNER, scale("d_p", lambda layer: float(layer["d_p"])), *block, WEIGHT_DROPOUT),
            module="..layers.attention:ProjectedAttention",
            width=lambda layer: layer["d_p"],
            parameters=lambda layer: projections(projected_cost(layer)),
            cost=projected_cost,
            **shared,
        )
    )
    register(
        LayerType(
            f"mlp_{form}_att",
            f"attention {to} scored by a network of one layer; values as they are (section 2.3)",
            (INNER, *block, WEIGHT_DROPOUT),
            module="..layers.attention:MlpAttention",
            width=attended_width,
            parameters=lambda layer: projections(mlp_cost(layer)) + layer["d_p"],
            cost=mlp_cost,
            **shared,
        )
    )

register(
    LayerType(
        "dot_att",
        "dot attention to the source without any weights (section 2.3)",
        (scale("C", lambda layer: float(layer.input_width)), BLOCK, WEIGHT_DROPOUT),
        reach=POSITION,
        module="..layers.attention:DotAttention",
        width=attended_width,
        check=check_same_space,
        parameters=none,
        cost=lambda layer: Cost(pair=2 * layer.input_width),
        attends=True,
    )
)
