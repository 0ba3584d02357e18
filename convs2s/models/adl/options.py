"""The options of models in ADL."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...common.errors import UserError
from ...common.limits import MAX_INIT_GAIN, check_range
from ..options import AlignmentOptions, Architecture, NetworkOptions, option
from .language.resolve import DIALECTS, resolve
from .language.spec import LayerSpec, ModelSpec, Settings

DEFINITIONS = {"encoder_adl": "--encoder-adl", "decoder_adl": "--decoder-adl"}


@dataclass
class LayerOptions(NetworkOptions):
    """Definitions in ADL, and defaults for their layers."""

    encoder_adl: str | None = option(
        None,
        "layers in ADL on the source side, e.g. 'pos -> repeat(6, res_nd(rnn) -> res_nd(ffl)) -> "
        "norm'; @FILE reads a definition from a file",
    )
    decoder_adl: str | None = option(None, "layers in ADL on the target side")
    adl_dialect: str = option("paper", f"dialect of both definitions: {' or '.join(DIALECTS)}")
    ff_dim: int | None = option(
        None, "inner channels of ffl (default: 4 times the channels of its input)"
    )
    attention_heads: int = option(Settings.attention_heads, "heads of multi-head attention in ADL")
    attention_dropout: float | None = option(
        None, "dropout on attention weights (default: --dropout)"
    )
    dropout: float = option(Settings.dropout, "dropout of layers without a given probability")

    def layer_settings(self, width: int) -> Settings:
        """The defaults that the options give to layers.

        Args:
            width: channels of the input of the first layer.
        """
        return Settings(
            width,
            self.ff_dim,
            self.attention_heads,
            self.dropout,
            self.attention_dropout,
            self.max_source_positions,
            self.max_target_positions,
        )


@dataclass
class AdlOptions(AlignmentOptions, LayerOptions):
    """The options of models in ADL."""

    alignment_heads: int | None = option(
        None,
        "the alignment is the mean of this many heads, the first ones of each layer (default: of "
        "all)",
    )
    model_dim: int = option(
        Settings.model_dim, "channels of the embeddings, and of layers without a given width"
    )
    input_feeding: bool = option(
        False,
        "concatenate the decoder's previous output with the embedding of the previous token "
        "(Luong et al. 2015)",
    )
    init_gain: float = option(
        1.0, "factor of initial weights, which follow Glorot and Bengio (xavier)"
    )
    share_input_output_embed: bool = option(False, "tie the output layer to the target embeddings")

    @property
    def tied(self) -> bool:
        """Whether the output layer uses the target embedding matrix."""
        return self.share_input_output_embed or self.share_all_embeddings

    def resolve(self) -> ModelSpec:
        """The specification that the options describe.

        Raises:
            UserError: if a definition is missing or wrong, or an option is out of range.
        """
        check_range("--init-gain", self.init_gain, 0, MAX_INIT_GAIN)
        missing = [option for name, option in DEFINITIONS.items() if not getattr(self, name)]
        if self.encoder_adl and self.decoder_adl:
            return resolve(
                self.encoder_adl,
                self.decoder_adl,
                self.layer_settings(self.model_dim),
                self.adl_dialect,
                self.input_feeding,
            )
        raise UserError(
            f"--arch adl needs {' and '.join(missing)}: a chain of layers, which `convs2s adl "
            "layers` lists. Named architectures have both: `convs2s adl list` prints them."
        )

    def check_alignment(self, attending: list[LayerSpec]) -> None:
        """Check the layer and the heads whose attention is the alignment.

        Args:
            attending: the decoder layers that attend to the source.
        Raises:
            UserError: if there is no such layer, or a layer has fewer heads.
        """
        self.check_alignment_layer(len(attending))
        if self.alignment_heads is None:
            return
        layers = attending if self.alignment_layer is None else [attending[self.alignment_layer]]
        heads = min((layer.arguments.get("h", 1) for layer in layers), default=0)
        if not 1 <= self.alignment_heads <= heads:
            raise UserError(
                f"--alignment-heads is {self.alignment_heads}, but the attention of the alignment "
                f"has {heads} heads: give a number from 1 to {heads}, or omit the option."
            )


class AdlArchitecture(NamedTuple):
    """A named pair of definitions.

    Attributes:
        encoder, decoder: ADL text.
        source: the section or table of the paper.
        options: options of the model that differ from their defaults.
        sizes: whether it exists in all SIZES.
    """

    encoder: str
    decoder: str
    source: str
    options: dict[str, Any] = {}
    sizes: bool = True

    def as_options(self) -> Architecture:
        """The same in the form of other families' architectures, whose layers are options."""
        definitions = {"encoder_adl": self.encoder, "decoder_adl": self.decoder}
        return Architecture({**definitions, **self.options}, self.source)

    def resolve(self, **options: Any) -> ModelSpec:
        """The specification of the model; ``options`` override those of the architecture."""
        return AdlOptions(**{**self.as_options().options, **options}).resolve()
