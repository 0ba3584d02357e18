"""The plain network of pervasive attention as a fairseq model, without incremental decoding."""

from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    register_model,
)
from torch.nn import functional as F

from convs2s.models.pervasive.options import PervasiveOptions
from convs2s.models.pervasive.plain import PlainPervasive
from convs2s.nn.embedding import random_embedding_matrix
from convs2s.nn.output import TiedOutputProjection
from convs2s_plugin.models.options import fairseq_options, network_options


class PlainEncoder(FairseqEncoder):
    """Source embeddings; generation copies them for every hypothesis."""

    def __init__(self, dictionary, embedding, dropout):
        super().__init__(dictionary)
        self.embedding = embedding
        self.dropout = dropout

    def forward(self, src_tokens, src_lengths=None):
        padding = src_tokens.eq(self.dictionary.pad())
        embedded = F.dropout(self.embedding(src_tokens), self.dropout, self.training)
        return {"embedded": embedded, "padding": padding}

    def reorder_encoder_out(self, encoder_out, new_order):
        return {name: tensor.index_select(0, new_order) for name, tensor in encoder_out.items()}


class PlainDecoder(FairseqDecoder):
    """Target embeddings, network and output projection; each step computes the whole prefix."""

    def __init__(self, dictionary, embedding, network, dropout):
        super().__init__(dictionary)
        self.embedding = embedding
        self.network = network
        self.output = TiedOutputProjection(embedding)
        self.dropout = dropout

    def forward(self, prev_output_tokens, encoder_out):
        padding = prev_output_tokens.eq(self.dictionary.pad())
        embedded = F.dropout(self.embedding(prev_output_tokens), self.dropout, self.training)
        masks = [mask if bool(mask.any()) else None for mask in (encoder_out["padding"], padding)]
        features = self.network(encoder_out["embedded"], embedded, *masks)
        return self.output(features), {"attn": [None]}

    def max_positions(self):
        return 1024


@register_model("plain_pervasive", dataclass=fairseq_options(PervasiveOptions))
class PlainPervasiveModel(FairseqEncoderDecoderModel):
    """Pervasive attention as in its paper, without optimizations."""

    options_class = PervasiveOptions

    @classmethod
    def build_model(cls, cfg, task):
        options = network_options(PervasiveOptions, cfg)
        dims = options.encoder_embed_dim, options.decoder_embed_dim
        network = PlainPervasive(options, *dims, fused=True)
        source, target = (
            random_embedding_matrix(len(dictionary), dim, dictionary.pad())
            for dictionary, dim in zip((task.source_dictionary, task.target_dictionary), dims)
        )
        return cls(
            PlainEncoder(task.source_dictionary, source, options.dropout),
            PlainDecoder(task.target_dictionary, target, network, options.dropout),
        )
