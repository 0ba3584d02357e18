"""The inference pass of the 2-D DenseNet, with batch normalization folded into the weights."""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.dropout import Dropout
from ...nn.int8 import Int8Matrix, Weight, dense
from ...nn.linear import linear
from .batch_norm import BatchStats
from .causal_conv2d import causal_conv2d, causal_conv2d_by_cell, kernel, weight_by_cell
from .densenet_training import LayerWeights
from .grid import Grid

# Cells that a CPU normalizes at a time, so that their features stay in its cache.
CHUNK = 1024


class FoldedLayer(nn.Module):
    """A layer with constant statistics folded into its weights.

    It computes relu(conv1 relu(scale x + shift) + bias), followed by ``conv2``.

    Args:
        layer: the weights.
        input_stats: the statistics of its C input channels.
        hidden_stats: the statistics of the H channels after its 1x1 convolution.
        dtype: the type to compute in.

    Attributes:
        scale, shift: C, the first normalization.
        conv1: H x C, the 1x1 convolution times the scale of the second normalization.
        bias: H, the shift of the second normalization.
        conv2: O x H x P x k; PkO x H (``weight_by_cell``) in 8 bits; None for a transition.
        kernel_size: P and k if weights are in 8 bits, or None.
    """

    scale: Tensor
    shift: Tensor
    bias: Tensor

    def __init__(
        self,
        layer: LayerWeights,
        input_stats: BatchStats,
        hidden_stats: BatchStats,
        dtype: torch.dtype,
    ):
        super().__init__()
        scale = (layer.norm1_weight * input_stats.inverse_std).to(dtype)
        # The shift uses the rounded scale, so that the mean is still mapped to the bias.
        shift = layer.norm1_bias - input_stats.mean * scale
        hidden_scale = layer.norm2_weight * hidden_stats.inverse_std
        bias = layer.norm2_bias - hidden_stats.mean * hidden_scale
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift.to(dtype))
        self.register_buffer("bias", bias.to(dtype))
        self.conv1: Weight = (layer.conv1 * hidden_scale.unsqueeze(1)).to(dtype)
        self.conv2: Weight | None = None if layer.conv2 is None else kernel(layer.conv2, dtype)
        self.kernel_size: tuple[int, int] | None = None

    def quantize_(self) -> None:
        """Replace the weights of the convolutions with weights in 8 bits."""
        self.conv1 = Int8Matrix(dense(self.conv1))
        if self.conv2 is not None:
            conv2 = dense(self.conv2)
            self.kernel_size = conv2.size(2), conv2.size(3)
            self.conv2 = Int8Matrix(weight_by_cell(conv2))

    def convolve(self, x: Tensor) -> Tensor:
        """Apply ``conv2`` to R x T x S x H; see ``causal_conv2d``."""
        if self.kernel_size is None:
            return causal_conv2d(x, cast(Tensor, self.conv2))
        return causal_conv2d_by_cell(x, cast(Weight, self.conv2), self.kernel_size)


class InferencePass(NamedTuple):
    """The folded layers, and the other parts of a pass without a gradient.

    Attributes:
        layers: the folded layers, a transition last.
        channels: C, the channels of all layers together, without a transition.
        gated: whether half of each convolution's outputs gate the other half.
        dropout: the dropout on new features, active if dropout is retained in generation.
    """

    layers: list[FoldedLayer]
    channels: int
    gated: bool
    dropout: Dropout

    def forward(self, x: Tensor, grid: Grid, partial_sums: list[Tensor] | None = None) -> Tensor:
        """Map the grid's first features to its last.

        Args:
            x: N x C', the first features.
            grid: the grid of the N cells.
            partial_sums: for each layer R x (P - 1) x S x O, the contributions of earlier target
                positions to these positions and later ones; replaced by the sums for the
                positions after these. None if there are no earlier positions.
        Returns:
            N x C, or N x the output channels of a transition.
        """
        end = x.size(1)
        features = x.new_empty(x.size(0), self.channels)
        features[:, :end] = x
        for i, layer in enumerate(self.layers):
            hidden = _hidden(features[:, :end], layer)
            if layer.conv2 is None:
                return hidden
            new = layer.convolve(grid.unpack(hidden))
            if partial_sums is not None:
                new[:, : partial_sums[i].size(1)] += partial_sums[i]
                partial_sums[i][:] = new[:, grid.target_len :]
            new = grid.pack(new[:, : grid.target_len])
            if self.gated:
                new = F.glu(new, dim=-1)
            new = self.dropout.apply_mask(new, self.dropout.sample_mask(new))
            start, end = end, end + new.size(1)
            features[:, start:end] = new
        return features


def _hidden(features: Tensor, layer: FoldedLayer) -> Tensor:
    """The output N x H of a layer's 1x1 convolution, normalized and rectified, for N x C."""
    whole = features.is_cuda or torch.compiler.is_compiling()
    hidden = [
        linear(torch.addcmul(layer.shift, cells, layer.scale).relu_(), layer.conv1, layer.bias)
        for cells in ([features] if whole else features.split(CHUNK))
    ]
    return (hidden[0] if len(hidden) == 1 else torch.cat(hidden)).relu_()
