"""The options of ConvS2S."""

from dataclasses import dataclass, field
from typing import Optional

from ...common.errors import UserError
from ...common.limits import MAX_WIDTH, check_probability, check_range, option_name
from ..base import AlignmentOptions, EmbeddingOptions, check_lengths, check_shared_embeddings


@dataclass
class ConvS2SConfig(AlignmentOptions, EmbeddingOptions):
    """The options of ConvS2S; options that fairseq's fconv has, too, have the same names.

    None means the value of the named architecture (architectures.py).
    """

    dropout: Optional[float] = field(
        default=None,
        metadata={
            "help": "dropout probability of embeddings, of the input of each convolution and of "
            "the input of the output layer"
        },
    )
    encoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "channels of source embeddings and of the encoder output"}
    )
    encoder_layers: Optional[str] = field(
        default=None,
        metadata={
            "help": "channels and kernel size of each encoder layer, e.g. "
            "'[(512, 3)] * 9 + [(1024, 1)]'"
        },
    )
    decoder_embed_dim: Optional[int] = field(
        default=None,
        metadata={"help": "channels of target embeddings, equal to --encoder-embed-dim"},
    )
    decoder_layers: Optional[str] = field(
        default=None,
        metadata={"help": "channels and kernel size of each decoder layer, as --encoder-layers"},
    )
    decoder_out_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "channels of the input of the output layer"}
    )
    decoder_attention: str = field(
        default="True",
        metadata={
            "help": "the decoder layers that attend to the source: True (all) or one flag per "
            "layer, e.g. '[True] * 3 + [False] * 2'"
        },
    )
    share_input_output_embed: bool = field(
        default=False, metadata={"help": "use the target embedding matrix in the output layer"}
    )
    no_source_positions: bool = field(
        default=False, metadata={"help": "leave out the source position embeddings"}
    )
    no_target_positions: bool = field(
        default=False, metadata={"help": "leave out the target position embeddings"}
    )
    encoder_gradient_uses: Optional[int] = field(
        default=None,
        metadata={
            "help": "divide the gradient of the encoder output by this number times the number of "
            "attention layers: 1 as in the paper, 2 as in fconv, which counts keys and values"
        },
    )


def check_options(cfg: ConvS2SConfig, task) -> None:
    """Check that options are in range and do not contradict each other.

    Args:
        cfg: the options, without missing values.
        task: a translation task, for its dictionaries.
    Raises:
        UserError: if they are not, or do.
    """
    for name in ("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"):
        check_range(option_name(name), getattr(cfg, name), 1, MAX_WIDTH)
    check_lengths(cfg)
    check_probability("--dropout", cfg.dropout)
    if cfg.encoder_gradient_uses not in (1, 2):
        raise UserError(
            f"--encoder-gradient-uses is {cfg.encoder_gradient_uses}, but must be 1 or 2."
        )
    if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        raise UserError(
            f"--encoder-embed-dim is {cfg.encoder_embed_dim} and --decoder-embed-dim is "
            f"{cfg.decoder_embed_dim}, but attention needs the same number of channels on both "
            "sides: give both the same value."
        )
    tied = cfg.share_input_output_embed or cfg.share_all_embeddings
    if tied and cfg.decoder_out_embed_dim != cfg.decoder_embed_dim:
        raise UserError(
            f"--decoder-out-embed-dim is {cfg.decoder_out_embed_dim} and --decoder-embed-dim is "
            f"{cfg.decoder_embed_dim}, but the output layer can use the target embedding matrix "
            "only if both are the same."
        )
    check_shared_embeddings(cfg, task)
