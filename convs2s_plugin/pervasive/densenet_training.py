"""The computation of the 2-D DenseNet: one way forwards, one way back.

Training keeps the features, the output of each 1x1 convolution and what dropout drew; all else
is computed again on the way back, so that memory grows linearly with the number of layers.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn.dropout import draw_kept, drop
from ..nn.linear import relu_backward_
from .batch_norm import (
    BatchNorm,
    BatchStats,
    RunningStats,
    normalize,
    normalize_backward,
    stats_backward,
)
from .causal_conv2d import causal_conv2d, causal_conv2d_backward
from .feature_buffer import FeatureBuffer, FeatureGradients
from .grid import Grid


class LayerWeights(NamedTuple):
    """The parameters of a layer; a transition has no ``conv2``.

    Attributes:
        norm1_weight, norm1_bias: C, the scale and shift of what the layer reads.
        conv1: H x C, a 1x1 convolution.
        norm2_weight, norm2_bias: H.
        conv2: O x H x ceil(k/2) x k, a convolution over this and earlier target positions.
    """

    norm1_weight: Tensor
    norm1_bias: Tensor
    conv1: Tensor
    norm2_weight: Tensor
    norm2_bias: Tensor
    conv2: Tensor | None = None


class SavedActivations(NamedTuple):
    """What the way back needs of a layer.

    Attributes:
        hidden: N x H, the output of the 1x1 convolution.
        stats: of ``hidden``.
        ungated: N x 2g, the input of the gate, or None.
        kept: N x g, which of the new features dropout kept, or None for all.
    """

    hidden: Tensor
    stats: BatchStats
    ungated: Tensor | None = None
    kept: Tensor | None = None


class TrainingPass(NamedTuple):
    """What a pass knows besides tensors that have gradients.

    Attributes:
        grid: the real cells.
        channels: C of all layers together.
        features: keeps the stats of the features.
        norms: keep the stats of each layer's 1x1 convolution, the transition's last.
        gated: halves of the convolutions' outputs gate the other halves.
        dropout: probability of dropping a new feature.
        shared: stats are those of all workers.
    """

    grid: Grid
    channels: int
    features: RunningStats
    norms: list[BatchNorm]
    gated: bool
    dropout: float
    shared: bool

    def forward(
        self,
        x: Tensor,
        layers: list[LayerWeights],
        records: list[SavedActivations] | None = None,
    ) -> tuple[Tensor, FeatureBuffer]:
        """From the grid's first features to its last.

        Args:
            x: N x C', the first features.
            layers: their weights; a transition comes last.
            records: where to leave what the way back needs; None where nobody goes back.
        Returns:
            N x C and the features of all layers.
        """
        buffer = FeatureBuffer.empty(len(x), self.channels, x)
        buffer.write(0, x, self.features(x, 0, self.shared))
        end = x.size(1)
        for layer, norm in zip(layers, self.norms):
            hidden = buffer.read(layer.norm1_weight, layer.norm1_bias, layer.conv1.to(x.dtype))
            stats = norm(hidden, 0, self.shared)
            record = SavedActivations(hidden, stats)
            rectified = normalize(hidden, stats, layer.norm2_weight, layer.norm2_bias).relu_()
            if layer.conv2 is None:
                out = rectified
            else:
                new = causal_conv2d(self.grid.unpack(rectified), layer.conv2)
                new = self.grid.pack(new[:, : self.grid.steps])
                if self.gated:
                    record = record._replace(ungated=new)
                    new = F.glu(new, dim=-1)
                if self.dropout:
                    kept = draw_kept(new, self.dropout)
                    record = record._replace(kept=kept)
                    new = drop(new, kept, self.dropout)
                buffer.write(end, new, self.features(new, end, self.shared))
                end += new.size(1)
            if records is not None:
                records.append(record)
        if layers[-1].conv2 is not None:
            out = buffer.cells()
        return out, buffer

    def backward(
        self,
        grad: Tensor,
        layers: list[LayerWeights],
        buffer: FeatureBuffer,
        records: list[SavedActivations],
    ) -> tuple[Tensor, list[LayerWeights]]:
        """From the gradient of the last features to that of the first and of all weights.

        Args:
            grad: N x C, of what ``forward`` returned.
            layers, buffer, records: as ``forward`` got and left them.
        """
        gradients = FeatureGradients(buffer, self.shared)
        direct = grad if layers[-1].conv2 is not None else None
        weights = []
        end = self.channels
        for layer, record in zip(reversed(layers), reversed(records)):
            of_conv2 = None
            rectified = normalize(
                record.hidden, record.stats, layer.norm2_weight, layer.norm2_bias
            ).relu_()
            if layer.conv2 is not None:
                start = end - growth(layer, self.gated)
                grad = gradients.write(start, end)
                if direct is not None:
                    grad += direct[:, start:end]
                if record.kept is not None:
                    grad = drop(grad, record.kept, self.dropout)
                if record.ungated is not None:
                    grad = torch.ops.aten.glu_backward(grad, record.ungated, -1)
                grad, of_conv2 = causal_conv2d_backward(
                    self.grid.unpack(grad), self.grid.unpack(rectified), layer.conv2
                )
                grad = self.grid.pack(grad)
                end = start
            grad = relu_backward_(grad, rectified)
            full, of_weight, of_bias = self._through_norm2(grad, layer, record)
            back = full.__getitem__
            read = gradients.read(
                back, layer.norm1_weight, layer.norm1_bias, layer.conv1.to(grad.dtype)
            )
            weights.append(LayerWeights(*read, of_weight, of_bias, of_conv2))
        grad = gradients.write(0, end)
        if direct is not None:
            grad += direct[:, :end]
        return grad, weights[::-1]

    def _through_norm2(self, grad, layer, record):
        hidden, stats = record.hidden, record.stats
        grad, of_weight, of_bias = normalize_backward(
            grad, hidden, stats, layer.norm2_weight, (True, True, True)
        )
        if stats.cells is not None:
            scale = layer.norm2_weight.to(of_weight.dtype)
            weight, bias = stats_backward(stats, of_bias * scale, of_weight * scale, self.shared)
            grad += normalize(hidden, stats, weight, bias)
        return grad, of_weight, of_bias


def growth(layer: LayerWeights, gated: bool) -> int:
    """How many features a layer adds."""
    return len(layer.conv2) // 2 if gated else len(layer.conv2)


class DenseNetFunction(torch.autograd.Function):
    """A pass whose way back is ours.

    Called with the pass, the first features N x C' and all weights one by one (in the order of
    ``LayerWeights``, ``conv2`` of a transition left out); returns the last features N x C.
    """

    @staticmethod
    def forward(ctx, plan: TrainingPass, x: Tensor, *weights: Tensor) -> Tensor:
        layers, records = _layers(weights), []
        with torch.autocast(x.device.type, enabled=False):
            out, buffer = plan.forward(x, layers, records=records)
        ctx.plan, ctx.cells = plan, [buffer.stats.cells, *(r.stats.cells for r in records)]
        tensors = [*weights, *buffer.blocks, *buffer.stats[:2]]
        for hidden, stats, ungated, kept in records:
            tensors += [hidden, *stats[:2], ungated, kept]
        ctx.sizes = [len(weights), len(buffer.blocks)]
        ctx.save_for_backward(*tensors)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):
        tensors = iter(ctx.saved_tensors)
        weights, blocks = ([next(tensors) for _ in range(size)] for size in ctx.sizes)
        cells = iter(ctx.cells)
        buffer = FeatureBuffer(blocks, BatchStats(next(tensors), next(tensors), next(cells)))
        records = []
        for count in cells:
            hidden, mean, var, ungated, kept = (next(tensors) for _ in range(5))
            records.append(SavedActivations(hidden, BatchStats(mean, var, count), ungated, kept))
        with torch.autocast(grad.device.type, enabled=False):
            grad, layers = ctx.plan.backward(grad, _layers(weights), buffer, records)
        flat = [gradient for layer in layers for gradient in layer if gradient is not None]
        return (None, grad, *(g.to(w.dtype) for g, w in zip(flat, weights)))


def _layers(weights) -> list[LayerWeights]:
    """Weights one by one as layers: six each, but for a transition, which has five."""
    return [LayerWeights(*weights[i : i + 6]) for i in range(0, len(weights), 6)]
