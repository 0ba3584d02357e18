"""Linear attention with decays: ``retention``, ``gla`` and ``mamba2``.

All of them compute o_t = q_t S_t with S_t = a_t S_(t-1) + k_t v_t^T for each head; decays, and what
comes before and after, differ. A step of generation keeps the last keys and values, and S before
them, in single precision.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn import recent_positions
from ....nn.depthwise_conv1d import causal_depthwise_conv1d
from ....nn.linear import Linear, single_precision
from ....nn.linear_attention import linear_attention
from ....nn.normalization import rms_norm
from ....nn.state import State
from ....nn.uninitialized import computed
from ..context import Context
from ..language.layers.linear_attention import GATE_RANK, convolved_width, inner_width
from ..language.spec import LayerSpec
from .attention import split_heads
from .common import EPSILON, implements
from .recurrent import save_state
from .relative_positions import Rotation

# The initial gain of projections in the authors' code of RetNet and of GLA.
GAIN = 2.0**-2.5
# The root of gates that are close to 1 from the beginning (Yang et al. 2024, section 4.4).
GATE_ROOT = 16.0
# Initial decays of mamba2 are exp(-dt A), with dt and A between these (Dao and Gu 2024).
SHORTEST, LONGEST = 0.001, 0.1
SLOWEST, FASTEST = 1.0, 16.0


def stacked_projection(inputs: int, outputs: Sequence[int]) -> Linear:
    """Several projections of one input in one matrix, without biases.

    Args:
        inputs: channels of the input.
        outputs: channels of each projection.
    """
    built = Linear(inputs, sum(outputs), bias=False)
    for weight in built.weight.detach().split(list(outputs)):
        nn.init.xavier_uniform_(weight, GAIN)
    return built


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """The heads B x h x T x F, times the swish of a gate, B x T x hF."""
    heads = x.transpose(1, 2).to(gate.dtype)
    return (F.silu(gate).view_as(heads) * heads).flatten(2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    context: Context,
    state: State | None,
    key_scale: Tensor | None = None,
    skip: Tensor | None = None,
) -> Tensor:
    """``linear_attention`` from the state of a layer, which follows the positions.

    Args:
        query, key, value, log_decay, key_scale, skip: as for ``linear_attention``.
        context: the context of the pass.
        state: the incremental state of the layer; None in training.
    Returns:
        B x h x T x F, in single precision or better.
    """
    inputs = query, key, value, log_decay
    if state is None:
        return linear_attention(*inputs, key_scale=key_scale, skip=skip)[0]
    steps, mask = value.size(2), context.cache_mask
    if steps == 1:
        return step(*inputs, context, state, key_scale, skip)
    if mask is not None:
        # The first query of each hypothesis, and the columns before the new ones
        mask = mask[:, :, ::steps, : -steps * context.beam_size]
    recent_positions.fold(state, mask, context.beam_size)
    before = state.rows.get("hidden")
    if before is not None:
        before = before.unflatten(1, (value.size(1), key.size(3), value.size(3)))
        before = before * state.rows["decay"].unsqueeze(3)
    output, after = linear_attention(*inputs, before, True, key_scale, skip)
    assert after is not None
    save_state(state, after.flatten(1).unsqueeze(0), context.padding_mask)
    state.rows["decay"] = after.new_ones(*after.shape[:2], log_decay.size(3))
    return output


def step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    context: Context,
    state: State,
    key_scale: Tensor | None,
    skip: Tensor | None,
) -> Tensor:
    """One position; arguments are those of ``attend``."""
    exact = torch.promote_types(value.dtype, torch.float32)
    with torch.autocast(value.device.type, enabled=False):
        query, key, value = (each.to(exact) for each in (query, key, value))
        factor = log_decay.squeeze(2).to(exact).exp().expand(value.size(0), -1, -1)
        scale = factor.new_ones(()) if key_scale is None else key_scale.squeeze(3).to(exact)
        scale = scale.expand_as(factor[..., :1])
        if context.padding_mask is not None:
            padding = context.padding_mask.unsqueeze(1)
            factor, scale = factor.masked_fill(padding, 1.0), scale.masked_fill(padding, 0.0)
        output = recent_positions.step(
            state, query, key, value, factor, scale, context.beam_size, context.cache_mask
        )
        return output if skip is None else output + skip.to(exact).view(-1, 1, 1) * value


@implements("retention")
class RetentionLayer(nn.Module):
    """``retention``: a = 1 - 2^(-5-i) in head i, y = W_O (swish(W_G x) * norm(o)).

    Sun et al., "Retentive Network: A Successor to Transformer for Large Language Models", 2023,
    sections 2.1 and 2.2. Pairs of channels of queries and keys are rotated by t 10000^(-2j/E). The
    normalization is that of each head, without weights; the paper's further divisors of the scores
    cancel in it. Initial weights are those of the authors' code.
    """

    log_decay: Tensor

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.heads = spec["h"]
        self.widths = 2 * spec["d_k"], spec["d_v"], spec["d_v"]
        keys, values = spec["d_k"], spec["d_v"]
        self.projections = stacked_projection(spec.input_width, (keys, keys, values, values))
        self.output = Linear(values, spec.width, bias=False)
        nn.init.xavier_uniform_(self.output.weight)
        self.rotation = Rotation(keys // self.heads)
        self.register_buffer("log_decay", computed(self._log_decay), persistent=False)

    def _log_decay(self) -> Tensor:
        """log(1 - 2^(-5 - i)) for each head i."""
        decays = 1.0 - 2.0 ** (-5.0 - torch.arange(self.heads, dtype=torch.float64))
        return decays.log().float()

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        both, value, gate = self.projections(x).split(self.widths, dim=-1)
        query, key = (
            split_heads(part, self.heads) for part in self.rotation(both, context).chunk(2, dim=-1)
        )
        log_decay = self.log_decay.view(1, -1, 1, 1).expand(-1, -1, x.size(1), -1)
        attended = attend(
            query,
            key,
            split_heads(value, self.heads),
            log_decay,
            context,
            context.layer_state(self),
        )
        # As if queries had been divided by sqrt(E).
        epsilon = EPSILON * query.size(-1)
        normalized = F.layer_norm(attended, attended.shape[-1:], eps=epsilon)
        return self.output(gated(normalized, gate))


@implements("gla")
class GatedLinearAttentionLayer(nn.Module):
    """``gla``: a = sigmoid(W_2 W_1 x + b)^(1/16), y = W_O (swish(W_R x) * rms_norm(o)).

    Yang et al., "Gated Linear Attention Transformers with Hardware-Efficient Training", ICML 2024,
    section 4.4, with the normalization and the initial weights of the authors' code: each head is
    divided by its root mean square, and all heads share its weights.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.heads = spec["h"]
        keys, values = spec["d_k"], spec["d_v"]
        self.widths = keys, keys, values, values, GATE_RANK
        self.projections = stacked_projection(spec.input_width, self.widths)
        self.gates = Linear(GATE_RANK, keys)
        nn.init.xavier_uniform_(self.gates.weight, GAIN)
        nn.init.zeros_(self.gates.bias)
        self.norm_weight = nn.Parameter(torch.ones(values // self.heads))
        self.output = stacked_projection(values, (spec.width,))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        query, key, value, gate, low_rank = self.projections(x).split(self.widths, dim=-1)
        log_decay = F.logsigmoid(single_precision(self.gates(low_rank))).div_(GATE_ROOT)
        query, key, value, log_decay = (
            split_heads(part, self.heads) for part in (query, key, value, log_decay)
        )
        attended = attend(query, key, value, log_decay, context, context.layer_state(self))
        # As if queries had been divided by sqrt(E).
        epsilon = EPSILON * query.size(-1)
        return self.output(gated(rms_norm(attended, self.norm_weight, epsilon), gate))


@implements("mamba2")
class Mamba2Layer(nn.Module):
    """``mamba2``: S_t = exp(-dt_t A) S_(t-1) + B_t (dt_t x_t)^T, y_t = C_t S_t + D x_t.

    Dao and Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through
    Structured State Space Duality", ICML 2024, sections 6 and 7.1. x, B and C, and the gate z, are
    projections of the input; swish follows a convolution of x, B and C; dt = softplus(W u + b). The
    output is W_O rms_norm(y * swish(z)). All heads share B and C. Initial weights are those of the
    authors' code.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.heads, state, inner = spec["h"], spec["n"], inner_width(spec)
        self.widths = inner, convolved_width(spec), self.heads
        self.convolved = inner, state, state
        self.projections = Linear(spec.input_width, sum(self.widths), bias=False)
        bound = spec["k"] ** -0.5
        self.convolution = nn.Parameter(torch.empty(spec["k"], convolved_width(spec)))
        self.convolution_bias = nn.Parameter(torch.empty(convolved_width(spec)))
        for parameter in (self.convolution, self.convolution_bias):
            nn.init.uniform_(parameter, -bound, bound)
        self.dt_bias = nn.Parameter(computed(self._initial_dt_bias))
        self.log_a = nn.Parameter(
            computed(lambda: torch.empty(self.heads).uniform_(SLOWEST, FASTEST).log())
        )
        self.skip = nn.Parameter(torch.ones(self.heads))
        self.norm_weight = nn.Parameter(torch.ones(inner))
        self.output = Linear(inner, spec.width, bias=False)

    def _initial_dt_bias(self) -> Tensor:
        """Numbers whose softplus is between SHORTEST and LONGEST."""
        dt = torch.empty(self.heads).uniform_(math.log(SHORTEST), math.log(LONGEST)).exp()
        return dt + torch.log(-torch.expm1(-dt))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        state, mask = context.layer_state(self), context.padding_mask
        gate, inputs, dt = self.projections(x).split(self.widths, dim=-1)
        if state is not None and mask is not None:
            inputs = inputs.masked_fill(mask.unsqueeze(-1), 0.0)
        convolved = causal_depthwise_conv1d(inputs, self.convolution, self.convolution_bias, state)
        value, key, query = F.silu(convolved).split(self.convolved, dim=-1)
        dt = F.softplus(dt.to(value.dtype) + self.dt_bias)
        log_decay = -dt * self.log_a.to(value.dtype).exp()
        y = attend(
            query.unsqueeze(1),
            key.unsqueeze(1),
            split_heads(value, self.heads),
            log_decay.transpose(1, 2).unsqueeze(-1),
            context,
            state,
            key_scale=dt.transpose(1, 2).unsqueeze(-1),
            skip=self.skip,
        )
        normalized = rms_norm(gated(y, gate), self.norm_weight, EPSILON)
        return self.output(normalized.to(gate.dtype))
