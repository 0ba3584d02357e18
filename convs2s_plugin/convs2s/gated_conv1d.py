"""1-D convolution with a gated linear unit: over a whole sequence, or step by step."""

from torch import Tensor, nn
from torch.nn import functional as F

from ..decoding.state import State, child
from ..nn.dropout import Dropout
from ..nn.unfold import conv1d
from ..nn.weight_norm import WeightNormLinear


class GatedConv1d(nn.Module):
    """Dropout, convolution to twice the channels, GLU (ConvS2S, section 3.2).

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
        self, x: Tensor, padding_mask: Tensor | None = None, state: State | None = None
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
        weight = self.linear.weight_in(child(state, "linear"))
        out = conv1d(x, weight, self.linear.bias, self.kernel_size, causal=self.causal, state=state)
        return F.glu(out, dim=-1)
