"""Pervasive attention (Elbayad et al. 2018): one masked 2-D DenseNet over source and target."""

from dataclasses import dataclass, field
from typing import Optional, Tuple

from fairseq.models import register_model

from ..adl.recipe import DECODER, ENCODER, Side
from ..adl.resolve import resolve_side
from ..errors import UserError
from ..modules.aggregation import AGGREGATORS
from ..modules.embedding import Embedding
from ..modules.grid_input import source_share
from ..modules.output import Output, TiedOutput
from ..modules.pervasive import PervasiveAttention
from .adl_chains import SourceChain, TargetChain
from .adl_definitions import DEFINITIONS, keep_definitions, layer_settings
from .base import PluginModel, check_sharing, max_positions, word_tables
from .named import complete, register_architectures
from .options import LayersConfig, WordsConfig
from .pervasive_architectures import ARCHITECTURES, BASE, MODEL
from .pervasive_sides import PervasiveDecoder, PervasiveEncoder


@dataclass
class PervasiveConfig(LayersConfig, WordsConfig):
    """The options of pervasive attention.

    None means what the architecture says (models/pervasive_architectures.py).
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
            "help": "in distributed training, normalise with the statistics of each worker's own "
            "batch, and not with those of all"
        },
    )


@register_model(MODEL, dataclass=PervasiveConfig)
class PervasiveModel(PluginModel):
    """Pervasive attention (Elbayad et al. 2018)."""

    @classmethod
    def build_model(cls, cfg: PervasiveConfig, task) -> "PervasiveModel":
        """Build the model that a configuration describes.

        Args:
            cfg: the options above.
            task: a translation task, with a source and a target dictionary.
        Raises:
            UserError: where options do not fit together.
        """
        complete(cfg, BASE)
        embedding, convolution, prediction = check_options(cfg, task)
        source_words, target_words = word_tables(
            cfg, task, cfg.encoder_embed_dim, cfg.decoder_embed_dim
        )
        keep_definitions(cfg)
        source, target = read_sides(cfg)
        dims = (
            source.width if source else cfg.encoder_embed_dim,
            target.width if target else cfg.decoder_embed_dim,
        )
        network = PervasiveAttention(
            *dims,
            num_layers=cfg.num_layers,
            growth_rate=cfg.growth_rate,
            kernel_size=cfg.kernel_size,
            bottleneck=cfg.bottleneck,
            aggregator_name=cfg.aggregator,
            gated=cfg.gated,
            conv_dropout=convolution,
            output_dropout=prediction,
            halve_input=not cfg.no_halving,
            transition=not cfg.no_transition,
            project=not cfg.separate_output,
            output_dim=cfg.decoder_embed_dim,
            share_statistics=not cfg.local_statistics,
        )
        # The matrix E of equation 4: the target's table of words, or one of its own.
        output = TiedOutput(target_words)
        if cfg.separate_output:
            output = Output(network.out_channels, len(task.target_dictionary))
        encoder = PervasiveEncoder(
            task.source_dictionary,
            Embedding(source_words, None, embedding),
            SourceChain(source) if source else None,
            source_share(*dims, halve=not cfg.no_halving),
            max_positions(cfg.max_source_positions),
        )
        decoder = PervasiveDecoder(
            task.target_dictionary,
            Embedding(target_words, None, embedding),
            TargetChain(target) if target else None,
            network,
            output,
            max_positions(cfg.max_target_positions),
        )
        return cls(encoder, decoder)


def read_sides(cfg: PervasiveConfig) -> Tuple[Optional[Side], Optional[Side]]:
    """The layers between embeddings and grid, of the source and of the target.

    Raises:
        UserError: where a definition is wrong.
    """
    sides = []
    for side, width in ((ENCODER, cfg.encoder_embed_dim), (DECODER, cfg.decoder_embed_dim)):
        name = f"{side}_adl"
        if getattr(cfg, name) is None:
            sides.append(None)
            continue
        settings = layer_settings(cfg, width)
        text = getattr(cfg, name)
        sides.append(resolve_side(text, side, settings, cfg.adl_dialect, DEFINITIONS[name]))
    return tuple(sides)


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


register_architectures(
    MODEL, PervasiveConfig, BASE, {name: row.options for name, row in ARCHITECTURES.items()}
)
