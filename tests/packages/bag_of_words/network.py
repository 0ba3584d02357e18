"""Bag-of-words models: attention over source embeddings, regardless of their order."""

from torch import cat

from convs2s.models.interface import Decoder, Encoder, Network, build_embedding_matrices
from convs2s.nn.attention import source_attention
from convs2s.nn.dropout import Dropout
from convs2s.nn.embedding import Embedding
from convs2s.nn.linear import Linear
from convs2s.nn.output import TiedOutputProjection
from convs2s.nn.state import child

from .layers import causal_mean
from .options import BagOfWordsOptions


class BagOfWordsEncoder(Encoder):
    """The source embeddings as they are."""

    def encode(self, tokens, padding_mask):
        """Embed B x S tokens."""
        return {
            "encoder_out": self.embed(tokens, padding_mask),
            "encoder_padding_mask": padding_mask if bool(padding_mask.any()) else None,
        }


class BagOfWordsDecoder(Decoder):
    """The last token, the mean of all tokens so far, and the source tokens they attend to."""

    def __init__(self, embed, dropout, pad, max_length):
        super().__init__(embed, pad, max_length)
        dim = embed.words.embedding_dim
        self.features = Linear(3 * dim, dim)
        self.dropout = Dropout(dropout)
        self.output = TiedOutputProjection(embed.words)

    def decode(self, tokens, padding_mask, encoded, state, need_weights, **unused):
        """Features R x T x E and attention weights R x T x S, or None."""
        start = 0 if state is None else state.length
        last = self.embed(tokens, padding_mask, start)
        mean = causal_mean(last, padding_mask[:, start:], child(state, "mean"))
        context, weights = source_attention(
            last + mean,
            keys=encoded["encoder_out"],
            values=encoded["encoder_out"],
            padding_mask=encoded["encoder_padding_mask"],
            need_weights=need_weights,
        )
        features = self.features(cat([last, mean, context], dim=-1)).relu()
        return self.dropout(features), weights


class BagOfWords(Network):
    """A bag-of-words encoder and decoder."""

    options_class = BagOfWordsOptions
    encoder_class = BagOfWordsEncoder
    decoder_class = BagOfWordsDecoder

    def __init__(self, options, vocabularies):
        dim, dropout, pad = options.embed_dim, options.dropout, vocabularies.pad
        options.check()
        source, target = build_embedding_matrices(options, vocabularies, dim, dim)
        encoder = self.encoder_class(
            Embedding(source, None, dropout), pad, options.max_source_positions
        )
        decoder = self.decoder_class(
            Embedding(target, None, dropout), dropout, pad, options.max_target_positions
        )
        super().__init__(encoder, decoder, options.right_to_left)
