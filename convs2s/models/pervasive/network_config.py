"""The configuration of the pervasive attention network, with all of its defaults."""

from dataclasses import dataclass

from ...common.errors import UserError
from ...common.limits import MAX_KERNEL_SIZE, MAX_LAYERS, MAX_WIDTH, check_range, option_name

EMBED_DIM = 128
DROPOUT = 0.2
_LIMITS = {
    **dict.fromkeys(("source_dim", "target_dim", "output_dim", "growth_rate"), MAX_WIDTH),
    "num_layers": MAX_LAYERS,
    "kernel_size": MAX_KERNEL_SIZE,
    "bottleneck": 64,
}
MAX_EXPONENT = 2
AGGREGATORS = ("max", "avg", "attn", "max+attn")


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes and parts of the network between the embeddings and the output layer.

    The defaults are those of the base model (Elbayad et al. 2018, section 4).

    Attributes:
        source_dim, target_dim: channels d_s and d_t of the source and target embeddings.
        num_layers: L, the number of layers of the DenseNet.
        growth_rate: g, the channels that each layer adds.
        kernel_size: k, odd; a convolution covers k source positions, and the current and the
            previous (k - 1) / 2 target positions.
        bottleneck: channels after a layer's 1x1 convolution, in multiples of g.
        aggregator: reduction over the source positions, one of ``AGGREGATORS``.
        attention_exponent: attention aggregation multiplies by the source length |s| to this power.
        gated: whether half of the outputs of each masked convolution gate the other half (GLU).
        convolution_dropout: probability of dropping a feature that a layer adds.
        prediction_dropout: probability of dropping a feature before the output layer.
        halving: whether a 1x1 convolution halves the channels of the concatenated embeddings.
        transition: whether a 1x1 convolution halves the channels of the DenseNet's output.
        output_dim: channels of the linear projection after the aggregation, equal to those of the
            target embeddings; None to leave out the projection.
        local_statistics: in distributed training, whether each worker normalizes with the
            statistics of its own batch instead of those of all workers.
    Raises:
        UserError: if a size or the aggregator is not allowed.
    """

    source_dim: int = EMBED_DIM
    target_dim: int = EMBED_DIM
    num_layers: int = 24
    growth_rate: int = 32
    kernel_size: int = 5
    bottleneck: int = 4
    aggregator: str = "max"
    attention_exponent: float = 0.5
    gated: bool = False
    convolution_dropout: float = DROPOUT
    prediction_dropout: float = DROPOUT
    halving: bool = True
    transition: bool = True
    output_dim: int | None = EMBED_DIM
    local_statistics: bool = False

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            # The dimensions are those of the embeddings, whose options are checked before.
            shown = name if name.endswith("_dim") else option_name(name)
            check_range(shown, getattr(self, name), 1, limit)
        if self.kernel_size % 2 == 0:
            raise UserError(
                f"--kernel-size is {self.kernel_size}, but must be odd (1, 3, 5, ...), so that the "
                "kernel has a center over the source."
            )
        if self.aggregator not in AGGREGATORS:
            raise UserError(
                f"--aggregator is '{self.aggregator}', but must be one of {', '.join(AGGREGATORS)}."
            )
        if not -MAX_EXPONENT <= self.attention_exponent <= MAX_EXPONENT:
            raise UserError(
                f"--attention-exponent is {self.attention_exponent}, but must be from "
                f"-{MAX_EXPONENT} to {MAX_EXPONENT}."
            )

    @property
    def grid_channels(self) -> int:
        """Channels of the grid's first features."""
        both = self.source_dim + self.target_dim
        return both // 2 if self.halving else both

    @property
    def hidden_channels(self) -> int:
        """H, channels after the 1x1 convolution of a layer."""
        return self.bottleneck * self.growth_rate

    @property
    def convolution_channels(self) -> int:
        """O, output channels of a masked convolution, those of the gate included."""
        return 2 * self.growth_rate if self.gated else self.growth_rate

    @property
    def target_kernel_size(self) -> int:
        """P = ceil(k/2), the target positions that a masked convolution covers."""
        return (self.kernel_size + 1) // 2
