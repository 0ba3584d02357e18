"""The masked 2-D DenseNet of pervasive attention (section 3, figure 3)."""

import math

import torch
from torch import Tensor, nn

from ..decoding.state import State
from ..errors import UserError
from ..nn.dropout import Dropout
from .batch_norm import BatchNorm, RunningStats, Scale, several_workers
from .densenet_inference import FoldedLayer, fold, infer
from .densenet_training import DenseNetFunction, LayerWeights, TrainingPass
from .grid import Grid


class DenseLayer(nn.Module):
    """The weights of BN, ReLU, 1x1, BN, ReLU and, but for a transition, a masked convolution.

    Args:
        channels: what the layer reads.
        hidden: channels after the 1x1.
        out: channels after the masked convolution; 0 for a transition, which has none (0).
        kernel_size: k positions of the source; of the target ceil(k/2), itself and earlier ones.
    """

    def __init__(self, channels: int, hidden: int, out: int = 0, kernel_size: int = 1):
        super().__init__()
        self.norm1 = Scale(channels)
        self.conv1 = nn.Parameter(torch.empty(hidden, channels))
        self.norm2 = BatchNorm(hidden)
        nn.init.normal_(self.conv1, std=math.sqrt(2 / channels))
        self.conv2 = None
        if out:
            rows = (kernel_size + 1) // 2
            self.conv2 = nn.Parameter(torch.empty(out, hidden, rows, kernel_size))
            nn.init.normal_(self.conv2, std=math.sqrt(2 / (hidden * rows * kernel_size)))

    def weights(self) -> LayerWeights:
        """The parameters as a pass wants them."""
        norm1, norm2 = self.norm1, self.norm2
        return LayerWeights(
            norm1.weight, norm1.bias, self.conv1, norm2.weight, norm2.bias, self.conv2
        )


class DenseNet2d(nn.Module):
    """A densely connected network over the grid, causal in the target.

    Args:
        channels: of the grid's first features.
        num_layers: L (24).
        growth_rate: g, the features that a layer adds (32).
        kernel_size: k, odd (5).
        bottleneck: channels after a layer's 1x1 convolution, in multiples of g (4).
        gated: masked convolutions have twice the outputs, half of which gate the others (False).
        dropout: probability of dropping a new feature (0).
        transition: end with BN, ReLU, a 1x1 that halves the channels, BN, ReLU (True).
        share_statistics: batch statistics are those of all workers of torch.distributed (False).
    Raises:
        UserError: where a size cannot be.
    """

    def __init__(
        self,
        channels: int,
        num_layers: int = 24,
        growth_rate: int = 32,
        kernel_size: int = 5,
        bottleneck: int = 4,
        gated: bool = False,
        dropout: float = 0.0,
        transition: bool = True,
        share_statistics: bool = False,
    ):
        super().__init__()
        check_sizes(num_layers, growth_rate, kernel_size, bottleneck)
        self.kernel_size, self.gated = kernel_size, gated
        self.share_statistics = share_statistics
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList()
        out = 2 * growth_rate if gated else growth_rate
        for _ in range(num_layers):
            self.layers.append(DenseLayer(channels, bottleneck * growth_rate, out, kernel_size))
            channels += growth_rate
        self.channels = channels
        self.features = RunningStats(channels)
        if transition:
            self.layers.append(DenseLayer(channels, channels // 2))
        self.out_channels = channels // 2 if transition else channels
        self.num_layers, self.contributions = num_layers, out

    def forward(self, x: Tensor, grid: Grid, state: State | None = None) -> Tensor:
        """The last features of the real cells.

        Args:
            x: N x C, the first features.
            grid: where the N cells are; with a state, its T positions follow those already seen.
            state: where generation keeps what earlier positions contribute to later ones; no
                gradient flows then. None for a full pass.
        Returns:
            N x ``out_channels``.
        """
        device = x.device.type
        if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
            x = x.to(torch.get_autocast_dtype(device))
        if state is not None or not (self.training or torch.is_grad_enabled()):
            with torch.no_grad(), torch.autocast(device, enabled=False):
                return self._infer(x, grid, state)
        plan = TrainingPass(
            grid=grid,
            channels=self.channels,
            features=self.features,
            norms=[layer.norm2 for layer in self.layers],
            gated=self.gated,
            dropout=self.dropout.p if self.dropout.active else 0.0,
            shared=self.share_statistics and several_workers(),
        )
        weights = [layer.weights() for layer in self.layers]
        if torch.is_grad_enabled():
            flat = [weight for layer in weights for weight in layer if weight is not None]
            return DenseNetFunction.apply(plan, x, *flat)
        with torch.autocast(device, enabled=False):
            return plan.forward(x, weights)[0]

    def _infer(self, x: Tensor, grid: Grid, state: State | None) -> Tensor:
        """As ``forward`` with the running averages, and without a gradient."""
        if state is None:
            folded, pending = self._folded(x.dtype), None
        else:
            folded = state.constant("folded", lambda: self._folded(x.dtype))
            pending = self._pending(x, grid, state)
        return infer(x, folded, grid, self.channels, self.gated, self.dropout, pending)

    def _folded(self, dtype: torch.dtype) -> list[FoldedLayer]:
        return [
            fold(
                layer.weights(),
                self.features.running().slice(0, layer.conv1.size(1)),
                layer.norm2.running(),
                dtype,
            )
            for layer in self.layers
        ]

    def _pending(self, x: Tensor, grid: Grid, state: State) -> list[Tensor]:
        """What is pending of each layer, L views of one tensor R x L x P - 1 x S x O."""
        if "pending" not in state.rows:
            later = (self.kernel_size + 1) // 2 - 1
            shape = (grid.rows, self.num_layers, later, grid.positions, self.contributions)
            state.rows["pending"] = x.new_zeros(shape)
        return list(state.rows["pending"].unbind(1))


def check_sizes(num_layers: int, growth_rate: int, kernel_size: int, bottleneck: int) -> None:
    """Refuse sizes that no DenseNet has.

    Raises:
        UserError: names the size, what was given and what is allowed.
    """
    for name, value in (
        ("number of layers", num_layers),
        ("growth rate", growth_rate),
        ("kernel size", kernel_size),
        ("bottleneck", bottleneck),
    ):
        if value < 1:
            raise UserError(f"The {name} of the DenseNet is {value}; it must be at least 1.")
    if kernel_size % 2 == 0:
        raise UserError(
            f"The kernel size of the DenseNet is {kernel_size}; it must be odd (3, 5, 7, ...), so "
            "that it has a centre over the source."
        )
