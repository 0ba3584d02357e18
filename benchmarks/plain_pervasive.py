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

EPS = 1e-5
MOMENTUM = 0.1


class MaskedBatchNorm(nn.Module):
    """Batch normalization with statistics of all cells that are not padding.

    Args:
        channels: C.
        fused: use torch's kernel, which has no mask, if no cell is padding (False).
    """

    def __init__(self, channels: int, fused: bool = False):
        super().__init__()
        self.fused = fused
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Normalize x (B x C x T x S).

        Args:
            x: the grid.
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
            cells = mask.sum()
            mean = (x * mask).sum(dim=(0, 2, 3)) / cells
            var = ((x - _spread(mean)).square() * mask).sum(dim=(0, 2, 3)) / cells
            with torch.no_grad():
                self.running_mean.lerp_(mean, MOMENTUM)
                self.running_var.lerp_(var * cells / (cells - 1), MOMENTUM)
        normal = (x - _spread(mean)) / (_spread(var) + EPS).sqrt()
        return normal * _spread(self.weight) + _spread(self.bias)


def _spread(channels: Tensor) -> Tensor:
    return channels.view(1, -1, 1, 1)


def _zero_padding(x: Tensor, real: Tensor | None) -> Tensor:
    return x if real is None else x * real.to(x.dtype)


class PlainLayer(nn.Module):
    """BN, ReLU, 1 x 1, BN, ReLU, masked k x k, GLU if gated, dropout, concatenation."""

    def __init__(self, channels, growth_rate, kernel_size, bottleneck, gated, dropout, fused):
        super().__init__()
        self.gated = gated
        self.dropout = nn.Dropout(dropout)
        hidden, out = bottleneck * growth_rate, (1 + gated) * growth_rate
        self.norm1 = MaskedBatchNorm(channels, fused)
        self.conv1 = nn.Conv2d(channels, hidden, 1, bias=False)
        self.norm2 = MaskedBatchNorm(hidden, fused)
        self.conv2 = nn.Conv2d(hidden, out, kernel_size, padding=kernel_size // 2, bias=False)
        mask = torch.ones(kernel_size, 1)
        mask[kernel_size // 2 + 1 :] = 0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x, real):
        hidden = self.conv1(_zero_padding(self.norm1(x, real).relu(), real))
        hidden = _zero_padding(self.norm2(hidden, real).relu(), real)
        weight = self.conv2.weight * self.mask
        new = F.conv2d(hidden, weight, padding=self.conv2.padding)
        if self.gated:
            new = F.glu(new, dim=1)
        return torch.cat([x, self.dropout(new)], dim=1)


class PlainPervasive(nn.Module):
    """The network between the embeddings and the output projection.

    Args:
        source_dim, target_dim: embedding channels d_s and d_t (128).
        layers: number of layers L (24).
        growth_rate: new channels of each layer g (32).
        kernel_size: height and width of the masked kernels k (5).
        bottleneck: output channels of each 1 x 1 convolution, as a multiple of g (4).
        aggregator: ``max``, ``avg``, ``attn`` or ``max+attn``.
        gated: add a GLU after the masked convolutions (False).
        dropout: probability for the new channels of each layer and for the output (0).
        halve: halve the channels of the grid with a 1 x 1 convolution before the layers (True).
        transition: after the layers, apply BN, ReLU, a 1 x 1 convolution that halves the channels,
            BN and ReLU (True).
        fused: use torch's kernel for batch normalization if no cell is padding (False).
    """

    def __init__(
        self,
        source_dim=128,
        target_dim=128,
        layers=24,
        growth_rate=32,
        kernel_size=5,
        bottleneck=4,
        aggregator="max",
        gated=False,
        dropout=0.0,
        halve=True,
        transition=True,
        fused=False,
    ):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        channels = source_dim + target_dim
        self.input = nn.Conv2d(channels, channels // 2, 1) if halve else None
        channels = channels // 2 if halve else channels
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(
                PlainLayer(channels, growth_rate, kernel_size, bottleneck, gated, dropout, fused)
            )
            channels += growth_rate
        self.transition = None
        if transition:
            self.norm1 = MaskedBatchNorm(channels, fused)
            self.transition = nn.Conv2d(channels, channels // 2, 1, bias=False)
            channels = channels // 2
            self.norm2 = MaskedBatchNorm(channels, fused)
        self.parts = aggregator.split("+")
        self.scores = nn.Linear(channels, 1) if "attn" in self.parts else None
        self.output = nn.Linear(len(self.parts) * channels, target_dim)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
    ) -> Tensor:
        """Compute the features of all target positions.

        Args:
            source: source embeddings, B x S x d_s.
            target: embeddings of the previous target tokens, B x T x d_t.
            source_padding, target_padding: B x S and B x T, True at padding; None for no padding.
        Returns:
            Features, B x T x d_t.
        """
        sentences, steps, positions = len(target), target.size(1), source.size(1)
        real = None
        if source_padding is not None or target_padding is not None:
            if source_padding is None:
                source_padding = target_padding.new_zeros(sentences, positions)
            if target_padding is None:
                target_padding = source_padding.new_zeros(sentences, steps)
            real = ~(target_padding.unsqueeze(2) | source_padding.unsqueeze(1)).unsqueeze(1)
        x = torch.cat(
            [
                target.transpose(1, 2).unsqueeze(3).expand(-1, -1, -1, positions),
                source.transpose(1, 2).unsqueeze(2).expand(-1, -1, steps, -1),
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

    def aggregate(self, x, source_padding):
        """Aggregate x (B x C x T x S) over the source; one B x T x C for each part."""
        sentences, _, _, positions = x.shape
        if source_padding is None:
            source_padding = x.new_zeros(sentences, positions, dtype=torch.bool)
        absent = source_padding.view(sentences, 1, 1, positions)
        length = (~source_padding).sum(dim=1).to(x.dtype).view(sentences, 1, 1)
        parts = []
        for part in self.parts:
            if part == "max":
                pooled = x.masked_fill(absent, -math.inf).max(dim=3).values.transpose(1, 2)
            elif part == "avg":
                pooled = x.masked_fill(absent, 0.0).sum(dim=3).transpose(1, 2) / length.sqrt()
            else:
                scores = self.scores(x.permute(0, 2, 3, 1)).squeeze(-1)
                rho = scores.masked_fill(absent.squeeze(1), -math.inf).softmax(dim=-1)
                pooled = torch.einsum("bts,bcts->btc", rho, x) * length.sqrt()
            parts.append(pooled)
        return parts
