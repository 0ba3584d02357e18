"""Batch normalization of lists of cells, with statistics that several layers share.

In a DenseNet, every later layer normalizes a channel again. Its batch statistics are the same for
all of them: they are computed once per channel, and each layer has only its own scale and shift.
Statistics are stored in single precision or better, whatever the type of the cells.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from ...nn.gradient import is_ignored

EPS = 1e-5
MOMENTUM = 0.1


class BatchStats(NamedTuple):
    """The statistics that normalize channels.

    Attributes:
        mean, var: C; the variance of a batch is the biased one.
        num_cells: the number of cells in the statistics, of all workers if they share them, as a
            tensor with one element; None for running averages, through which no gradient flows.
    """

    mean: Tensor
    var: Tensor
    num_cells: Tensor | None = None

    def slice(self, start: int, end: int) -> "BatchStats":
        """The statistics of channels ``start`` to ``end``."""
        return BatchStats(self.mean[start:end], self.var[start:end], self.num_cells)

    @property
    def inverse_std(self) -> Tensor:
        """C, the inverse standard deviations."""
        return (self.var + EPS).rsqrt()

    @property
    def unbiased_var(self) -> Tensor:
        """C, the variances of a batch with Bessel's correction."""
        assert self.num_cells is not None
        bessel = self.num_cells / (self.num_cells - 1).clamp(min=1)
        return self.var * bessel.to(self.var.dtype)


class RunningStats(nn.Module):
    """Batch statistics in training, and their running averages at inference.

    Args:
        channels: C.
        affine: whether it has the scale and shift of the only layer that normalizes the channels
            (False).

    Attributes:
        frozen: whether training also normalizes with the running averages, and leaves them
            unchanged (False).
    """

    running_mean: Tensor
    running_var: Tensor
    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, channels: int, affine: bool = False):
        super().__init__()
        self.frozen = False
        if affine:
            self.weight = nn.Parameter(torch.ones(channels))
            self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, cells: Tensor, start: int = 0, all_workers: bool = False) -> BatchStats:
        """The statistics to normalize with; in training, also update the running averages.

        Args:
            cells: N x C', real cells of channels ``start`` to ``start`` + C'.
            start: the first of these channels (0).
            all_workers: whether the batch is that of all workers (False).
        """
        mean, var, _ = running = self.running().slice(start, start + cells.size(-1))
        if self.frozen or not self.training:
            return running
        stats = batch_stats(cells, mean.dtype, all_workers)
        mean.lerp_(stats.mean, MOMENTUM)
        var.lerp_(stats.unbiased_var, MOMENTUM)
        return stats

    def running(self) -> BatchStats:
        """The running averages of all channels."""
        return BatchStats(self.running_mean, self.running_var)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "RunningStats":
        """Follow the module to another device or type, but never to half precision."""
        before = dict(self._buffers)
        super()._apply(fn, *args, **kwargs)
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.dtype in (torch.float16, torch.bfloat16):
                exact = before[name]
                assert exact is not None
                self._buffers[name] = exact.to(buffer.device, torch.float32)
        return self


class Affine(nn.Module):
    """The scale and shift of one layer for channels whose statistics are computed elsewhere.

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


def has_several_workers() -> bool:
    """Whether torch.distributed runs with more than one worker."""
    return (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


@torch.no_grad()
def batch_stats(cells: Tensor, dtype: torch.dtype, all_workers: bool = False) -> BatchStats:
    """Mean and biased variance of N x C over N, in ``dtype``.

    Args:
        cells: N x C.
        dtype: single precision or better.
        all_workers: whether to include the cells of all workers (False).
    """
    channels = cells.size(-1)
    unused = torch.zeros(2, channels, dtype=dtype, device=cells.device)
    mean, var = torch.batch_norm_update_stats(cells, unused[0], unused[1], 0.0)
    num_cells = torch.full((1,), len(cells), dtype=torch.float64, device=cells.device)
    if all_workers:
        # In double precision, because the squared mean is added here and subtracted below.
        mean, var = mean.double(), var.double()
        if is_ignored():
            num_cells.zero_()
        sums = torch.cat([num_cells, num_cells * mean, num_cells * (var + mean.square())])
        distributed.all_reduce(sums)
        num_cells, mean, square = sums[:1], sums[1 : 1 + channels], sums[1 + channels :]
        mean = mean / num_cells
        var = (square / num_cells - mean.square()).clamp(min=0.0)
    return BatchStats(mean.to(dtype), var.to(dtype), num_cells)


def normalize(x: Tensor, stats: BatchStats, weight: Tensor, bias: Tensor) -> Tensor:
    """Center x, divide it by the standard deviation, scale it by weight and add bias.

    Args:
        x: N x C, or 1 x C x n.
        stats, weight, bias: of C channels.
    """
    dtype = stats.mean.dtype
    return F.batch_norm(x, stats.mean, stats.var, weight.to(dtype), bias.to(dtype), False, 0.0, EPS)


def normalize_backward(
    grad: Tensor, x: Tensor, stats: BatchStats, weight: Tensor, need_grad_x: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias in ``normalize``, with constant statistics.

    Args:
        grad: the gradient of the output, in the shape of x.
        x, stats, weight: the arguments of ``normalize``.
        need_grad_x: whether to compute the gradient of x (True).
    """
    weight, mask = weight.to(stats.mean.dtype), [need_grad_x, True, True]
    return torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, stats.mean, stats.var, None, None, False, EPS, mask
    )


def stats_backward(
    stats: BatchStats, grad_sum: Tensor, grad_product: Tensor, all_workers: bool = False
) -> tuple[Tensor, Tensor]:
    """The gradient that reaches x through its batch statistics, as arguments of ``normalize``.

    Args:
        stats: the batch statistics of x.
        grad_sum: C, the sum of the normalized channels' gradients over this worker's cells.
        grad_product: C, the sum of these gradients times the normalized channels.
        all_workers: whether the statistics include the cells of all workers (False).
    Returns:
        weight and bias: the gradient of x is the sum of that with constant statistics and of
        ``normalize(x, stats, weight, bias)``.
    """
    assert stats.num_cells is not None
    sums = torch.stack([grad_product, grad_sum])
    if all_workers:
        distributed.all_reduce(sums)
        if is_ignored():
            sums.zero_()
    weight, bias = sums * (-stats.inverse_std / stats.num_cells.to(sums.dtype))
    return weight, bias
