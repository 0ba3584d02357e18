"""A 1-D convolution with a gated linear unit."""

from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.conv1d import conv1d
from ...nn.dropout import Dropout
from ...nn.linear import WeightNormLinear
from ...nn.state import State


class GatedConv1d(nn.Module):
    """Dropout, a convolution to 2C' channels, and a gated linear unit (GLU) to C' channels.

    Gehring et al. 2017, section 3.2.

    Args:
        in_channels: C.
        out_channels: C'.
        kernel_size: k, odd or even.
        causal: whether position t reads the positions t - k + 1 to t (decoder). Otherwise the
            kernel is centered on t, and an even kernel reads one more position on the right.
        dropout: dropout probability at the input (0).
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
        self, x: Tensor, padding_mask: Tensor | None = None, state: State | None = None
    ) -> Tensor:
        """Convolve R x T x C to R x T x C'.

        Args:
            x: R x T x C; in incremental decoding, the T new positions.
            padding_mask: R x T, True at padding, which is read as zeros; None if there is none.
            state: the incremental state, with the last k - 1 inputs of a causal convolution; None
                outside incremental decoding.
        """
        x = self.dropout(x)
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        weight = self.linear.effective_weight()
        out = conv1d(x, weight, self.linear.bias, self.kernel_size, causal=self.causal, state=state)
        return F.glu(out, dim=-1)
