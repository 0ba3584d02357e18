"""The command-line options of pervasive attention."""

from dataclasses import dataclass, field
from typing import Optional

from ...common.errors import UserError
from ...common.limits import MAX_WIDTH, check_probability, check_range, option_name
from ..adl.config import LayerOptions
from ..base import EmbeddingOptions, check_lengths, check_shared_embeddings
from .network_config import AGGREGATORS, NetworkConfig


@dataclass
class PervasiveConfig(LayerOptions, EmbeddingOptions):
    """The options of pervasive attention.

    None stands for the value of the named architecture (pervasive/architectures.py).
    """

    encoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "channels of the source embeddings"}
    )
    decoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "channels of the target embeddings"}
    )
    num_layers: Optional[int] = field(
        default=None, metadata={"help": "number of layers of the DenseNet"}
    )
    growth_rate: Optional[int] = field(
        default=None, metadata={"help": "channels that each layer adds to those of earlier layers"}
    )
    kernel_size: Optional[int] = field(
        default=None,
        metadata={
            "help": "kernel size k of the masked convolutions, odd: each covers k source "
            "positions, and the current and the previous (k - 1) / 2 target positions"
        },
    )
    bottleneck: Optional[int] = field(
        default=None,
        metadata={"help": "channels after a layer's 1x1 convolution, in multiples of growth_rate"},
    )
    aggregator: Optional[str] = field(
        default=None,
        metadata={"help": f"reduction over the source positions: {', '.join(AGGREGATORS)}"},
    )
    gated: Optional[bool] = field(
        default=None, metadata={"help": "gate the masked convolutions (GLU)"}
    )
    dropout: Optional[float] = field(
        default=None,
        metadata={
            "help": "dropout probability, the default of the three options below and of layers "
            "in ADL"
        },
    )
    embedding_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout on the embeddings (default: --dropout)"}
    )
    convolution_dropout: Optional[float] = field(
        default=None,
        metadata={"help": "dropout on the features that each layer adds (default: --dropout)"},
    )
    prediction_dropout: Optional[float] = field(
        default=None,
        metadata={"help": "dropout on the features before the output layer (default: --dropout)"},
    )
    no_halving: bool = field(
        default=False,
        metadata={"help": "leave out the 1x1 convolution that halves the embeddings' channels"},
    )
    no_transition: bool = field(
        default=False,
        metadata={"help": "leave out the 1x1 convolution that halves the DenseNet's channels"},
    )
    separate_output: bool = field(
        default=False,
        metadata={
            "help": "compute logits with an output layer of its own, right after the aggregation, "
            "instead of one tied to the target embeddings"
        },
    )
    attention_exponent: Optional[float] = field(
        default=None,
        metadata={
            "help": "attention aggregation multiplies by the source length to this power "
            "(0.5 in equation 9 of the paper, -0.5 in its authors' code)"
        },
    )
    no_source_eos: bool = field(
        default=False,
        metadata={
            "help": "leave out the token for the end of the source sentence, as the authors' code "
            "does"
        },
    )
    target_bos: bool = field(
        default=False,
        metadata={
            "help": "start the target sentence with the token for a beginning instead of that for "
            "an end, as the authors' code does"
        },
    )
    local_statistics: bool = field(
        default=False,
        metadata={
            "help": "in distributed training, normalize with the statistics of each worker's own "
            "batch instead of those of all workers"
        },
    )


def check_options(cfg: PervasiveConfig, task) -> None:
    """Check the options that the network's own configuration does not check.

    Args:
        cfg: the options, without None for those of the architecture.
        task: a translation task with a source and a target dictionary.
    Raises:
        UserError: if an option is out of range, or if options contradict each other.
    """
    for name in ("encoder_embed_dim", "decoder_embed_dim"):
        check_range(option_name(name), getattr(cfg, name), 1, MAX_WIDTH)
    check_lengths(cfg)
    for name in ("dropout", "embedding_dropout", "convolution_dropout", "prediction_dropout"):
        check_probability(option_name(name), dropout_probability(cfg, name))
    check_shared_embeddings(cfg, task)
    if cfg.share_all_embeddings and cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        raise UserError(
            f"--encoder-embed-dim is {cfg.encoder_embed_dim} and --decoder-embed-dim "
            f"{cfg.decoder_embed_dim}, but --share-all-embeddings uses one embedding matrix: give "
            "both the same value."
        )


def dropout_probability(cfg: PervasiveConfig, name: str) -> float:
    """The value of a dropout option, that of ``--dropout`` if it was not given."""
    probability = getattr(cfg, name)
    return cfg.dropout if probability is None else probability


def build_network_config(cfg: PervasiveConfig, source_dim: int, target_dim: int) -> NetworkConfig:
    """The configuration of the network that the options describe.

    Args:
        cfg: the options, without None for those of the architecture.
        source_dim, target_dim: channels of the network's inputs: those of the embeddings, or of
            the layers in ADL that follow them.
    Raises:
        UserError: if a size or the aggregator is not allowed.
    """
    return NetworkConfig(
        source_dim=source_dim,
        target_dim=target_dim,
        num_layers=cfg.num_layers,
        growth_rate=cfg.growth_rate,
        kernel_size=cfg.kernel_size,
        bottleneck=cfg.bottleneck,
        aggregator=cfg.aggregator,
        attention_exponent=cfg.attention_exponent,
        gated=cfg.gated,
        convolution_dropout=dropout_probability(cfg, "convolution_dropout"),
        prediction_dropout=dropout_probability(cfg, "prediction_dropout"),
        halving=not cfg.no_halving,
        transition=not cfg.no_transition,
        output_dim=None if cfg.separate_output else cfg.decoder_embed_dim,
        local_statistics=cfg.local_statistics,
    )
