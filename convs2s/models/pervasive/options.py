"""The options of pervasive attention, and the sizes that follow from them."""

from dataclasses import dataclass

from ...common.errors import UserError
from ...common.limits import (
    MAX_KERNEL_SIZE,
    MAX_LAYERS,
    MAX_WIDTH,
    check_at_least,
    check_probability,
    check_range,
    option_name,
)
from ..adl.language.resolve import resolve_stack
from ..adl.language.spec import DECODER, ENCODER, StackSpec
from ..adl.options import DEFINITIONS, LayerOptions
from ..options import option

AGGREGATORS = ("max", "avg", "attn", "max+attn")
MAX_EXPONENT = 2
_LIMITS = {
    "encoder_embed_dim": MAX_WIDTH,
    "decoder_embed_dim": MAX_WIDTH,
    "num_layers": MAX_LAYERS,
    "growth_rate": MAX_WIDTH,
    "kernel_size": MAX_KERNEL_SIZE,
    "bottleneck": 64,
}
_DROPOUTS = ("dropout", "embedding_dropout", "convolution_dropout", "prediction_dropout")
# Why layers before the grid cannot attend to the source, for error messages.
_NO_SOURCE = {
    ENCODER: "this is the encoder itself",
    DECODER: "here the grid does that, and the layers before it see only the target",
}


@dataclass
class PervasiveOptions(LayerOptions):
    """The options of pervasive attention.

    The defaults are those of the base model (Elbayad et al. 2018, section 4).
    """

    encoder_embed_dim: int = option(128, "channels of the source embeddings")
    decoder_embed_dim: int = option(128, "channels of the target embeddings")
    num_layers: int = option(24, "number of layers of the DenseNet")
    growth_rate: int = option(32, "channels that each layer adds to those of earlier layers")
    kernel_size: int = option(
        5,
        "kernel size k of the masked convolutions, odd: each covers k source positions, and the "
        "current and the previous (k - 1) / 2 target positions",
    )
    bottleneck: int = option(
        4, "channels after a layer's 1x1 convolution, in multiples of growth_rate"
    )
    aggregator: str = option(
        "max", f"reduction over the source positions: {', '.join(AGGREGATORS)}"
    )
    gated: bool = option(False, "gate the masked convolutions (GLU)")
    dropout: float = option(
        0.2,
        "dropout probability, the default of the three options below and of layers in ADL",
    )
    embedding_dropout: float | None = option(None, "dropout on the embeddings (default: --dropout)")
    convolution_dropout: float | None = option(
        None, "dropout on the features that each layer adds (default: --dropout)"
    )
    prediction_dropout: float | None = option(
        None, "dropout on the features before the output layer (default: --dropout)"
    )
    no_halving: bool = option(
        False, "omit the 1x1 convolution that halves the embeddings' channels"
    )
    no_transition: bool = option(
        False, "omit the 1x1 convolution that halves the DenseNet's channels"
    )
    separate_output: bool = option(
        False,
        "compute logits with a separate output layer, right after the aggregation, instead of one "
        "tied to the target embeddings",
    )
    attention_exponent: float = option(
        0.5,
        "attention aggregation multiplies by the source length to this power (0.5 in equation 9 "
        "of the paper, -0.5 in its authors' code)",
    )
    no_source_eos: bool = option(
        False, "omit the token for the end of the source sentence, as the authors' code does"
    )
    target_bos: bool = option(
        False,
        "start the target sentence with the beginning-of-sentence token instead of the "
        "end-of-sentence token, as the authors' code does",
    )
    statistics_updates: int | None = option(
        None,
        "updates that normalize with the statistics of their batch; later ones normalize with the "
        "running averages, as generation does (default: all updates)",
    )
    local_statistics: bool = option(
        False,
        "in distributed training, normalize with the statistics of each worker's own batch "
        "instead of those of all workers",
    )

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

    @property
    def output_dim(self) -> int | None:
        """Channels of the linear map after the aggregation; None for no such map."""
        return None if self.separate_output else self.decoder_embed_dim

    def grid_channels(self, source_dim: int, target_dim: int) -> int:
        """Channels of the grid's first features, for inputs with these channels."""
        both = source_dim + target_dim
        return both if self.no_halving else both // 2

    def dropout_of(self, name: str) -> float:
        """The value of a dropout option, that of ``dropout`` if it was not given."""
        probability: float | None = getattr(self, name)
        return self.dropout if probability is None else probability

    def layers(self, side: str) -> StackSpec | None:
        """The layers in ADL between the embeddings and the grid on one side, or None.

        Args:
            side: ENCODER or DECODER.
        Raises:
            UserError: if the definition is wrong.
        """
        name = f"{side}_adl"
        definition: str | None = getattr(self, name)
        if definition is None:
            return None
        width: int = getattr(self, f"{side}_embed_dim")
        settings = self.layer_settings(width)
        dialect, option_ = self.adl_dialect, DEFINITIONS[name]
        return resolve_stack(definition, side, settings, dialect, option_, _NO_SOURCE[side])

    def check(self) -> None:
        """Check that options are in range and do not contradict each other.

        Raises:
            UserError: if they are out of range, or contradict each other.
        """
        for name, limit in _LIMITS.items():
            check_range(option_name(name), getattr(self, name), 1, limit)
        super().check()
        check_at_least(self, statistics_updates=0)
        for name in _DROPOUTS:
            check_probability(option_name(name), self.dropout_of(name))
        if self.share_all_embeddings and self.encoder_embed_dim != self.decoder_embed_dim:
            raise UserError(
                f"--encoder-embed-dim is {self.encoder_embed_dim} and --decoder-embed-dim "
                f"{self.decoder_embed_dim}, but --share-all-embeddings uses one embedding matrix: "
                "give both the same value."
            )
        if self.kernel_size % 2 == 0:
            raise UserError(
                f"--kernel-size is {self.kernel_size}, but must be odd (1, 3, 5, ...), so that the "
                "kernel has a center over the source."
            )
        if self.aggregator not in AGGREGATORS:
            raise UserError(
                f"--aggregator is '{self.aggregator}', but must be one of {', '.join(AGGREGATORS)}."
            )
        check_range("--attention-exponent", self.attention_exponent, -MAX_EXPONENT, MAX_EXPONENT)
