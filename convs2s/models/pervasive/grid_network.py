"""The network between the embeddings and the output layer (Elbayad et al. 2018, section 3)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.dropout import Dropout
from ...nn.int8 import dense
from ...nn.linear import Linear, single_precision
from ...nn.state import State, child
from ..adl.language.spec import DECODER
from .aggregation import Aggregator, build_aggregator
from .densenet import DenseNet2d
from .grid import Grid
from .options import PervasiveOptions


class GridFeatures(NamedTuple):
    """The DenseNet's output, from which alignments are computed.

    Attributes:
        cells: N x C, the features of the real cells.
        grid: the R x T x S grid of the cells.
    """

    cells: Tensor
    grid: Grid


class GridProjection(nn.Module):
    """The projection of one side's embeddings, one of the two terms of the grid's first features.

    The first features are target and source embeddings concatenated (equation 1), and a 1x1
    convolution of them. That is the sum of a projection of each half: that of the source
    embeddings x_j in [y_i x_j] is computed once per sentence, that of the target embeddings y_i,
    to which the bias belongs, once per target position. Plain concatenation is the same sum, with
    each half zero-padded to the full number of channels.

    Args:
        side: ENCODER for the source embeddings, DECODER for those of the target.
        options: the options of the network.
        source_dim, target_dim: channels d_s and d_t of the embeddings.
    """

    def __init__(self, side: str, options: PervasiveOptions, source_dim: int, target_dim: int):
        super().__init__()
        is_target = side == DECODER
        # The channels of the other side, before or after those of this side.
        self.zeros = (0, source_dim) if is_target else (target_dim, 0)
        self.projection = None
        if not options.no_halving:
            channels = options.grid_channels(source_dim, target_dim)
            self.projection = Linear(target_dim if is_target else source_dim, channels, is_target)
            nn.init.normal_(self.projection.weight, std=(source_dim + target_dim) ** -0.5)
            if is_target:
                nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map B x T x d to B x T x C."""
        return F.pad(x, self.zeros) if self.projection is None else self.projection(x)


class PervasiveAttention(nn.Module):
    """A DenseNet over the grid, aggregation over the source, and a linear projection.

    The source projection is not part of this module: the encoder computes it once per sentence.

    Args:
        options: its options.
        source_dim, target_dim: channels d_s and d_t of the source and target embeddings, or of the
            layers in ADL that follow them.
    """

    def __init__(self, options: PervasiveOptions, source_dim: int, target_dim: int):
        super().__init__()
        self.target = GridProjection(DECODER, options, source_dim, target_dim)
        self.dense = DenseNet2d(options, options.grid_channels(source_dim, target_dim))
        self.aggregator = build_aggregator(
            options.aggregator, self.dense.out_channels, options.attention_exponent
        )
        self.out_channels = self.aggregator.out_channels
        self.output: Linear | None = None
        if options.output_dim is not None:
            self.output = Linear(self.out_channels, options.output_dim)
            self.out_channels = options.output_dim
            nn.init.xavier_normal_(self.output.weight)
            nn.init.zeros_(self.output.bias)
        self.dropout = Dropout(options.dropout_of("prediction_dropout"))

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        state: State | None = None,
    ) -> tuple[Tensor, GridFeatures]:
        """The features that predict the token after each target position.

        Args:
            source: B x S x C, the source projection.
            target: R x T x d_t, where R is a multiple of B: the hypotheses of a beam are
                consecutive and share the source of their sentence. With a state, the T positions
                follow those of earlier steps.
            source_padding: B x S, True at padding, or None.
            target_padding: R x T, True at padding, or None.
            state: the state of incremental decoding; None for a full pass.
        Returns:
            R x T x ``out_channels``, and the grid's features.
        """
        rows, target_len, _ = target.shape
        grid = Grid(rows, target_len, source.size(1), source_padding, target_padding)
        projected = self.target(target)
        first = projected.reshape(source.size(0), -1, 1, projected.size(-1)) + source.unsqueeze(1)
        cells = grid.pack(first.view(rows, target_len, source.size(1), -1))
        cells = self.dense(cells, grid, child(state, "dense"))
        features = self.aggregator(cells, grid)
        if self.output is not None:
            features = self.output(features)
        return self.dropout(features), GridFeatures(cells, grid)

    def alignment(self, features: GridFeatures, token_vectors: Tensor) -> Tensor:
        """The alignment of one token at each target position with the source (equations 7, 8).

        Args:
            features: as ``forward`` returned them.
            token_vectors: R x T x ``out_channels``, the output layer's weight vectors of the
                tokens.
        Returns:
            R x T x S, in single precision or better, zero at padding; each row sums to one. With
            the maximum and the average, it is the softmax over the source of each position's
            contribution to the token's logit; with attention, the attention weights; with both,
            the mean of the two.
        """
        alignments = [
            aggregator.alignment(features.cells, features.grid, token_weights)
            for aggregator, token_weights in self.aggregators(token_vectors)
        ]
        return torch.stack(alignments).mean(dim=0)

    def aggregators(self, token_vectors: Tensor) -> list[tuple[Aggregator, Tensor]]:
        """Each aggregator, with the weights of its features in the logits of tokens.

        Their contributions add up to the logit without its biases (equation 6).

        Args:
            token_vectors: as in ``alignment``.
        Returns:
            Aggregators, each with R x T x C in single precision or better.
        """
        token_weights = single_precision(token_vectors)
        if self.output is not None:
            token_weights = token_weights @ single_precision(dense(self.output.weight))
        return self.aggregator.split(token_weights)
