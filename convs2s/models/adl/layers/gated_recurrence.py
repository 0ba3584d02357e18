"""Gated linear recurrences: their gates depend only on the input, so all matrix products of a
sentence are computed at once, and only ``linear_scan`` goes from position to position.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.conv1d import unfold
from ....nn.linear import single_precision, to_autocast_dtype
from ....nn.scan import linear_scan
from ....nn.state import State
from ....nn.uninitialized import computed
from ..context import Context
from ..language.spec import LayerSpec
from .common import ACTIVATIONS, implements, xavier_linear
from .recurrent import save_state

# The decays of rg_lru are initially between these, with all gates open (De et al. 2024).
SLOWEST, FASTEST = 0.999, 0.9
# How much gates shorten a decay at most, as an exponent.
SHARPNESS = 8.0
# The derivative of the square root has no bound at 0.
TINY = math.ulp(1.0)


def scan_from_state(
    decay: Tensor, update: Tensor, state: State | None, padding_mask: Tensor | None
) -> Tensor:
    """h_t = decay_t h_(t-1) + update_t, from the state of a layer, which keeps the last h.

    Args:
        decay: B x T x C.
        update: B x T x C.
        state: the incremental state of the layer; None in training.
        padding_mask: R x 1, True at padding, in a step of generation; None if there is none.
    Returns:
        B x T x C, in single precision or better.
    """
    before = None if state is None else state.rows.get("hidden")
    hidden = linear_scan(decay, update, before)
    if state is not None:
        save_state(state, hidden[:, -1].unsqueeze(0), padding_mask)
    return hidden


def gated_scan(
    forget: Tensor, candidate: Tensor, state: State | None, padding_mask: Tensor | None
) -> Tensor:
    """h_t = f_t h_(t-1) + (1 - f_t) z_t from the logits of f, and the candidate z.

    In bf16, every f above 0.998 would be 1, without a derivative.

    Args:
        forget, candidate: B x T x C.
        state, padding_mask: as for ``scan_from_state``.
    Returns:
        B x T x C, in the precision of ``candidate``.
    """
    decay = single_precision(forget).sigmoid()
    update = (1.0 - decay) * candidate
    return scan_from_state(decay, update, state, padding_mask).to(candidate.dtype)


@implements("qrnn")
class QuasiRecurrentLayer(nn.Module):
    """``qrnn``: c_t = f_t c_(t-1) + (1 - f_t) z_t, z and f from a causal convolution.

    This is the f-pooling of Bradbury et al. (2017), section 2.1.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.kernel_size = spec["k"]
        self.linear = xavier_linear(
            self.kernel_size * spec.input_width,
            2 * spec.width,
            parts=2,
            kernel_size=self.kernel_size,
        )
        self.activation = ACTIVATIONS[spec["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        state, mask = context.layer_state(self), context.padding_mask
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        inputs = unfold(to_autocast_dtype(x), self.kernel_size, causal=True, state=state)
        candidate, forget = self.linear(inputs).chunk(2, dim=-1)
        return gated_scan(forget, self.activation(candidate), state, mask)


class _GatedRecurrence(nn.Module):
    """h_t = f_t h_(t-1) + (1 - f_t) (W x_t + b), with one matrix for W and all gates.

    Args:
        spec: the resolved layer.
    """

    # The number of gates, plus one for the candidate.
    parts: int

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.linear = xavier_linear(spec.input_width, self.parts * spec.width, parts=self.parts)

    def forget(self, *gates: Tensor) -> Tensor:
        """The logits of f, from those of the gates, B x T x C' each."""
        raise NotImplementedError

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        candidate, *gates = self.linear(x).chunk(self.parts, dim=-1)
        state = context.layer_state(self)
        return gated_scan(self.forget(*gates), candidate, state, context.padding_mask)


@implements("ssru")
class SsruLayer(nn.Module):
    """``ssru``: y_t = max(0, c_t), c_t = f_t c_(t-1) + (1 - f_t) W x_t.

    Kim et al., "From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
    WNGT 2019. The candidate has no bias.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.candidate = xavier_linear(spec.input_width, spec.width, bias=False)
        self.forget = xavier_linear(spec.input_width, spec.width)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        state, mask = context.layer_state(self), context.padding_mask
        return gated_scan(self.forget(x), self.candidate(x), state, mask).relu()


@implements("min_gru")
class MinGruLayer(_GatedRecurrence):
    """``min_gru``: h_t = (1 - z_t) h_(t-1) + z_t (W x_t + b).

    Feng et al., "Were RNNs All We Needed?", 2024, section 3.1.
    """

    parts = 2

    def forget(self, *gates: Tensor) -> Tensor:
        """The logits of 1 - z."""
        return -gates[0]


@implements("min_lstm")
class MinLstmLayer(_GatedRecurrence):
    """``min_lstm``: h_t = f_t / (f_t + i_t) h_(t-1) + i_t / (f_t + i_t) (W x_t + b).

    Feng et al., "Were RNNs All We Needed?", 2024, section 3.2.
    """

    parts = 3

    def forget(self, *gates: Tensor) -> Tensor:
        """f / (f + i) is the sigmoid of log f - log i, which cannot divide by zero."""
        input_gate, forget_gate = map(single_precision, gates)
        return F.logsigmoid(forget_gate) - F.logsigmoid(input_gate)


def _initial_decay(channels: int) -> Tensor:
    """The logits of a, which keep a between 0 and 1: log a = -softplus(-logit)."""
    log_a = torch.empty(channels).uniform_(FASTEST, SLOWEST).log() / SHARPNESS
    return -torch.log(torch.expm1(-log_a))


@implements("rg_lru")
class RgLruLayer(nn.Module):
    """``rg_lru``: h_t = a_t h_(t-1) + sqrt(1 - a_t^2) i_t x_t, a_t = a^(8 r_t).

    De et al., "Griffin: Mixing Gated Linear Recurrences with Local Attention for Efficient Language
    Models", 2024, section 2.4. The gates i and r are those of the input and of the recurrence; a is
    learned for each channel.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        channels = spec.input_width
        self.linear = xavier_linear(channels, 2 * channels, parts=2)
        self.decay = nn.Parameter(computed(lambda: _initial_decay(channels)))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        input_gate, recurrence_gate = single_precision(self.linear(x)).sigmoid().chunk(2, dim=-1)
        log_a = -SHARPNESS * recurrence_gate * single_precision(F.softplus(-self.decay))
        # 1 - a^2 without cancellation where a is close to 1.
        scale = (-torch.expm1(2.0 * log_a)).clamp_min(TINY).sqrt()
        update = scale * input_gate * x
        state = context.layer_state(self)
        return scan_from_state(log_a.exp(), update, state, context.padding_mask).to(x.dtype)
