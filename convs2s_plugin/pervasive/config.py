"""The options of pervasive attention."""

from dataclasses import dataclass, field
from typing import Optional, Tuple

from ..adl.config import LayerOptions
from ..base import EmbeddingOptions, check_sharing
from ..errors import UserError
from .aggregation import AGGREGATORS


@dataclass
class PervasiveConfig(LayerOptions, EmbeddingOptions):
    """The options of pervasive attention.

    None means what the architecture says (pervasive/architectures.py).
    """

    encoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of source embeddings"}
    )
    decoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of target embeddings"}
    )
    num_layers: Optional[int] = field(default=None, metadata={"help": "layers of the DenseNet"})
    growth_rate: Optional[int] = field(
        default=None, metadata={"help": "features that a layer adds to those of all before it"}
    )
    kernel_size: Optional[int] = field(
        default=None,
        metadata={
            "help": "k, odd: a layer sees k source positions and the last ceil(k/2) target words"
        },
    )
    bottleneck: Optional[int] = field(
        default=None,
        metadata={"help": "channels between a layer's convolutions, in multiples of growth_rate"},
    )
    aggregator: Optional[str] = field(
        default=None,
        metadata={"help": f"what collapses the source: {', '.join(AGGREGATORS)}"},
    )
    gated: Optional[bool] = field(
        default=None, metadata={"help": "gate the masked convolutions (GLU)"}
    )
    dropout: Optional[float] = field(
        default=None,
        metadata={"help": "of the three below, and of layers in ADL that do not say theirs"},
    )
    embedding_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout on embeddings"}
    )
    convolution_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout on the features that a layer adds"}
    )
    prediction_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout before the words' scores"}
    )
    no_halving: bool = field(
        default=False,
        metadata={"help": "leave out the 1x1 convolution that halves the embeddings' channels"},
    )
    no_transition: bool = field(
        default=False,
        metadata={"help": "leave out the 1x1 convolution that halves the DenseNet's features"},
    )
    separate_output: bool = field(
        default=False,
        metadata={
            "help": "score words with a matrix of its own, right after the aggregation, and not "
            "with the target embeddings"
        },
    )
    local_statistics: bool = field(
        default=False,
        metadata={
            "help": "in distributed training, normalize with the statistics of each worker's own "
            "batch, and not with those of all"
        },
    )


def check_options(cfg: PervasiveConfig, task) -> Tuple[float, float, float]:
    """Refuse, with a sentence, options that do not fit together; return the three dropouts."""
    for name in ("encoder_embed_dim", "decoder_embed_dim"):
        if getattr(cfg, name) < 1:
            option = name.replace("_", "-")
            raise UserError(f"--{option} is {getattr(cfg, name)}, but must be at least 1.")
    rates = []
    for name in ("dropout", "embedding_dropout", "convolution_dropout", "prediction_dropout"):
        rate = getattr(cfg, name)
        rates.append(cfg.dropout if rate is None else rate)
        if not 0.0 <= rates[-1] < 1.0:
            option = name.replace("_", "-")
            raise UserError(f"--{option} is {rates[-1]}, but must be at least 0 and below 1.")
    check_sharing(cfg, task)
    if cfg.share_all_embeddings and cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        raise UserError(
            f"--encoder-embed-dim is {cfg.encoder_embed_dim} and --decoder-embed-dim "
            f"{cfg.decoder_embed_dim}, but --share-all-embeddings has one table: give both the "
            "same value."
        )
    return tuple(rates[1:])
