"""The options of ConvS2S."""

from dataclasses import dataclass, field
from typing import Optional

from ..base import EmbeddingOptions, check_sharing
from ..errors import UserError


@dataclass
class ConvS2SConfig(EmbeddingOptions):
    """The options of ConvS2S, named as fconv's where fconv has them.

    None means what the architecture says (convs2s/architectures.py).
    """

    dropout: Optional[float] = field(
        default=None,
        metadata={
            "help": "dropout on embeddings, on the input of every convolution and on the "
            "decoder's output"
        },
    )
    encoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of source embeddings and of the encoder's output"}
    )
    encoder_layers: Optional[str] = field(
        default=None,
        metadata={"help": "encoder layers, e.g. '[(512, 3)] * 9 + [(1024, 1)]': (width, kernel)"},
    )
    decoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of target embeddings, equal to the encoder's"}
    )
    decoder_layers: Optional[str] = field(
        default=None, metadata={"help": "decoder layers, as the encoder's"}
    )
    decoder_out_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of the decoder's output before the words' scores"}
    )
    decoder_attention: str = field(
        default="True",
        metadata={"help": "which decoder layers attend: True or e.g. '[True] * 3 + [False] * 2'"},
    )
    share_input_output_embed: bool = field(
        default=False, metadata={"help": "score words with the target embeddings"}
    )
    no_source_positions: bool = field(
        default=False, metadata={"help": "leave out the source's position embeddings"}
    )
    no_target_positions: bool = field(
        default=False, metadata={"help": "leave out the target's position embeddings"}
    )
    encoder_gradient_uses: Optional[int] = field(
        default=None,
        metadata={
            "help": "the encoder's gradient is divided by this times the number of attention "
            "layers: 1 as in the paper, 2 as in fconv, which counts keys and values"
        },
    )


def check_options(cfg: ConvS2SConfig, task) -> None:
    """Refuse, with a sentence, options that do not fit together."""
    for name in ("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"):
        if getattr(cfg, name) < 1:
            option = name.replace("_", "-")
            raise UserError(f"--{option} is {getattr(cfg, name)}, but must be at least 1.")
    if not 0.0 <= cfg.dropout < 1.0:
        raise UserError(f"--dropout is {cfg.dropout}, but must be at least 0 and below 1.")
    if cfg.encoder_gradient_uses not in (1, 2):
        raise UserError(
            f"--encoder-gradient-uses is {cfg.encoder_gradient_uses}, but must be 1 or 2."
        )
    if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        raise UserError(
            f"--encoder-embed-dim is {cfg.encoder_embed_dim} and --decoder-embed-dim "
            f"{cfg.decoder_embed_dim}, but attention compares the two: give both the same value."
        )
    tied = cfg.share_input_output_embed or cfg.share_all_embeddings
    if tied and cfg.decoder_out_embed_dim != cfg.decoder_embed_dim:
        raise UserError(
            f"--decoder-out-embed-dim is {cfg.decoder_out_embed_dim} and --decoder-embed-dim "
            f"{cfg.decoder_embed_dim}, but words can be scored with the target embeddings only "
            "where both are the same."
        )
    check_sharing(cfg, task)
