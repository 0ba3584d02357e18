"""Lightweight and dynamic convolutions.

Wu et al., "Pay Less Attention with Lightweight and Dynamic Convolutions", ICLR 2019.
"""

import torch
from torch import Tensor, nn

from ....nn.conv1d import unfold
from ....nn.dropout import Dropout
from ....nn.softmax import softmax
from ..context import Context
from ..language.spec import LayerSpec
from .common import implements, xavier_linear


class _WeightedMean(nn.Module):
    """Means of k neighboring positions, with weights that the channels of a head share.

    Args:
        spec: the resolved layer.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.kernel_size, self.heads = spec["k"], spec["h"]
        self.causal = spec["padding"] == "causal"
        self.dropout = Dropout(spec["dropout"])

    def mean(self, x: Tensor, scores: Tensor, context: Context) -> Tensor:
        """The means, in which positions beyond the sentence and padding are zero.

        Args:
            x: B x T x C.
            scores: ... x h x k, the weights before the softmax, for each position or for all.
            context: the context of the pass.
        Returns:
            B x T x C.
        """
        if context.padding_mask is not None:
            x = x.masked_fill(context.padding_mask.unsqueeze(-1), 0.0)
        windows = unfold(x, self.kernel_size, causal=self.causal, state=context.layer_state(self))
        # B x T x k x h x C/h
        windows = windows.unflatten(-1, (self.kernel_size, self.heads, -1))
        exact = torch.promote_types(scores.dtype, torch.float32)
        shares = self.dropout(softmax(scores.to(exact)))
        shares = shares.transpose(-1, -2).unsqueeze(-1)
        return (windows * shares.to(x.dtype)).sum(dim=2).flatten(2)


@implements("light_conv")
class LightConvolutionLayer(_WeightedMean):
    """``light_conv``: y_t = sum_j softmax(w)_j x_(t+j) for each head."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec)
        self.scores = nn.Parameter(torch.empty(self.heads, self.kernel_size))
        # As the weight of a grouped convolution, h x 1 x k, with a fan-out of h k.
        nn.init.xavier_uniform_(self.scores.unsqueeze(1))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        return self.mean(x, self.scores, context)


@implements("dynamic_conv")
class DynamicConvolutionLayer(_WeightedMean):
    """``dynamic_conv``: y_t = sum_j softmax(W x_t)_j x_(t+j) for each head."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec)
        self.scores = xavier_linear(spec.input_width, self.heads * self.kernel_size, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        scores = self.scores(x).unflatten(-1, (self.heads, self.kernel_size))
        return self.mean(x, scores, context)
