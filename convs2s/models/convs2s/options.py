"""The options of ConvS2S."""

from dataclasses import dataclass

from ...common.errors import UserError
from ...common.limits import MAX_WIDTH, check_probability, check_range, option_name
from ..options import AlignmentOptions, option


@dataclass
class ConvS2SOptions(AlignmentOptions):
    """The options of ConvS2S; those that fairseq's fconv has as well have the same names.

    The defaults are those of the base model (Gehring et al. 2017, section 4.2).
    """

    dropout: float = option(
        0.1,
        "dropout probability of embeddings, of the input of each convolution and of the input of "
        "the output layer",
    )
    encoder_embed_dim: int = option(512, "channels of source embeddings and of the encoder output")
    encoder_layers: str = option(
        "[(512, 3)] * 20",
        "channels and kernel size of each encoder layer, e.g. '[(512, 3)] * 9 + [(1024, 1)]'",
    )
    decoder_embed_dim: int = option(
        512, "channels of target embeddings, equal to --encoder-embed-dim"
    )
    decoder_layers: str = option(
        "[(512, 3)] * 20", "channels and kernel size of each decoder layer, like --encoder-layers"
    )
    decoder_out_embed_dim: int = option(512, "channels of the input of the output layer")
    decoder_attention: str = option(
        "True",
        "the decoder layers that attend to the source: True (all) or one flag per layer, e.g. "
        "'[True] * 3 + [False] * 2'",
    )
    share_input_output_embed: bool = option(
        False, "use the target embedding matrix in the output layer"
    )
    no_source_positions: bool = option(False, "omit the source position embeddings")
    no_target_positions: bool = option(False, "omit the target position embeddings")
    encoder_gradient_uses: int = option(
        1,
        "divide the gradient of the encoder output by this number times the number of attention "
        "layers: 1 as in the paper, 2 as in fconv, which counts keys and values",
    )

    @property
    def tied(self) -> bool:
        """Whether the output layer uses the target embedding matrix."""
        return self.share_input_output_embed or self.share_all_embeddings

    def check(self) -> None:
        """Check that options are in range and do not contradict each other.

        Raises:
            UserError: if they are out of range, or contradict each other.
        """
        for name in ("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"):
            check_range(option_name(name), getattr(self, name), 1, MAX_WIDTH)
        super().check()
        check_probability("--dropout", self.dropout)
        if self.encoder_gradient_uses not in (1, 2):
            raise UserError(
                f"--encoder-gradient-uses is {self.encoder_gradient_uses}, but must be 1 or 2."
            )
        if self.encoder_embed_dim != self.decoder_embed_dim:
            raise UserError(
                f"--encoder-embed-dim is {self.encoder_embed_dim} and --decoder-embed-dim is "
                f"{self.decoder_embed_dim}, but attention needs the same number of channels on "
                "both sides: give both the same value."
            )
        if self.tied and self.decoder_out_embed_dim != self.decoder_embed_dim:
            raise UserError(
                f"--decoder-out-embed-dim is {self.decoder_out_embed_dim} and --decoder-embed-dim "
                f"is {self.decoder_embed_dim}, but the output layer can use the target embedding "
                "matrix only if both are the same."
            )
