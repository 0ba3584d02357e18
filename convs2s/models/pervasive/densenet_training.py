"""The training pass of the 2-D DenseNet: one forward pass and one backward pass for all layers.

The forward pass saves the features, the output of each 1x1 convolution and the dropout masks. The
backward pass recomputes everything else, so that memory grows linearly with the number of layers.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...nn.dropout import Dropout
from ...nn.gradient import first_derivatives_only
from ...nn.linear import relu_backward_
from .batch_norm import BatchStats, RunningStats, normalize, normalize_backward, stats_backward
from .causal_conv2d import causal_conv2d, causal_conv2d_backward
from .feature_buffer import FeatureBuffer, FeatureGradients
from .grid import Grid


class LayerWeights(NamedTuple):
    """The parameters of a layer; a transition has no ``conv2``.

    Attributes:
        norm1_weight, norm1_bias: C, the scale and shift of the first normalization.
        conv1: H x C, a 1x1 convolution.
        norm2_weight, norm2_bias: H, the scale and shift of the second normalization.
        conv2: O x H x P x k, a convolution over the current and previous target positions.
    """

    norm1_weight: Tensor
    norm1_bias: Tensor
    conv1: Tensor
    norm2_weight: Tensor
    norm2_bias: Tensor
    conv2: Tensor | None = None


class SavedActivations(NamedTuple):
    """The tensors of one layer that the backward pass needs.

    Attributes:
        hidden: N x H, the output of the 1x1 convolution.
        stats: the batch statistics of ``hidden``.
        ungated: N x 2g, the input of the gate, or None.
        mask: N x g, the dropout mask of the new features, or None.
    """

    hidden: Tensor
    stats: BatchStats
    ungated: Tensor | None = None
    mask: Tensor | None = None


class TrainingPass(NamedTuple):
    """The parts of a forward and backward pass that have no gradient.

    Attributes:
        grid: the grid of the N cells.
        channels: C, the channels of all layers together, without a transition.
        features: the running statistics of the features.
        norms: the running statistics after each layer's 1x1 convolution, a transition's last.
        gated: whether half of each convolution's outputs gate the other half.
        dropout: the dropout on new features.
        all_workers: whether batch statistics include the cells of all workers.
    """

    grid: Grid
    channels: int
    features: RunningStats
    norms: list[RunningStats]
    gated: bool
    dropout: Dropout
    all_workers: bool

    def forward(
        self,
        x: Tensor,
        layers: list[LayerWeights],
        saved: list[SavedActivations] | None = None,
    ) -> tuple[Tensor, FeatureBuffer]:
        """Map the grid's first features to its last.

        Args:
            x: N x C', the first features.
            layers: the weights, a transition's last.
            saved: a list to append each layer's activations to; None if no backward pass is
                needed.
        Returns:
            N x C, or N x the output channels of a transition; and the features of all layers.
        """
        buffer = FeatureBuffer.empty(len(x), self.channels, x)
        buffer.write(0, x, self.features(x, 0, self.all_workers))
        end = x.size(1)
        for layer, norm in zip(layers, self.norms):
            hidden = buffer.read(layer.norm1_weight, layer.norm1_bias, layer.conv1.to(x.dtype))
            stats = norm(hidden, 0, self.all_workers)
            rectified = normalize(hidden, stats, layer.norm2_weight, layer.norm2_bias).relu_()
            ungated = mask = None
            if layer.conv2 is None:
                out = rectified
            else:
                new = causal_conv2d(self.grid.unpack(rectified), layer.conv2)
                new = self.grid.pack(new[:, : self.grid.target_len])
                if self.gated:
                    ungated = new
                    new = F.glu(new, dim=-1)
                mask = self.dropout.sample_mask(new)
                new = self.dropout.apply_mask(new, mask)
                buffer.write(end, new, self.features(new, end, self.all_workers))
                end += new.size(1)
            if saved is not None:
                saved.append(SavedActivations(hidden, stats, ungated, mask))
        if layers[-1].conv2 is not None:
            out = buffer.cells()
        return out, buffer

    def backward(
        self,
        grad: Tensor,
        layers: list[LayerWeights],
        buffer: FeatureBuffer,
        saved: list[SavedActivations],
    ) -> tuple[Tensor, list[LayerWeights]]:
        """Compute the gradients of the first features and of all weights.

        Args:
            grad: N x C, the gradient of the output.
            layers: the weights, as in ``forward``.
            buffer, saved: the features and activations of the forward pass.
        """
        gradients = FeatureGradients(buffer, self.all_workers)
        # Without a transition, the features are the output.
        grad_features = grad if layers[-1].conv2 is not None else None
        grad_weights = []
        end = self.channels
        for layer, activations in zip(reversed(layers), reversed(saved)):
            grad_conv2: Tensor | None = None
            rectified = normalize(
                activations.hidden, activations.stats, layer.norm2_weight, layer.norm2_bias
            ).relu_()
            if layer.conv2 is None:
                # This gradient is autograd's, which may expand it or use it elsewhere.
                grad = grad.clone(memory_format=torch.contiguous_format)
            else:
                start = end - growth_rate(layer.conv2, self.gated)
                grad = gradients.write_backward(start, end)
                if grad_features is not None:
                    grad += grad_features[:, start:end]
                grad = self.dropout.apply_mask(grad, activations.mask)
                if activations.ungated is not None:
                    grad = torch.ops.aten.glu_backward(grad, activations.ungated, -1)
                grad, grad_conv2 = causal_conv2d_backward(
                    self.grid.unpack(grad), self.grid.unpack(rectified), layer.conv2
                )
                grad = self.grid.pack(grad)
                end = start
            grad = relu_backward_(grad, rectified)
            grad_hidden, grad_weight, grad_bias = self._norm2_backward(grad, layer, activations)
            grad_read = gradients.read_backward(
                grad_hidden.__getitem__,
                layer.norm1_weight,
                layer.norm1_bias,
                layer.conv1.to(grad.dtype),
            )
            grad_weights.append(LayerWeights(*grad_read, grad_weight, grad_bias, grad_conv2))
        grad = gradients.write_backward(0, end)
        if grad_features is not None:
            grad += grad_features[:, :end]
        return grad, grad_weights[::-1]

    def _norm2_backward(
        self, grad: Tensor, layer: LayerWeights, activations: SavedActivations
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of a layer's hidden activations, and of its second scale and shift."""
        hidden, stats = activations.hidden, activations.stats
        grad_hidden, grad_weight, grad_bias = normalize_backward(
            grad, hidden, stats, layer.norm2_weight
        )
        if stats.num_cells is not None:
            scale = layer.norm2_weight.to(grad_weight.dtype)
            weight, bias = stats_backward(
                stats, grad_bias * scale, grad_weight * scale, self.all_workers
            )
            grad_hidden += normalize(hidden, stats, weight, bias)
        return grad_hidden, grad_weight, grad_bias


def growth_rate(conv2: Tensor, gated: bool) -> int:
    """The number of channels that a layer with this masked convolution adds."""
    return len(conv2) // 2 if gated else len(conv2)


class DenseNetFunction(torch.autograd.Function):
    """A training pass as one operation of automatic differentiation.

    Its arguments are the pass, the first features N x C' and all weights, layer by layer in the
    order of ``LayerWeights`` (without the missing ``conv2`` of a transition). It returns the last
    features.
    """

    @staticmethod
    def forward(ctx: Any, training_pass: TrainingPass, x: Tensor, *weights: Tensor) -> Tensor:
        saved: list[SavedActivations] = []
        with torch.autocast(x.device.type, enabled=False):
            out, buffer = training_pass.forward(x, _layers(weights), saved)
        ctx.training_pass = training_pass
        tensors: list[Tensor | None] = [*weights, *buffer.blocks, *buffer.stats]
        for hidden, stats, ungated, mask in saved:
            tensors += [hidden, *stats, ungated, mask]
        ctx.sizes = [len(weights), len(buffer.blocks)]
        ctx.save_for_backward(*tensors)
        return out

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = iter(ctx.saved_tensors)
        weights, blocks = (list(islice(tensors, size)) for size in ctx.sizes)
        buffer = FeatureBuffer(blocks, BatchStats(*islice(tensors, 3)))
        layers, saved = _layers(weights), []
        for _ in layers:
            hidden, stats = next(tensors), BatchStats(*islice(tensors, 3))
            saved.append(SavedActivations(hidden, stats, *islice(tensors, 2)))
        with torch.autocast(grad.device.type, enabled=False):
            grad, grad_layers = ctx.training_pass.backward(grad, layers, buffer, saved)
        flat = [gradient for layer in grad_layers for gradient in layer if gradient is not None]
        return (None, grad, *(g.to(w.dtype) for g, w in zip(flat, weights)))


def _layers(weights: Sequence[Tensor]) -> list[LayerWeights]:
    """Group the weights by layer: six each, five for a transition."""
    return [LayerWeights(*weights[i : i + 6]) for i in range(0, len(weights), 6)]
