"""Attention whose scores a network of one layer computes (Domhan 2018, section 2.3)."""

import math

import torch
from torch import Tensor, nn

from ....nn.attention import causal_mask, masked_softmax
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
from .common import xavier_linear


def mlp_cost(spec: LayerSpec) -> Cost:
    inner, values = spec["d_p"], attended_width(spec)
    return attention_cost(spec, inner * spec.input_width, inner * values, inner + values)


@register_layer(
    "mlp_src_att",
    "attention to the source with scores of a network of one layer; values as they are "
    "(section 2.3)",
    INNER_WIDTH,
    BLOCK,
    WEIGHT_DROPOUT,
    reach=POSITION,
    width=attended_width,
    cost=mlp_cost,
    attends=True,
)
@register_layer(
    "mlp_self_att",
    "attention to the sentence itself with scores of a network of one layer; values as they are "
    "(section 2.3)",
    INNER_WIDTH,
    WEIGHT_DROPOUT,
    reach=self_attention_reach,
    width=attended_width,
    cost=mlp_cost,
)
class MlpAttentionLayer(AttentionLayer):
    """``mlp_src_att``, ``mlp_self_att``: scores w tanh(W_q q + W_k k), values as they are."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec)
        self.queries = xavier_linear(spec.input_width, spec["d_p"], bias=False)
        self.keys = xavier_linear(attended_width(spec), spec["d_p"], bias=False)
        self.weight = nn.Parameter(torch.empty(spec["d_p"]))
        bound = math.sqrt(6 / (spec["d_p"] + 1))
        nn.init.uniform_(self.weight, -bound, bound)

    def q_proj(self, x: Tensor) -> Tensor:
        """Projected queries."""
        return self.queries(x)

    def kv_proj(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Projected keys, and the source as values."""
        return self.keys(source), source

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attention context and the weights; arguments as in `nn.attention.attend`."""
        hidden = (query.unsqueeze(3) + keys.unsqueeze(2)).tanh()
        scores = hidden @ self.weight.to(hidden.dtype)
        if causal:
            mask = causal_mask(scores)
        weights = masked_softmax(scores, mask)
        context = self.dropout(weights).to(values.dtype) @ values
        return context, weights if need_weights else None


register_alias("mlp_att", "mlp_src_att", "mlp_src_att: attention to the source")
