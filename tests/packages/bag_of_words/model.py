"""Bag-of-words models: attention over source embeddings, regardless of their order."""

from fairseq.models import register_model
from torch import cat

from convs2s.models.base import (
    PluginDecoder,
    PluginEncoder,
    PluginModel,
    build_embedding_matrices,
    check_shared_embeddings,
    fill_defaults,
    max_length_or_default,
    register_architectures,
)
from convs2s.nn.attention import source_attention
from convs2s.nn.dropout import Dropout
from convs2s.nn.embedding import Embedding
from convs2s.nn.linear import Linear
from convs2s.nn.output import TiedOutputProjection
from convs2s.nn.state import child

from .config import ARCHITECTURES, BASE, MODEL, BagOfWordsConfig
from .layers import causal_mean


class BagOfWordsEncoder(PluginEncoder):
    """The source embeddings as they are."""

    def encode(self, tokens, padding_mask):
        """Embed B x S tokens."""
        return {
            "encoder_out": self.embed(tokens, padding_mask),
            "encoder_padding_mask": padding_mask if bool(padding_mask.any()) else None,
        }


class BagOfWordsDecoder(PluginDecoder):
    """The last token, the mean of all tokens so far, and the source tokens they attend to."""

    def __init__(self, dictionary, embed, dropout, max_length):
        super().__init__(dictionary, embed, max_length)
        dim = embed.words.embedding_dim
        self.features = Linear(3 * dim, dim)
        self.dropout = Dropout(dropout)
        self.output = TiedOutputProjection(embed.words)

    def decode(self, tokens, padding_mask, encoder_out, state, need_attn, **unused):
        """Features R x T x E and attention weights R x T x S, or None."""
        start = 0 if state is None else state.length
        last = self.embed(tokens, padding_mask, start)
        mean = causal_mean(last, padding_mask[:, start:], child(state, "mean"))
        context, weights = source_attention(
            last + mean,
            keys=encoder_out["encoder_out"],
            values=encoder_out["encoder_out"],
            padding_mask=encoder_out["encoder_padding_mask"],
            need_weights=need_attn,
        )
        features = self.features(cat([last, mean, context], dim=-1)).relu()
        return self.dropout(features), weights


@register_model(MODEL, dataclass=BagOfWordsConfig)
class BagOfWordsModel(PluginModel):
    """A bag-of-words encoder and decoder."""

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model that the options describe."""
        fill_defaults(cfg, BASE)
        check_shared_embeddings(cfg, task)
        source, target = build_embedding_matrices(cfg, task, cfg.embed_dim, cfg.embed_dim)
        encoder = BagOfWordsEncoder(
            task.source_dictionary,
            Embedding(source, None, cfg.dropout),
            max_length_or_default(cfg.max_source_positions),
        )
        decoder = BagOfWordsDecoder(
            task.target_dictionary,
            Embedding(target, None, cfg.dropout),
            cfg.dropout,
            max_length_or_default(cfg.max_target_positions),
        )
        return cls(encoder, decoder)


register_architectures(MODEL, BagOfWordsConfig, BASE, ARCHITECTURES)
