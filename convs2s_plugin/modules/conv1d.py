"""1-D convolution with a gated linear unit: over a whole sequence, or step by step."""

from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .dropout import Dropout
from .precision import autocast_to
from .state import State, child
from .weight_norm import WeightNormLinear


class GatedConv1d(nn.Module):
    """Dropout, convolution to twice the channels, GLU (ConvS2S, section 3.2).

    The k inputs of a position are laid side by side, so that the convolution is one matrix
    product with one weight layout, in training and in generation alike.

    Args:
        in_channels: C of the input.
        out_channels: C of the output.
        kernel_size: k, the number of positions that an output sees; even widths too.
        causal: see only this and earlier positions (decoder); centred otherwise, where an even
            kernel sees one more position to the right.
        dropout: probability of dropping an input channel (0).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        causal: bool,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.causal = causal
        self.dropout = Dropout(dropout)
        self.linear = WeightNormLinear(
            kernel_size * in_channels, 2 * out_channels, dropout=dropout, gain=4.0
        )

    def forward(
        self, x: Tensor, padding_mask: Optional[Tensor] = None, state: Optional[State] = None
    ) -> Tensor:
        """Convolve B x T x C to B x T x C'.

        Args:
            x: B x T x C; with a state, the T positions that follow those already seen.
            padding_mask: B x T, True where x is padding, which is read as zeros; None for none.
            state: where a causal convolution keeps its last k - 1 inputs; None for a full pass.
        """
        x = self.dropout(x)
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        windows = self._windows(autocast_to(x), state)
        return F.glu(self.linear(windows, child(state, "linear")), dim=-1)

    def _windows(self, x: Tensor, state: Optional[State]) -> Tensor:
        """The k inputs of each position side by side: B x T x kC."""
        k, length = self.kernel_size, x.size(1)
        if k == 1:
            return x
        if state is not None and "inputs" in state.rows:
            x = torch.cat([state.rows["inputs"], x], dim=1)
        elif self.causal:
            x = F.pad(x, (0, 0, k - 1, 0))
        else:
            x = F.pad(x, (0, 0, (k - 1) // 2, k // 2))
        if state is not None:
            state.rows["inputs"] = x[:, 1 - k :]
        if length == 1:
            return x.reshape(len(x), 1, -1)
        return torch.cat([x[:, i : i + length] for i in range(k)], dim=-1)
