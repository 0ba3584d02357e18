"""Batch normalisation of lists of cells, with one set of statistics for many readers.

A channel's statistics do not depend on who reads it: they are taken once, when the channel is
written, and each reader only has its own scale and shift. Statistics are kept in single
precision or better whatever the cells are stored in.
"""

from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

EPS = 1e-5
MOMENTUM = 0.1


class BatchStats(NamedTuple):
    """What channels are normalised with.

    Attributes:
        mean, var: C.
        cells: 0-dimensional, how many cells they were taken of, in all workers; None where they
            are constants (inference), through which no gradient flows.
    """

    mean: Tensor
    var: Tensor
    cells: Tensor | None = None

    def slice(self, start: int, end: int) -> "BatchStats":
        """The stats of channels ``start`` to ``end``."""
        return BatchStats(self.mean[start:end], self.var[start:end], self.cells)

    @property
    def inverse_std(self) -> Tensor:
        """C, what centred channels are multiplied by."""
        return (self.var + EPS).rsqrt()


class Scale(nn.Module):
    """The scale and shift of one reader of channels whose stats are taken elsewhere.

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


class RunningStats(nn.Module):
    """The stats of a batch in training, their running averages otherwise.

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, cells: Tensor, start: int = 0, shared: bool = False) -> BatchStats:
        """The stats to normalize with; in training the running averages move on.

        Args:
            cells: N x C', real cells of channels ``start`` to ``start`` + C'.
            start: the first of these channels (0).
            shared: take the stats of the cells of all workers (False).
        """
        mean, var, _ = running = self.running().slice(start, start + cells.size(-1))
        if not self.training:
            return running
        stats = batch_stats(cells, mean.dtype, shared)
        bessel = stats.cells / (stats.cells - 1).clamp(min=1)
        mean.lerp_(stats.mean, MOMENTUM)
        var.lerp_(stats.var * bessel.to(var.dtype), MOMENTUM)
        return stats

    def running(self) -> BatchStats:
        """The running averages of all channels."""
        return BatchStats(self.running_mean, self.running_var)

    def _apply(self, fn, *args, **kwargs):
        """Follow the module to another device, but never to half precision."""
        super()._apply(fn, *args, **kwargs)
        for name, buffer in self._buffers.items():
            if buffer.dtype in (torch.float16, torch.bfloat16):
                self._buffers[name] = buffer.float()
        return self


class BatchNorm(RunningStats):
    """BatchStats together with the scale and shift of their only reader.

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__(channels)
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


def several_workers() -> bool:
    """Whether torch.distributed runs with more than one worker."""
    return (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


@torch.no_grad()
def batch_stats(cells: Tensor, dtype: torch.dtype, shared: bool = False) -> BatchStats:
    """Mean and biased variance of N x C over N, in ``dtype``.

    Args:
        cells: N x C.
        dtype: single precision or better.
        shared: over the cells of all workers (False).
    """
    channels = cells.size(-1)
    unused = torch.zeros(2, channels, dtype=dtype, device=cells.device)
    mean, var = torch.batch_norm_update_stats(cells, unused[0], unused[1], 0.0)
    count = torch.full((1,), len(cells), dtype=torch.float64, device=cells.device)
    if shared:
        # In double precision the square of a mean can be added and taken off again.
        mean, var = mean.double(), var.double()
        sums = torch.cat([count, count * mean, count * (var + mean.square())])
        distributed.all_reduce(sums)
        count, mean, square = sums[:1], sums[1 : 1 + channels], sums[1 + channels :]
        mean = mean / count
        var = (square / count - mean.square()).clamp(min=0.0)
    return BatchStats(mean.to(dtype), var.to(dtype), count)


def normalize(x: Tensor, stats: BatchStats, weight: Tensor, bias: Tensor) -> Tensor:
    """x centred and divided by its deviation, times weight, plus bias.

    Args:
        x: N x C, or 1 x C x n.
        stats, weight, bias: C of each.
    """
    dtype = stats.mean.dtype
    return F.batch_norm(x, stats.mean, stats.var, weight.to(dtype), bias.to(dtype), False, 0.0, EPS)


def normalize_backward(
    grad: Tensor, x: Tensor, stats: BatchStats, weight: Tensor, mask: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor, Tensor]:
    """What ``normalize`` sends back to x (stats taken as constants), weight and bias.

    Args:
        grad: of the output, in the shape of x.
        mask: which of the three are wanted; the others may be None.
    """
    dtype = stats.mean.dtype
    return torch.ops.aten.native_batch_norm_backward(
        grad, x, weight.to(dtype), stats.mean, stats.var, None, None, False, EPS, list(mask)
    )


def stats_backward(
    stats: BatchStats, grad_sum: Tensor, grad_product: Tensor, shared: bool = False
) -> tuple[Tensor, Tensor]:
    """What reaches x through the stats of its batch, as arguments of ``normalize``.

    Args:
        stats: of a batch.
        grad_sum: C, the gradients of the normalised channels, added up over this worker's cells.
        grad_product: C, the same of these gradients times the normalised channels.
        shared: as in ``batch_stats``.
    Returns:
        weight and bias: ``normalize(x, stats, weight, bias)`` is to be added to x's gradient.
    """
    sums = torch.stack([grad_product, grad_sum])
    if shared:
        distributed.all_reduce(sums)
    weight, bias = sums * (-stats.inverse_std / stats.cells.to(sums.dtype))
    return weight, bias
