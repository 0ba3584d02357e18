"""ConvS2S as two modules of plain tensors, an encoder and a decoding step."""

from typing import NamedTuple

from torch import Tensor, nn

from ...models.convs2s.gated_conv1d import GatedConv1d
from ...models.convs2s.network import ConvS2SDecoder, ConvS2SEncoder
from ...nn.state import State


class Source(NamedTuple):
    """The encoder output that the decoder attends to; see ``ConvS2SEncoder.encode``."""

    keys: Tensor
    values: Tensor
    padding_mask: Tensor
    lengths: Tensor


class EncoderModule(nn.Module):
    """The encoder of ConvS2S.

    Args:
        encoder: the encoder of a model that is ready for generation.
    """

    def __init__(self, encoder: ConvS2SEncoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, src_tokens: Tensor) -> Source:
        """Encode a batch of sentences.

        Args:
            src_tokens: B x S token indices, padded on either side or on both.
        Returns:
            Keys B x S x E, values B x S x E, padding mask B x S (True at padding), lengths B.
        """
        padding_mask = src_tokens.eq(self.encoder.pad)
        encoded = self.encoder.encode(src_tokens, padding_mask)
        return Source(
            encoded["encoder_out"],
            encoded["encoder_values"],
            padding_mask,
            encoded["encoder_lengths"],
        )


class DecoderStepModule(nn.Module):
    """One step of incremental decoding, with all state in its arguments and results.

    The state is one cache for each convolution that reads earlier positions: its last k - 1 inputs,
    R x (k - 1) x C, which are zeros before the first step.

    Args:
        decoder: the decoder of a model that is ready for generation.
    """

    def __init__(self, decoder: ConvS2SDecoder):
        super().__init__()
        self.decoder = decoder
        # Index of a convolution -> k - 1 and C of its cache.
        self.cached: dict[int, tuple[int, int]] = {}
        for i, part in enumerate(decoder.blocks.convolutions):
            assert isinstance(part, GatedConv1d)
            k = part.kernel_size
            if k > 1:
                self.cached[i] = k - 1, part.linear.in_features // k

    def cache_sizes(self) -> list[tuple[int, int]]:
        """k - 1 and C of each cache."""
        return list(self.cached.values())

    def forward(
        self, prev_tokens: Tensor, position: Tensor, source: Source, caches: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Compute the logits of the next token of each hypothesis.

        Args:
            prev_tokens: R, the previous token of each hypothesis; the end of sentence first.
            position: its position, a number without dimensions; 0 first.
            source: the encoder output of R sentences, one for each hypothesis.
            caches: the state.
        Returns:
            Logits R x V, attention weights R x S averaged over the layers, and the new state.
        """
        embed = self.decoder.embed
        embedded = embed.words(prev_tokens.unsqueeze(1))
        if embed.positions is not None:
            # Row 0 of the position vectors is for padding.
            embedded = embedded + embed.positions.weight[position + 1]
        state = State()
        states = [state.child(f"convolution{i}") for i in self.cached]
        for of_convolution, cache in zip(states, caches):
            of_convolution.rows["inputs"] = cache
        root = State()
        root.children["blocks"] = state
        encoder_out = {
            "encoder_out": source.keys,
            "encoder_values": source.values,
            "encoder_padding_mask": source.padding_mask,
            "encoder_lengths": source.lengths,
        }
        features, attention = self.decoder.decode_embedded(embedded, None, encoder_out, root, True)
        logits = self.decoder.output(features)
        weights = sum(attention.values()) / len(attention)
        assert isinstance(weights, Tensor)
        new_caches = [of_convolution.rows["inputs"] for of_convolution in states]
        return logits.squeeze(1), weights.squeeze(1), new_caches
