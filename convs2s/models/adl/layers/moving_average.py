"""The damped exponential moving average of MEGA."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.scan import linear_scan
from ..context import Context
from ..language.layers.moving_average import CHUNK
from ..language.spec import LayerSpec
from .common import implements
from .recurrent import save_state


class Coefficients(NamedTuple):
    """The coefficients of each channel's averages, C x n each.

    Attributes:
        gain: alpha beta, which a new input is multiplied by.
        log_decay: log(1 - alpha delta), negative.
        eta: weight in the output.
    """

    gain: Tensor
    log_decay: Tensor
    eta: Tensor


@implements("ema")
class MovingAverageLayer(nn.Module):
    """``ema``: y_t = sum_n eta_n h_tn, h_tn = alpha_n beta_n x_t + (1 - alpha_n delta_n) h_(t-1)n.

    Ma et al., "Mega: Moving Average Equipped Gated Attention", ICLR 2023, section 3.1, equations 2
    to 4. alpha and delta are between 0 and 1: the layer learns their logits. Initial weights are
    those of the authors' code, in which the sum is divided by the square root of n; here, the
    initial weights eta are.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        shape = spec.input_width, spec["n"]
        self.alpha, self.delta, self.beta, self.eta = (
            nn.Parameter(torch.empty(shape)) for _ in range(4)
        )
        nn.init.normal_(self.alpha, std=0.2)
        nn.init.normal_(self.delta, std=0.2)
        nn.init.normal_(self.beta, std=0.02)
        with torch.no_grad():
            self.beta[:, ::2] += 1.0
            self.beta[:, 1::2] -= 1.0
        nn.init.normal_(self.eta, std=spec["n"] ** -0.5)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        state = context.layer_state(self)
        exact = torch.promote_types(x.dtype, torch.float32)
        # Autocast would round averages to half precision.
        with torch.autocast(x.device.type, enabled=False):
            if state is None:
                y, _ = averages(x.to(exact), self.coefficients(exact))
                return y.to(x.dtype)
            given = state.constant("coefficients", lambda: self.coefficients(exact))
            before = state.rows.get("hidden")
            before = None if before is None else before.unflatten(1, given.gain.shape)
            compute = step if x.size(1) == 1 else averages
            y, after = compute(x.to(exact), given, before)
            save_state(state, after.flatten(1).unsqueeze(0), context.padding_mask)
        return y.to(x.dtype)

    def coefficients(self, dtype: torch.dtype) -> Coefficients:
        """The coefficients in one precision."""
        alpha, delta, beta, eta = (
            parameter.to(dtype) for parameter in (self.alpha, self.delta, self.beta, self.eta)
        )
        alpha = alpha.sigmoid()
        # A logarithm of 0, and its derivative, would have no bound.
        forgotten = (alpha * delta.sigmoid()).clamp_max(1.0 - torch.finfo(dtype).eps)
        return Coefficients(alpha * beta, torch.log1p(-forgotten), eta)


def step(x: Tensor, given: Coefficients, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """``averages`` for a single position."""
    hidden = given.gain * x.transpose(1, 2)
    if before is not None:
        hidden = torch.addcmul(hidden, given.log_decay.exp(), before)
    return (given.eta * hidden).sum(dim=2).unsqueeze(1), hidden


def averages(x: Tensor, given: Coefficients, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The sums of the averages: products in each chunk, plus what remains of earlier chunks.

    Args:
        x: B x T x C.
        given: the coefficients.
        before: averages before the first position, B x C x n; None for zeros.
    Returns:
        The sums, B x T x C, and the averages at the last position, B x C x n.
    """
    batch, length, channels = x.shape
    if isinstance(length, torch.SymInt):
        # In a graph, whose sentences have any length.
        updates = (x.unsqueeze(3) * given.gain).flatten(2)
        decay = given.log_decay.exp().flatten().expand_as(updates)
        scanned = linear_scan(decay, updates).unflatten(2, given.gain.shape)
        return (scanned * given.eta).sum(dim=3), scanned[:, -1]
    chunks = -(-length // CHUNK)
    size = -(-length // chunks)
    last = length - (chunks - 1) * size
    padded = F.pad(x, (0, 0, 0, size - last)) if last < size else x
    # C x B x chunks x L
    rows = _transpose(padded.flatten(0, 1)).view(channels, batch, chunks, size)
    # Decays of 0 to L positions, C x n x (L + 1)
    exponents = torch.arange(size + 1, dtype=x.dtype, device=x.device)
    powers = (given.log_decay.unsqueeze(2) * exponents).exp()
    kernel = ((given.gain * given.eta).unsqueeze(1) @ powers[:, :, :-1]).squeeze(1)
    # C x L x L: entry j, i is entry i - j of the kernel, or zero.
    toeplitz = F.pad(kernel, (size - 1, 0)).unfold(1, size, 1).flip(1).contiguous()
    y = rows.flatten(1, 2) @ toeplitz

    # The inputs of a chunk in the averages at its end, C x L x n
    inputs = (given.gain.unsqueeze(2) * powers[:, :, :-1].flip(2)).transpose(1, 2)
    hidden = x.new_zeros(channels, batch, 1) if before is None else before.transpose(0, 1)
    if chunks > 1 or before is not None:
        updates = (rows.flatten(1, 2) @ inputs).unflatten(1, (batch, chunks))
        starts = [hidden.expand_as(updates[:, :, 0])]
        for update in updates.unbind(2)[:-1]:
            starts.append(torch.addcmul(update, powers[:, :, -1].unsqueeze(1), starts[-1]))
        hidden = starts[-1]
        outputs = given.eta.unsqueeze(2) * powers[:, :, 1:]
        y = y + torch.stack(starts, dim=2).flatten(1, 2) @ outputs
    ends = rows[:, :, -1, :last] @ inputs[:, size - last :]
    after = torch.addcmul(ends, powers[:, :, last].unsqueeze(1), hidden)
    y = _transpose(y.flatten(1)).view(batch, chunks * size, channels)
    return y[:, :length], after.transpose(0, 1)


def _transpose(x: Tensor) -> Tensor:
    """A contiguous copy of a transposed matrix, with a contiguous gradient.

    Torch copies a transposed matrix in blocks, but other permutations number by number. Products of
    many small matrices are a hundred times slower if they are not contiguous.
    """
    return _Transpose.apply(x)


class _Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.t().contiguous()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _transpose(grad)
