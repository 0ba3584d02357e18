"""The stack of layers of a ConvS2S encoder or decoder."""

import math

from torch import Tensor, nn

from ...nn.linear import WeightNormLinear
from ...nn.state import State, child
from .gated_conv1d import GatedConv1d
from .layer_lists import ConvSpec
from .multi_step_attention import EncoderOutput, MultiStepAttention


class ConvBlocks(nn.Module):
    """A stack of layers: gated convolution, attention if wanted, residual connection.

    Gehring et al. 2017, sections 3.2 and 3.3.

    Args:
        layers: channels, kernel size and residual connection of each layer. The input has as many
            channels as the first layer.
        causal: whether convolutions read earlier positions only (decoder).
        dropout: dropout probability at the input of each convolution.
        attention: whether each layer attends to the source (default: none does).
        embed_dim: E of encoder output and target embedding; needed for attention.
    """

    def __init__(
        self,
        layers: list[ConvSpec],
        causal: bool,
        dropout: float,
        attention: list[bool] | None = None,
        embed_dim: int = 0,
    ):
        super().__init__()
        self.layers = layers
        self.convolutions = nn.ModuleList()
        self.residuals = nn.ModuleDict()
        self.attention = nn.ModuleDict()
        # Channels of the input and of all layers so far.
        channels = [layers[0].channels]
        for i, layer in enumerate(layers):
            self.convolutions.append(
                GatedConv1d(channels[-1], layer.channels, layer.kernel_size, causal, dropout)
            )
            if layer.residual and channels[-layer.residual] != layer.channels:
                self.residuals[str(i)] = WeightNormLinear(channels[-layer.residual], layer.channels)
            if attention and attention[i]:
                self.attention[str(i)] = MultiStepAttention(layer.channels, embed_dim)
            channels.append(layer.channels)

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        source: EncoderOutput | None = None,
        target_embedding: Tensor | None = None,
        state: State | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Run all layers.

        Args:
            x: R x T x C; its precision is that of the residual sums.
            padding_mask: R x T, True at padding, or None if there is no padding.
            source: the encoder output; needed for attention.
            target_embedding: R x T x E; needed for attention.
            state: the incremental state, or None.
            need_weights: whether to return attention weights (False).
        Returns:
            R x T x C', and the attention weights R x T x S of each layer that attends, by the index
            of the layer (empty if they are not needed).
        """
        outputs = [x]
        attention: dict[int, Tensor] = {}
        for i, convolution in enumerate(self.convolutions):
            name = str(i)
            # Under autocast the convolution has an output of lower precision.
            x = convolution(x, padding_mask, child(state, f"convolution{i}")).to(outputs[0].dtype)
            if name in self.attention:
                x, weights = self.attention[name](x, target_embedding, source, need_weights)
                if weights is not None:
                    attention[i] = weights
            if self.layers[i].residual:
                residual = outputs[-self.layers[i].residual]
                if name in self.residuals:
                    residual = self.residuals[name](residual)
                x = (x + residual).mul_(math.sqrt(0.5))
            outputs.append(x)
        return x, attention
