"""The features of a DenseNet: each layer appends its own and reads those of all earlier layers."""

from collections.abc import Callable

import torch
from torch import Tensor

from ...nn.linear import matmul_transposed, relu_backward_
from .batch_norm import BatchStats, normalize, normalize_backward, stats_backward

# Bytes of one channel of a block, so that the channels of one read stay in a CPU's cache.
ROW_BYTES = 5120


class FeatureBuffer:
    """The features of N cells in blocks of C x n, and the statistics of each channel.

    A layer reads the first channels of each block, which are contiguous in memory. It normalizes
    and multiplies block by block, so that no concatenation and no normalized copy of all cells is
    ever stored.

    Args:
        blocks: C x n each, for successive ranges of n cells.
        stats: the statistics of the C channels.
    """

    def __init__(self, blocks: list[Tensor], stats: BatchStats):
        self.blocks, self.stats = blocks, stats
        # The range of cells in each block.
        self.spans: list[slice] = []
        start = 0
        for block in blocks:
            self.spans.append(slice(start, start + block.size(1)))
            start += block.size(1)

    @classmethod
    def empty(cls, num_cells: int, channels: int, like: Tensor) -> "FeatureBuffer":
        """A buffer of N cells with C channels, of the type and on the device of ``like``."""
        sizes = block_sizes(num_cells, like)
        stats_dtype = torch.promote_types(like.dtype, torch.float32)
        mean, var = like.new_empty(2, channels, dtype=stats_dtype)
        return cls([like.new_empty(channels, size) for size in sizes], BatchStats(mean, var))

    def write(self, start: int, cells: Tensor, stats: BatchStats) -> None:
        """Set the channels from ``start`` on to features N x C' with these statistics."""
        end = start + cells.size(-1)
        self.stats = self.stats._replace(num_cells=stats.num_cells)
        self.stats.mean[start:end] = stats.mean
        self.stats.var[start:end] = stats.var
        for block, span in zip(self.blocks, self.spans):
            block[start:end] = cells[span].t()

    def read(self, weight: Tensor, bias: Tensor, matrix: Tensor) -> Tensor:
        """Apply batch normalization, ReLU and a 1x1 convolution to the first C' channels.

        Args:
            weight, bias: C', the scale and shift of the normalization.
            matrix: O x C', the weight of the convolution.
        Returns:
            N x O.
        """
        out = matrix.new_empty(self.spans[-1].stop, len(matrix))
        for block, span in zip(self.blocks, self.spans):
            out[span] = matmul_transposed(matrix, self.normalize_relu(block, weight, bias).t()).t()
        return out

    def normalize_relu(self, block: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Apply batch normalization and ReLU to the first C' channels of a block: C' x n."""
        channels = len(weight)
        stats = self.stats.slice(0, channels)
        return normalize(block[None, :channels], stats, weight, bias)[0].relu_()

    def cells(self) -> Tensor:
        """All features, N x C."""
        return torch.cat([block.t() for block in self.blocks])


class FeatureGradients:
    """The gradients of the features in a buffer, summed over the layers that read them.

    The backward pass visits the layers in reverse order: when it reaches the layer that wrote
    some channels, all layers that read them have added their gradients. The gradient of the
    normalized channels is stored in single precision or better, together with the two sums that
    the gradient of the statistics depends on.

    Args:
        buffer: the features.
        all_workers: whether their statistics include the cells of all workers.
    """

    def __init__(self, buffer: FeatureBuffer, all_workers: bool):
        self.buffer, self.all_workers = buffer, all_workers
        dtype = buffer.stats.mean.dtype
        self.blocks = [torch.zeros_like(block, dtype=dtype) for block in buffer.blocks]
        self.sums = torch.zeros_like(buffer.stats.mean)
        self.products = torch.zeros_like(buffer.stats.mean)

    def read_backward(
        self, grad: Callable[[slice], Tensor], weight: Tensor, bias: Tensor, matrix: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The backward pass of ``FeatureBuffer.read``; add to the gradients of its channels.

        Args:
            grad: a function from a range of n cells to n x O, the gradient of their outputs.
            weight, bias, matrix: the arguments of ``read``.
        Returns:
            The gradients of weight, bias and matrix.
        """
        buffer, channels = self.buffer, len(weight)
        stats = buffer.stats.slice(0, channels)
        transposed = matrix.t().contiguous()
        grad_matrix = torch.zeros_like(transposed, dtype=stats.mean.dtype)
        grad_weight, grad_bias = stats.mean.new_zeros(2, channels)
        scale = weight.to(stats.mean.dtype).unsqueeze(1)
        for block, total, span in zip(buffer.blocks, self.blocks, buffer.spans):
            rectified = buffer.normalize_relu(block, weight, bias)
            grad_out = grad(span)
            grad_matrix += matmul_transposed(rectified, grad_out.t())
            grad_affine = relu_backward_(matmul_transposed(transposed, grad_out), rectified)
            _, block_weight, block_bias = normalize_backward(
                grad_affine[None], block[None, :channels], stats, weight, need_grad_x=False
            )
            grad_weight += block_weight
            grad_bias += block_bias
            total[:channels].addcmul_(grad_affine, scale)
        self.sums[:channels] += grad_bias * scale[:, 0]
        self.products[:channels] += grad_weight * scale[:, 0]
        return grad_weight, grad_bias, grad_matrix.t()

    def write_backward(self, start: int, end: int) -> Tensor:
        """The gradient N x C' of the features written as channels ``start`` to ``end``."""
        stats = self.buffer.stats.slice(start, end)
        if stats.num_cells is not None:
            weight, bias = stats_backward(
                stats, self.sums[start:end], self.products[start:end], self.all_workers
            )
        like = self.buffer.blocks[0]
        grad = like.new_empty(self.buffer.spans[-1].stop, end - start)
        scale = stats.inverse_std.unsqueeze(1)
        for block, total, span in zip(self.buffer.blocks, self.blocks, self.buffer.spans):
            block_grad = total[start:end] * scale
            if stats.num_cells is not None:
                block_grad += normalize(block[None, start:end], stats, weight, bias)[0]
            grad[span] = block_grad.t()
        return grad


def block_sizes(num_cells: int, like: Tensor) -> list[int]:
    """Cells per block: a single block on a GPU, nearly equal blocks that fit a CPU's cache."""
    limit = num_cells if like.is_cuda else ROW_BYTES // like.element_size()
    blocks = max(1, -(-num_cells // limit))
    # All blocks but the last are multiples of a vector register.
    size = max(16, -(-num_cells // (16 * blocks)) * 16)
    return [min(size, num_cells - start) for start in range(0, max(num_cells, 1), size)]
