"""The masked 2-D DenseNet of pervasive attention (section 3, Figure 3)."""

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from ...nn.dropout import Dropout
from ...nn.linear import to_autocast_dtype
from ...nn.state import State
from .batch_norm import Affine, RunningStats, has_several_workers
from .densenet_inference import FoldedLayer, InferencePass
from .densenet_training import DenseNetFunction, LayerWeights, TrainingPass
from .grid import Grid
from .options import PervasiveOptions


class LayerParameters(nn.Module):
    """The parameters of BN, ReLU, 1x1, BN, ReLU and, unless it is a transition, a masked k x k.

    Args:
        channels: C, the input channels.
        hidden: H, the channels after the 1x1 convolution.
        out: O, the channels after the masked convolution; 0 for a transition, which has none (0).
        kernel_size: P target positions and k source positions of the masked convolution.
    """

    def __init__(
        self, channels: int, hidden: int, out: int = 0, kernel_size: tuple[int, int] = (1, 1)
    ):
        super().__init__()
        self.norm1 = Affine(channels)
        self.conv1 = nn.Parameter(torch.empty(hidden, channels))
        self.norm2 = RunningStats(hidden, affine=True)
        nn.init.normal_(self.conv1, std=math.sqrt(2 / channels))
        self.conv2 = None
        if out:
            self.conv2 = nn.Parameter(torch.empty(out, hidden, *kernel_size))
            nn.init.normal_(self.conv2, std=math.sqrt(2 / (hidden * math.prod(kernel_size))))

    def weights(self) -> LayerWeights:
        """The parameters in the form of a training or inference pass."""
        norm1, norm2 = self.norm1, self.norm2
        return LayerWeights(
            norm1.weight, norm1.bias, self.conv1, norm2.weight, norm2.bias, self.conv2
        )


class DenseNet2d(nn.Module):
    """A densely connected network over the grid, causal in the target.

    Args:
        options: the options of the network.
        channels: C of the grid's first features.
    """

    def __init__(self, options: PervasiveOptions, channels: int):
        super().__init__()
        self.options = options
        self.dropout = Dropout(options.dropout_of("convolution_dropout"))
        layers = []
        for _ in range(options.num_layers):
            layers.append(
                LayerParameters(
                    channels,
                    options.hidden_channels,
                    options.convolution_channels,
                    (options.target_kernel_size, options.kernel_size),
                )
            )
            channels += options.growth_rate
        self.channels = self.out_channels = channels
        if not options.no_transition:
            self.out_channels = channels // 2
            layers.append(LayerParameters(channels, self.out_channels))
        self.layers = nn.ModuleList(layers)
        self.features = RunningStats(channels)
        self.quantized = False

    @property
    def dense_layers(self) -> list[LayerParameters]:
        """The layers, a transition last."""
        return cast(list[LayerParameters], list(self.layers))

    def set_num_updates(self, num_updates: int) -> None:
        """Choose the statistics of an update; fairseq calls this before each.

        Args:
            num_updates: the number of updates before this one.
        """
        last = self.options.statistics_updates
        frozen = last is not None and num_updates >= last
        for stats in (self.features, *(layer.norm2 for layer in self.dense_layers)):
            stats.frozen = frozen

    def forward(self, x: Tensor, grid: Grid, state: State | None = None) -> Tensor:
        """Map the first features of the real cells to the last.

        Args:
            x: N x C, the first features.
            grid: the grid of the N cells; with a state, its T target positions follow those of
                earlier steps.
            state: the state of incremental decoding, in which no gradient is computed; None for
                a full pass.
        Returns:
            N x ``out_channels``.
        """
        device, x = x.device.type, to_autocast_dtype(x)
        infers = self.quantized or not (self.training or torch.is_grad_enabled())
        if state is not None or infers:
            with torch.no_grad(), torch.autocast(device, enabled=False):
                return self._infer(x, grid, state)
        if grid.listed_padding is not None:
            raise RuntimeError(
                "Pervasive attention cannot be trained with padding in a graph of torch.compile: "
                "its batch statistics are those of real cells. Compile it for inference."
            )
        training_pass = TrainingPass(
            grid=grid,
            channels=self.channels,
            features=self.features,
            norms=[layer.norm2 for layer in self.dense_layers],
            gated=self.options.gated,
            dropout=self.dropout,
            all_workers=not self.options.local_statistics and has_several_workers(),
        )
        weights = [layer.weights() for layer in self.dense_layers]
        if torch.is_grad_enabled():
            flat = [weight for layer in weights for weight in layer if weight is not None]
            return DenseNetFunction.apply(training_pass, x, *flat)
        with torch.autocast(device, enabled=False):
            return training_pass.forward(x, weights)[0]

    def _infer(self, x: Tensor, grid: Grid, state: State | None) -> Tensor:
        """As ``forward``, with the running averages and without a gradient."""
        if state is None:
            return self._inference_pass(x.dtype).forward(x, grid)
        inference_pass = state.constant("inference_pass", lambda: self._inference_pass(x.dtype))
        return inference_pass.forward(x, grid, self._partial_sums(x, grid, state))

    def _inference_pass(self, dtype: torch.dtype) -> InferencePass:
        layers = [
            layer if isinstance(layer, FoldedLayer) else self._fold(layer, dtype)
            for layer in cast(Iterable[LayerParameters | FoldedLayer], self.layers)
        ]
        return InferencePass(layers, self.channels, self.options.gated, self.dropout)

    def _fold(self, layer: LayerParameters, dtype: torch.dtype) -> FoldedLayer:
        features = self.features.running().slice(0, layer.conv1.size(1))
        return FoldedLayer(layer.weights(), features, layer.norm2.running(), dtype)

    @torch.no_grad()
    def quantize_weights_(self) -> None:
        """Fold batch normalization, and quantize the weights to 8 bits, for inference."""
        if self.quantized:
            return
        folded = [self._fold(layer, torch.float32) for layer in self.dense_layers]
        for layer in folded:
            layer.quantize_()
        self.layers = nn.ModuleList(folded)
        del self.features
        self.quantized = True

    def _partial_sums(self, x: Tensor, grid: Grid, state: State) -> list[Tensor]:
        """The partial sums of each layer, L views of one tensor R x L x (P - 1) x S x O."""
        options = self.options
        if "partial_sums" not in state.rows:
            state.rows["partial_sums"] = x.new_zeros(
                grid.rows,
                options.num_layers,
                options.target_kernel_size - 1,
                grid.source_len,
                options.convolution_channels,
            )
        return list(state.rows["partial_sums"].unbind(1))
