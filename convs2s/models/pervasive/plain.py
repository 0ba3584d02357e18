"""Pervasive attention as in its paper (Elbayad et al. 2018), without optimizations.

Tests and benchmarks compare the package's implementation with it. Every layer stores the
concatenation of its input and output and has its own batch normalization, the masked half of a
kernel is stored and multiplied by zero, and each step of generation computes the whole prefix.
Shapes: B sentences, T target and S source positions, C channels; grids are B x C x T x S.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .options import PervasiveOptions

EPS = 1e-5
MOMENTUM = 0.1


class MaskedBatchNorm(nn.Module):
    """Batch normalization with the statistics of the real cells.

    Args:
        channels: C.
        fused: whether to use torch's kernel, which has no mask, if no cell is padding (False).
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, fused: bool = False):
        super().__init__()
        self.fused = fused
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Normalize x.

        Args:
            x: B x C x T x S.
            real: B x 1 x T x S, False at padding; None if no cell is padding.
        """
        if self.fused and real is None:
            return F.batch_norm(
                x,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                self.training,
                MOMENTUM,
                EPS,
            )
        mean, var = self.running_mean, self.running_var
        if self.training:
            mask = torch.ones_like(x[:, :1]) if real is None else real.to(x.dtype)
            count = mask.sum()
            mean = (x * mask).sum(dim=(0, 2, 3)) / count
            var = ((x - _per_channel(mean)).square() * mask).sum(dim=(0, 2, 3)) / count
            with torch.no_grad():
                self.running_mean.lerp_(mean, MOMENTUM)
                self.running_var.lerp_(var * count / (count - 1), MOMENTUM)
        normalized = (x - _per_channel(mean)) / (_per_channel(var) + EPS).sqrt()
        return normalized * _per_channel(self.weight) + _per_channel(self.bias)


def _per_channel(x: Tensor) -> Tensor:
    return x.view(1, -1, 1, 1)


def _zero_padding(x: Tensor, real: Tensor | None) -> Tensor:
    return x if real is None else x * real.to(x.dtype)


class PlainLayer(nn.Module):
    """BN, ReLU, 1 x 1, BN, ReLU, masked k x k, GLU if gated, dropout, concatenation.

    Args:
        channels: C, the input channels.
        options: the options of the network.
        fused: as in ``MaskedBatchNorm``.
    """

    mask: Tensor

    def __init__(self, channels: int, options: PervasiveOptions, fused: bool):
        super().__init__()
        self.gated = options.gated
        self.dropout = nn.Dropout(options.dropout_of("convolution_dropout"))
        hidden, out = options.hidden_channels, options.convolution_channels
        size = options.kernel_size
        self.norm1 = MaskedBatchNorm(channels, fused)
        self.conv1 = nn.Conv2d(channels, hidden, 1, bias=False)
        self.norm2 = MaskedBatchNorm(hidden, fused)
        self.conv2 = nn.Conv2d(hidden, out, size, padding=size // 2, bias=False)
        mask = torch.ones(size, 1)
        mask[size // 2 + 1 :] = 0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Map B x C x T x S to B x (C + g) x T x S."""
        hidden = self.conv1(_zero_padding(self.norm1(x, real).relu(), real))
        hidden = _zero_padding(self.norm2(hidden, real).relu(), real)
        weight = self.conv2.weight * self.mask
        new = F.conv2d(hidden, weight, padding=weight.size(-1) // 2)
        if self.gated:
            new = F.glu(new, dim=1)
        return torch.cat([x, self.dropout(new)], dim=1)


class PlainPervasive(nn.Module):
    """The network between the embeddings and the output layer, with an output projection.

    Args:
        options: its options.
        source_dim, target_dim: channels d_s and d_t of the source and target embeddings.
        fused: whether to normalize with torch's kernel if no cell is padding (False).
    """

    def __init__(
        self, options: PervasiveOptions, source_dim: int, target_dim: int, fused: bool = False
    ):
        super().__init__()
        self.dropout = nn.Dropout(options.dropout_of("prediction_dropout"))
        channels = options.grid_channels(source_dim, target_dim)
        self.input = None
        if not options.no_halving:
            self.input = nn.Conv2d(source_dim + target_dim, channels, 1)
        self.layers = nn.ModuleList()
        for _ in range(options.num_layers):
            self.layers.append(PlainLayer(channels, options, fused))
            channels += options.growth_rate
        self.transition = None
        if not options.no_transition:
            self.norm1 = MaskedBatchNorm(channels, fused)
            self.transition = nn.Conv2d(channels, channels // 2, 1, bias=False)
            channels = channels // 2
            self.norm2 = MaskedBatchNorm(channels, fused)
        self.parts = options.aggregator.split("+")
        self.scores = nn.Linear(channels, 1) if "attn" in self.parts else None
        assert options.output_dim is not None
        self.output = nn.Linear(len(self.parts) * channels, options.output_dim)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
    ) -> Tensor:
        """Compute the features that predict the token after each target position.

        Args:
            source: B x S x d_s.
            target: B x T x d_t.
            source_padding: B x S, True at padding, or None.
            target_padding: B x T, True at padding, or None.
        Returns:
            B x T x the channels of the output projection.
        """
        batch_size, target_len, source_len = len(target), target.size(1), source.size(1)
        real = None
        if source_padding is not None or target_padding is not None:
            none = torch.zeros(batch_size, 1, dtype=torch.bool, device=source.device)
            source_padding = (
                none.expand(-1, source_len) if source_padding is None else source_padding
            )
            target_padding = (
                none.expand(-1, target_len) if target_padding is None else target_padding
            )
            real = ~(target_padding.unsqueeze(2) | source_padding.unsqueeze(1)).unsqueeze(1)
        x = torch.cat(
            [
                target.transpose(1, 2).unsqueeze(3).expand(-1, -1, -1, source_len),
                source.transpose(1, 2).unsqueeze(2).expand(-1, -1, target_len, -1),
            ],
            dim=1,
        )
        if self.input is not None:
            x = self.input(x)
        for layer in self.layers:
            x = layer(x, real)
        if self.transition is not None:
            x = self.norm2(self.transition(self.norm1(x, real).relu()), real).relu()
        return self.dropout(self.output(torch.cat(self.aggregate(x, source_padding), dim=-1)))

    def aggregate(self, x: Tensor, source_padding: Tensor | None) -> list[Tensor]:
        """Aggregate B x C x T x S over the source; B x T x C for each part."""
        batch_size, _, _, source_len = x.shape
        if source_padding is None:
            source_padding = x.new_zeros(batch_size, source_len, dtype=torch.bool)
        padding = source_padding.view(batch_size, 1, 1, source_len)
        length = (~source_padding).sum(dim=1).to(x.dtype).view(batch_size, 1, 1)
        parts = []
        for part in self.parts:
            if part == "max":
                pooled = x.masked_fill(padding, -math.inf).max(dim=3).values.transpose(1, 2)
            elif part == "avg":
                pooled = x.masked_fill(padding, 0.0).sum(dim=3).transpose(1, 2) / length.sqrt()
            else:
                assert self.scores is not None
                scores = self.scores(x.permute(0, 2, 3, 1)).squeeze(-1)
                rho = scores.masked_fill(padding.squeeze(1), -math.inf).softmax(dim=-1)
                pooled = torch.einsum("bts,bcts->btc", rho, x) * length.sqrt()
            parts.append(pooled)
        return parts
