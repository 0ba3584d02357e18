"""The gated attention of MEGA (Ma et al., "Mega: Moving Average Equipped Gated Attention", 2023).

Both layers replace a part of their input: a gate u mixes it with a candidate, (1 - u) x + u h, so
they need no residual layer around them. Scores have a learned bias for each distance.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.dropout import Dropout
from ....nn.linear import Linear, to_autocast_dtype
from ..context import Context
from ..language.layers.gated_attention import gate_widths, max_distance
from ..language.spec import LayerSpec
from .attention import AttentionLayer
from .common import implements, reverse
from .moving_average import MovingAverageLayer
from .relative_positions import DistanceMask, LearnedBiases


def normal_linear(inputs: int, outputs: int) -> Linear:
    """A linear map with normal weights, as in the authors' code, and biases of zero."""
    built = Linear(inputs, outputs)
    nn.init.normal_(built.weight, std=0.02)
    nn.init.zeros_(built.bias)
    return built


def let_in(x: Tensor, candidate: Tensor, update: Tensor) -> Tensor:
    """(1 - u) x + u h for the gate u = sigmoid(update), in the precision of x."""
    return torch.lerp(x, candidate.to(x.dtype), update.to(x.dtype).sigmoid())


class AveragedInput(nn.Module):
    """silu(averages + w * x), with averages of both directions in an encoder (section 3.1).

    Those from the right exclude the position itself, which those from the left include.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.forwards = MovingAverageLayer(spec)
        self.backwards = None if spec.in_decoder else MovingAverageLayer(spec)
        self.weight = nn.Parameter(torch.empty(spec.input_width))
        nn.init.normal_(self.weight)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        y = self.forwards(x, context) + x * self.weight.to(x.dtype)
        if self.backwards is not None:
            given = self.backwards.coefficients(torch.promote_types(x.dtype, torch.float32))
            own = (given.gain * given.eta).sum(dim=1).to(x.dtype)
            mask = context.padding_mask
            backwards = reverse(self.backwards(reverse(x, mask), context), mask)
            y = y + (backwards - own * x)
        return F.silu(y)


@implements("mega_self_att")
class MegaSelfAttentionLayer(AttentionLayer):
    """``mega_self_att``: values of the input, queries, keys and gates of its averages.

    Section 3.2, with the softmax and the "simple" distances of the authors' code.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__(spec, scale=spec["d_k"] ** -0.5)
        width, self.widths = spec.input_width, gate_widths(spec)
        self.averages = AveragedInput(spec)
        self.values = normal_linear(width, spec["d_v"])
        self.gates = normal_linear(width, sum(self.widths))
        self.output = normal_linear(spec["d_v"], width)
        # Those of queries, then those of keys
        self.scales = nn.Parameter(torch.empty(2 * spec["d_k"]))
        self.shifts = nn.Parameter(torch.zeros(2 * spec["d_k"]))
        nn.init.normal_(self.scales, std=0.02)
        self.biases = LearnedBiases(max_distance(spec))
        self.distances = DistanceMask(self.causal, None, self.biases)
        # As in the authors' code: --dropout is for averages and candidates.
        self.channel_dropout = Dropout(spec.settings.dropout)
        self.value_dropout = Dropout(spec["hidden_dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map R x T x C to R x T x C.

        Raises:
            SequenceTooLong: if a sentence is longer than the options allow.
        """
        self.biases.check_length(context.longest)
        averages = self.channel_dropout(self.averages(x, context))
        gates = self.gates(to_autocast_dtype(averages))
        update, shared, reset, candidate = gates.split(self.widths, dim=-1)
        shared = F.silu(shared).repeat(1, 1, 2) * self.scales + self.shifts
        query, keys = shared.to(gates.dtype).chunk(2, dim=-1)
        values = self.value_dropout(F.silu(self.values(to_autocast_dtype(x))))
        attended = self.attend_to_sentence(query, keys, values, context)
        candidate = F.silu(candidate + self.output(attended * F.silu(reset)))
        return let_in(x, self.channel_dropout(candidate), update)


@implements("mega_src_att")
class MegaSourceAttentionLayer(AttentionLayer):
    """``mega_src_att``: the authors' gated attention to the source, which is only in their code."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec, scale=spec["d_k"] ** -0.5)
        assert spec.source_width is not None
        width, keys = spec.input_width, spec["d_k"]
        self.query_widths, self.source_widths = [width, width, keys], [keys, width]
        self.queries = normal_linear(width, sum(self.query_widths))
        self.keys_values = normal_linear(spec.source_width, sum(self.source_widths))
        self.output = normal_linear(width, width)
        self.biases = LearnedBiases(max_distance(spec))
        self.channel_dropout = Dropout(spec.settings.dropout)
        self.value_dropout = Dropout(spec["hidden_dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map R x T x C to R x T x C.

        Raises:
            SequenceTooLong: if a sentence is longer than the options allow.
        """
        self.biases.check_length(context.longest)
        queries = self.queries(to_autocast_dtype(x))
        update, reset, query = queries.split(self.query_widths, dim=-1)
        attended = self.attend_to_source(query, context)
        candidate = F.silu(self.output(attended * F.silu(reset)))
        return let_in(x, self.channel_dropout(candidate), update)

    def kv_proj(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Keys and values of the source."""
        keys, values = self.keys_values(source).split(self.source_widths, dim=-1)
        return keys, self.value_dropout(F.silu(values))

    def source_mask(self, query: Tensor, keys: Tensor, context: Context) -> Tensor:
        """The biases of the distances between target and source positions, and the padding."""
        columns = torch.arange(keys.size(2), device=keys.device)
        positions = context.positions
        if positions.dim() == 2:
            # Hypotheses of a sentence are in one row, as their queries are.
            positions = positions.reshape(keys.size(0), -1)
        else:
            positions = positions.repeat(query.size(2) // positions.size(0))
        biases = self.biases(positions.unsqueeze(-1) - columns, query)
        padding = context.source.padding_mask
        if padding is None:
            return biases
        return torch.where(padding[:, None, None], float("-inf"), biases)
