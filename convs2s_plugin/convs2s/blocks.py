"""The layers of one side of ConvS2S: convolutions, residuals, attention."""

import math
from typing import Any

from torch import Tensor, nn

from ..decoding.state import State, child
from ..nn.weight_norm import WeightNormLinear
from .gated_conv1d import GatedConv1d
from .layer_lists import ConvSpec
from .multi_step_attention import MultiStepAttention


class ConvBlocks(nn.Module):
    """The layers of one side: convolutions with residuals, and attention where there is any.

    Args:
        layers: channels, kernel width and residual of each layer; the input has the channels of
            the first.
        causal: whether a position may see later ones (False: encoder).
        dropout: probability of dropping a convolution's input.
        attention: which layers attend to the source (none by default).
        embed_dim: E of keys, values and target embeddings, for attention.
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
        widths = [layers[0].channels]
        for i, layer in enumerate(layers):
            self.convolutions.append(
                GatedConv1d(widths[-1], layer.channels, layer.kernel_size, causal, dropout)
            )
            if layer.residual and widths[-layer.residual] != layer.channels:
                self.residuals[str(i)] = WeightNormLinear(widths[-layer.residual], layer.channels)
            if attention and attention[i]:
                self.attention[str(i)] = MultiStepAttention(layer.channels, embed_dim)
            widths.append(layer.channels)

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        source: dict[str, Any] | None = None,
        target_embedding: Tensor | None = None,
        state: State | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Run all layers.

        Args:
            x: B x T x C; sums of layers are made in its precision.
            padding_mask: B x T, True at padding, or None.
            source: the encoder's output, where layers attend.
            target_embedding: B x T x E, where layers attend.
            state: what the layers remember in generation.
            need_weights: whether to return the attention weights (False).
        Returns:
            B x T x C' and the attention weights B x T x S, averaged over the layers that attend
            (None if they are not needed, and if no layer attends).
        """
        outputs, attention = [x], None
        for i, convolution in enumerate(self.convolutions):
            name = str(i)
            # Under autocast a product's output is of low precision; the sums below are not.
            x = convolution(x, padding_mask, child(state, f"convolution{i}")).to(outputs[0].dtype)
            if name in self.attention:
                x, attended = self.attention[name](
                    x,
                    target_embedding,
                    source["encoder_out"],
                    source["encoder_values"],
                    source["encoder_padding_mask"],
                    source["encoder_lengths"],
                    child(state, f"attention{i}"),
                    need_weights,
                )
                if attended is not None:
                    share = attended / len(self.attention)
                    attention = share if attention is None else attention + share
            if self.layers[i].residual:
                residual = outputs[-self.layers[i].residual]
                if name in self.residuals:
                    residual = self.residuals[name](residual, child(state, f"residual{i}"))
                x = (x + residual).mul_(math.sqrt(0.5))
            outputs.append(x)
        return x, attention
