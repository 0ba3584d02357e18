"""The features of a DenseNet: written once, read by every later layer."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..nn.linear import matmul_transposed, relu_backward_
from .batch_norm import BatchStats, normalize, normalize_backward, stats_backward

# What a row of a block takes, so that the channels that a layer reads stay in a CPU's cache.
ROW_BYTES = 5120


class FeatureBuffer:
    """The features of N cells in blocks of C x n, and the stats of each channel.

    The channels that a layer reads are the first of each block and lie together in memory. They
    are normalised and multiplied block by block: neither a concatenation nor a normalised copy
    of all cells ever exists.

    Args:
        blocks: each C x n, the n cells that follow those of the block before.
        stats: of C channels.
    """

    def __init__(self, blocks: list[Tensor], stats: BatchStats):
        self.blocks, self.stats = blocks, stats
        self.spans: list[slice] = []
        start = 0
        for block in blocks:
            self.spans.append(slice(start, start + block.size(1)))
            start += block.size(1)

    @classmethod
    def empty(cls, cells: int, channels: int, like: Tensor) -> "FeatureBuffer":
        """Room for N cells of C channels, of the type and on the device of ``like``."""
        sizes = block_sizes(cells, like)
        statistics = torch.promote_types(like.dtype, torch.float32)
        mean, var = like.new_empty(2, channels, dtype=statistics)
        return cls([like.new_empty(channels, size) for size in sizes], BatchStats(mean, var))

    def write(self, start: int, cells: Tensor, stats: BatchStats) -> None:
        """Set the channels from ``start`` on to N x C' features with these stats."""
        end = start + cells.size(-1)
        self.stats = self.stats._replace(cells=stats.cells)
        self.stats.mean[start:end] = stats.mean
        self.stats.var[start:end] = stats.var
        for block, span in zip(self.blocks, self.spans):
            block[start:end] = cells[span].t()

    def read(self, weight: Tensor, bias: Tensor, matrix: Tensor) -> Tensor:
        """BN, ReLU and 1x1 convolution of the first C' channels.

        Args:
            weight, bias: C', the reader's scale and shift.
            matrix: O x C'.
        Returns:
            N x O.
        """
        out = matrix.new_empty(self.spans[-1].stop, len(matrix))
        for block, span in zip(self.blocks, self.spans):
            out[span] = matmul_transposed(matrix, self.rectified(block, weight, bias).t()).t()
        return out

    def rectified(self, block: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """BN and ReLU of the first C' channels of a block: C' x n."""
        channels = len(weight)
        stats = self.stats.slice(0, channels)
        return normalize(block[None, :channels], stats, weight, bias)[0].relu_()

    def cells(self) -> Tensor:
        """All features, N x C."""
        return torch.cat([block.t() for block in self.blocks])


class FeatureGradients:
    """What the readers of a buffer send back, added up until a channel's writer asks for it.

    The gradient of the normalised channels is kept in single precision or better, together with
    its two sums that the gradient of the stats needs.

    Args:
        buffer: the features.
        shared: their stats are those of all workers.
    """

    def __init__(self, buffer: FeatureBuffer, shared: bool):
        self.buffer, self.shared = buffer, shared
        dtype = buffer.stats.mean.dtype
        self.blocks = [torch.zeros_like(block, dtype=dtype) for block in buffer.blocks]
        self.sums = torch.zeros_like(buffer.stats.mean)
        self.products = torch.zeros_like(buffer.stats.mean)

    def read(
        self, grad: Callable[[slice], Tensor], weight: Tensor, bias: Tensor, matrix: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Go back through ``FeatureBuffer.read``.

        Args:
            grad: gives n x O for n cells, the gradient of what was returned for them.
            weight, bias, matrix: as they were given.
        Returns:
            The gradients of weight, bias and matrix.
        """
        buffer, channels = self.buffer, len(weight)
        stats = buffer.stats.slice(0, channels)
        transposed = matrix.t().contiguous()
        grad_matrix = torch.zeros_like(transposed, dtype=stats.mean.dtype)
        grad_weight, grad_bias = torch.zeros(2, channels).to(stats.mean)
        scale = weight.to(stats.mean.dtype).unsqueeze(1)
        for block, total, span in zip(buffer.blocks, self.blocks, buffer.spans):
            rectified = buffer.rectified(block, weight, bias)
            own = grad(span)
            grad_matrix += matmul_transposed(rectified, own.t())
            back = relu_backward_(matmul_transposed(transposed, own), rectified)
            _, of_weight, of_bias = normalize_backward(
                back[None], block[None, :channels], stats, weight, (False, True, True)
            )
            grad_weight += of_weight
            grad_bias += of_bias
            total[:channels].addcmul_(back, scale)
        self.sums[:channels] += grad_bias * scale[:, 0]
        self.products[:channels] += grad_weight * scale[:, 0]
        return grad_weight, grad_bias, grad_matrix.t()

    def write(self, start: int, end: int) -> Tensor:
        """The gradient, N x C', of what was written as channels ``start`` to ``end``."""
        stats = self.buffer.stats.slice(start, end)
        if stats.cells is not None:
            weight, bias = stats_backward(
                stats, self.sums[start:end], self.products[start:end], self.shared
            )
        like = self.buffer.blocks[0]
        grad = like.new_empty(self.buffer.spans[-1].stop, end - start)
        scale = stats.inverse_std.unsqueeze(1)
        for block, total, span in zip(self.buffer.blocks, self.blocks, self.buffer.spans):
            own = total[start:end] * scale
            if stats.cells is not None:
                own += normalize(block[None, start:end], stats, weight, bias)[0]
            grad[span] = own.t()
        return grad


def block_sizes(cells: int, like: Tensor) -> list[int]:
    """How many cells each block holds: all on a GPU, equal parts that fit the cache on a CPU."""
    limit = cells if like.is_cuda else ROW_BYTES // like.element_size()
    blocks = max(1, -(-cells // limit))
    # A multiple of what a vector register holds, but for the last.
    size = max(16, -(-cells // (16 * blocks)) * 16)
    return [min(size, cells - start) for start in range(0, max(cells, 1), size)]
