"""Dot attention: as it is, with projections, and multi-head (Domhan 2018, section 2.3).

Multi-head attention projects queries, keys and values, attends with each head, and projects the
concatenated heads once more. All projections are without biases, as in the original
implementation; the paper's formula has no last projection. ``proj_dot_*`` is the paper's formula
for one head, without the last projection.
"""

from collections.abc import Callable

from torch import Tensor

from ....common.limits import MAX_HEADS, MAX_WIDTH, option_name
from ..context import Context
from ..language.arguments import Argument, Default, Integer, LayerError, Real, setting_default
from ..language.macros import register_alias
from ..language.registry import BLOCK, POSITION, Cost, register_layer
from ..language.spec import LayerSpec
from .attention import (
    INNER_WIDTH,
    WEIGHT_DROPOUT,
    AttentionLayer,
    attended_width,
    attention_cost,
    self_attention_reach,
)
from .common import WIDTH, given_width, xavier_linear

HEADS = Argument("h", Integer(1, MAX_HEADS), setting_default("attention_heads"), "heads")
HEADS_WIDTH = Argument(
    "d_p",
    Integer(1, MAX_WIDTH),
    Default(lambda spec: spec["d"], "d"),
    "channels of the projected queries, keys or values of all heads together",
)


def scale_argument(text: str, default: Callable[[LayerSpec], float]) -> Argument:
    """The argument s: dot products are divided by its square root."""
    help = "dot products are divided by sqrt(s)"
    return Argument("s", Real(1e-6, 1e9), Default(default, text), help)


WIDTH_SCALE = scale_argument("C", lambda spec: float(spec.input_width))
INNER_SCALE = scale_argument("d_p", lambda spec: float(spec["d_p"]))
HEAD_SCALE = scale_argument("d_p / h", lambda spec: spec["d_p"] / spec["h"])


def check_source_width(spec: LayerSpec) -> None:
    if spec.input_width != spec.source_width:
        raise LayerError(
            f"'{spec.name}' compares its input with the encoder's output as they are, but the "
            f"first has {spec.input_width} channels and the second {spec.source_width}: take "
            "proj_dot_att or mh_dot_att, or a linear layer before it"
        )


def check_heads(spec: LayerSpec) -> None:
    if spec["d_p"] % spec["h"]:
        raise LayerError(
            f"{spec['h']} heads do not divide {spec['d_p']} channels: take another number of "
            f"heads (h, {option_name('attention_heads')}) or of channels (d_p)",
            "h",
        )


def projected_cost(spec: LayerSpec) -> Cost:
    inner = spec["d_p"]
    queries, keys_values = inner * spec.input_width, 2 * inner * attended_width(spec)
    return attention_cost(spec, queries, keys_values, 2 * inner)


def multi_head_cost(spec: LayerSpec) -> Cost:
    cost = projected_cost(spec)
    return cost._replace(position=cost.position + spec["d_p"] * spec["d"])


@register_layer(
    "dot_att",
    "dot attention to the source without any weights (section 2.3)",
    WIDTH_SCALE,
    BLOCK,
    WEIGHT_DROPOUT,
    reach=POSITION,
    width=attended_width,
    check=check_source_width,
    cost=lambda spec: Cost(pair=2 * spec.input_width),
    attends=True,
)
class DotAttentionLayer(AttentionLayer):
    """``dot_att``: dot products of the input and the source, both as they are."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec, scale=spec["s"] ** -0.5)

    def q_proj(self, x: Tensor) -> Tensor:
        """The input as it is."""
        return x

    def kv_proj(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The source as keys and as values."""
        return source, source


@register_layer(
    "proj_dot_src_att",
    "dot attention to the source with projected queries, keys and values (section 2.3)",
    INNER_WIDTH,
    INNER_SCALE,
    BLOCK,
    WEIGHT_DROPOUT,
    reach=POSITION,
    width=lambda spec: spec["d_p"],
    cost=projected_cost,
    attends=True,
)
@register_layer(
    "proj_dot_self_att",
    "dot attention to the sentence itself with projected queries, keys and values (section 2.3)",
    INNER_WIDTH,
    INNER_SCALE,
    WEIGHT_DROPOUT,
    reach=self_attention_reach,
    width=lambda spec: spec["d_p"],
    cost=projected_cost,
)
class ProjectedAttentionLayer(AttentionLayer):
    """``proj_dot_src_att``, ``proj_dot_self_att``: dot attention after linear maps.

    Args:
        spec: the resolved layer.
        heads: h (1).
    """

    def __init__(self, spec: LayerSpec, heads: int = 1):
        super().__init__(spec, heads, spec["s"] ** -0.5)
        inner = spec["d_p"]
        if spec.source_width is None:
            # As in the authors' code: the fan-out of one matrix gives smaller weights than that of
            # three, so that the first attention is more even.
            self.queries_keys_values = xavier_linear(spec.input_width, 3 * inner, bias=False)
        else:
            self.queries = xavier_linear(spec.input_width, inner, bias=False)
            self.keys_values = xavier_linear(spec.source_width, 2 * inner, bias=False, parts=2)

    def q_proj(self, x: Tensor) -> Tensor:
        """Queries, for attention to the source."""
        return self.queries(x)

    def kv_proj(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the source."""
        return self.keys_values(source).chunk(2, dim=-1)

    def qkv_proj(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values in one matrix multiplication, for self-attention."""
        return self.queries_keys_values(x).chunk(3, dim=-1)


@register_layer(
    "mh_dot_src_att",
    "multi-head dot attention to the source, with all projections (section 2.3)",
    HEADS,
    HEAD_SCALE,
    BLOCK,
    WIDTH,
    HEADS_WIDTH,
    WEIGHT_DROPOUT,
    reach=POSITION,
    width=given_width,
    check=check_heads,
    cost=multi_head_cost,
    attends=True,
)
@register_layer(
    "mh_dot_self_att",
    "multi-head dot attention to the sentence itself, with all projections (section 2.3)",
    HEADS,
    HEAD_SCALE,
    WIDTH,
    HEADS_WIDTH,
    WEIGHT_DROPOUT,
    reach=self_attention_reach,
    width=given_width,
    check=check_heads,
    cost=multi_head_cost,
)
class MultiHeadAttentionLayer(ProjectedAttentionLayer):
    """``mh_dot_src_att``, ``mh_dot_self_att``: several heads, and a linear map of all of them."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec, spec["h"])
        self.output = xavier_linear(spec["d_p"], spec.width, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map R x T x C to R x T x C'."""
        return self.output(super().forward(x, context))


register_alias("dot_src_att", "mh_dot_src_att", "mh_dot_src_att(h=1) (section 2.3)", h=1)
register_alias("dot_self_att", "mh_dot_self_att", "mh_dot_self_att(h=1)", h=1)
register_alias("mh_dot_att", "mh_dot_src_att", "mh_dot_src_att: attention to the source")
register_alias("proj_dot_att", "proj_dot_src_att", "proj_dot_src_att: attention to the source")
