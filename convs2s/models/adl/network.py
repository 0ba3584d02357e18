"""Models in the Architecture Definition Language (Domhan 2018)."""

from typing import Any

import torch
from torch import Tensor, nn

from ...common.errors import UserError
from ...nn.attention import MEAN_ALIGNMENT, Alignment
from ...nn.embedding import Embedding
from ...nn.output import OutputProjection, TiedOutputProjection
from ...nn.state import State
from ..interface import Decoder, Encoder, Network, Vocabularies, build_embedding_matrices
from .context import Source
from .language.registry import layer_type
from .language.spec import ModelSpec, StackSpec
from .options import AdlOptions
from .stacks import DecoderStack, EncoderStack


class AdlEncoder(Encoder):
    """Embedding and the layers of the encoder.

    Args:
        embed: source embedding.
        spec: the resolved layers.
        blocks: numbers of the encoder blocks that the decoder attends to.
        pad, max_length: as for ``Encoder``.
    """

    refuses_empty = True

    def __init__(
        self, embed: Embedding, spec: StackSpec, blocks: list[int], pad: int, max_length: int
    ):
        super().__init__(embed, pad, max_length)
        self.layers = EncoderStack(spec, blocks)

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences; see ``Encoder.encode``.

        Returns:
            A dictionary of tensors with one row per sentence, whose padding follows its tokens:
            ``encoder_out``, B x S x C; ``block0``, ``block1``, ... if the decoder attends to
            blocks other than the topmost; ``encoder_padding_mask``, B x S or None; and
            ``encoder_columns``, B x S, the new column of each column of ``tokens`` (None if all
            stay in place).
        """
        x, blocks, padding_order = self.layers(self.embed, tokens, padding_mask)
        return {
            "encoder_out": x,
            **{f"block{number}": block for number, block in blocks.items()},
            "encoder_padding_mask": padding_order.padding_mask,
            "encoder_columns": padding_order.inverse,
        }


class AdlDecoder(Decoder):
    """Embedding, the layers of the decoder, and the output layer.

    Args:
        embed: target embedding.
        spec: the resolved layers.
        blocks: numbers of the encoder blocks that the layers attend to.
        output: the output layer.
        input_feeding: whether the input is the embedding of the previous token concatenated with
            the previous output (section 2.4).
        pad, max_length: as for ``Decoder``.
        alignment: the layer and the heads whose attention is the alignment (default: the mean of
            all).
    """

    def __init__(
        self,
        embed: Embedding,
        spec: StackSpec,
        blocks: list[int],
        output: nn.Module,
        input_feeding: bool,
        pad: int,
        max_length: int,
        alignment: Alignment = MEAN_ALIGNMENT,
    ):
        super().__init__(embed, pad, max_length)
        self.layers = DecoderStack(spec, input_feeding)
        self.blocks = blocks
        self.output = output
        self.alignment = alignment

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoded: dict[str, Any],
        state: State | None,
        need_weights: bool,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        **unused: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the input of the output layer; see ``Decoder.decode``.

        Args:
            alignment_layer: the layer whose attention weights to return (default: that of the
                model).
            alignment_heads: the number of its heads (default: that of the model).
        Returns:
            Features R x T x C, and attention weights R x T x S averaged over these layers and
            heads (None if they are not needed, or if no layer attends to the source).
        """
        return self.layers(
            self.embed,
            tokens,
            padding_mask,
            self.source(encoded),
            state,
            need_weights,
            self.alignment.replaced_by(alignment_layer, alignment_heads),
        )

    def source(self, encoded: dict[str, Any]) -> Source:
        """The part of the encoder's dictionary that layers attend to."""
        top = encoded["encoder_out"]
        return Source(
            {block: encoded.get(f"block{block}", top) for block in self.blocks},
            encoded["encoder_padding_mask"],
            encoded["beam_size"],
            encoded["encoder_columns"],
        )


class AdlNetwork(Network):
    """An encoder and a decoder that are written in ADL (Domhan 2018).

    Args:
        options: the options.
        vocabularies: sizes of the vocabularies, and their special tokens.
    Attributes:
        spec: the resolved definitions.
    Raises:
        TextError: if a definition is wrong; the error shows the place.
        UserError: if an option is out of range, or options contradict each other.
    """

    options_class = AdlOptions
    encoder_class = AdlEncoder
    decoder_class = AdlDecoder

    def __init__(self, options: AdlOptions, vocabularies: Vocabularies):
        spec, dim = options.resolve(), options.model_dim
        source_matrix, target_matrix = build_embedding_matrices(
            options, vocabularies, dim, dim, std=dim**-0.5
        )
        output = build_output(options, spec, target_matrix)
        attending = [layer for layer in spec.decoder.walk() if layer_type(layer).attends]
        blocks = sorted({layer["block"] for layer in attending})
        options.check_alignment(attending)
        encoder = self.encoder_class(
            Embedding(source_matrix, None),
            spec.encoder,
            blocks,
            vocabularies.pad,
            spec.settings.max_source_positions,
        )
        decoder = self.decoder_class(
            Embedding(target_matrix, None),
            spec.decoder,
            blocks,
            output,
            spec.input_feeding,
            vocabularies.pad,
            spec.settings.max_target_positions,
            Alignment(options.alignment_layer, options.alignment_heads),
        )
        scale_weights_(encoder.layers, options.init_gain)
        scale_weights_(decoder.layers, options.init_gain)
        super().__init__(encoder, decoder, options.right_to_left)
        self.spec = spec


def build_output(options: AdlOptions, spec: ModelSpec, target_matrix: nn.Embedding) -> nn.Module:
    """The output layer: tied to the target embeddings, or with its own weights.

    Raises:
        UserError: if it must be tied, but the decoder is not as wide as the embeddings.
    """
    width = spec.decoder.width
    if not options.tied:
        return OutputProjection(width, target_matrix.num_embeddings)
    if width != options.model_dim:
        raise UserError(
            f"The decoder outputs {width} channels and --model-dim is {options.model_dim}, but the "
            "output layer can be tied to the target embeddings only if both are the same: end the "
            f"decoder with 'linear({options.model_dim})', for example."
        )
    return TiedOutputProjection(target_matrix)


@torch.no_grad()
def scale_weights_(layers: nn.Module, gain: float) -> None:
    """Multiply the initial weights of linear maps by a factor, those of recurrent networks too.

    Biases stay, and so does what else a layer learns: decays, vectors of positions, the weights of
    a convolution that treats each channel separately.
    """
    if gain == 1.0:
        return
    for module in layers.modules():
        if isinstance(module, nn.Linear | nn.RNNBase):
            for parameter in module.parameters(recurse=False):
                if parameter.dim() > 1:
                    parameter.mul_(gain)
