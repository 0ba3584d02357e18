"""The 2-D DenseNet where stats are constants: normalisation is folded into the products."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn.dropout import Dropout
from ..nn.linear import linear
from .batch_norm import BatchStats
from .causal_conv2d import causal_conv2d, kernel
from .densenet_training import LayerWeights
from .grid import Grid

# Cells that a CPU normalises at a time, so that its cache holds what a layer reads of them.
CELLS = 1024


class FoldedLayer(NamedTuple):
    """A layer that computes relu(conv1 relu(scale x + shift) + bias), then ``conv2``.

    Attributes:
        scale, shift: C, the first normalisation.
        conv1: H x C, the 1x1 convolution times the scale of the second normalisation.
        bias: H, the shift of the second.
        conv2: O x H x ceil(k/2) x k, or None for a transition.
    """

    scale: Tensor
    shift: Tensor
    conv1: Tensor
    bias: Tensor
    conv2: Tensor | None = None


def fold(
    layer: LayerWeights, read: BatchStats, hidden: BatchStats, dtype: torch.dtype
) -> FoldedLayer:
    """A layer's weights with its constant stats in them.

    Args:
        layer: the weights.
        read: stats of the C channels that it reads.
        hidden: stats of the H channels after its 1x1 convolution.
        dtype: what is computed in.
    """
    scale = (layer.norm1_weight * read.inverse_std).to(dtype)
    # With the scale as it was rounded, so that the mean still comes out as the bias.
    shift = layer.norm1_bias - read.mean * scale
    outer = layer.norm2_weight * hidden.inverse_std
    return FoldedLayer(
        scale=scale,
        shift=shift.to(dtype),
        conv1=(layer.conv1 * outer.unsqueeze(1)).to(dtype),
        bias=(layer.norm2_bias - hidden.mean * outer).to(dtype),
        conv2=None if layer.conv2 is None else kernel(layer.conv2, dtype),
    )


def infer(
    x: Tensor,
    layers: list[FoldedLayer],
    grid: Grid,
    channels: int,
    gated: bool,
    dropout: Dropout,
    pending: list[Tensor] | None = None,
) -> Tensor:
    """From the grid's first features to its last, without a gradient.

    Args:
        x: N x C', the first features.
        layers: as they were folded; a transition comes last.
        grid: where the N cells are.
        channels: C of all layers together, but for the transition.
        gated: halves of the convolutions' outputs gate the other halves.
        dropout: of new features, for those who keep it in generation.
        pending: for each layer R x (ceil(k/2) - 1) x S x O, what earlier positions add to these
            and the next; replaced by what is pending then. None for nothing.
    Returns:
        N x C, or what a transition makes of it.
    """
    end = x.size(1)
    buffer = x.new_empty(len(x), channels)
    buffer[:, :end] = x
    for i, layer in enumerate(layers):
        hidden = _read(buffer[:, :end], layer)
        if layer.conv2 is None:
            return hidden
        new = causal_conv2d(grid.unpack(hidden), layer.conv2)
        if pending is not None:
            new[:, : pending[i].size(1)] += pending[i]
            pending[i][:] = new[:, grid.steps :]
        new = grid.pack(new[:, : grid.steps])
        if gated:
            new = F.glu(new, dim=-1)
        start, end = end, end + new.size(1)
        buffer[:, start:end] = dropout(new)
    return buffer


def _read(features: Tensor, layer: FoldedLayer) -> Tensor:
    """N x H of the N x C that a layer reads."""
    at_a_time = len(features) if features.is_cuda else CELLS
    hidden = [
        linear(torch.addcmul(layer.shift, cells, layer.scale).relu_(), layer.conv1, layer.bias)
        for cells in features.split(at_a_time)
    ]
    return (hidden[0] if len(hidden) == 1 else torch.cat(hidden)).relu_()
