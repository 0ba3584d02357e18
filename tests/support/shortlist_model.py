"""A model restricted to a shortlist, so that fairseq's own search is in a small vocabulary."""

from fairseq.models import FairseqIncrementalDecoder
from torch import nn

from convs2s_plugin.models.adapters import output_layer_of


class ShortlistDecoder(FairseqIncrementalDecoder):
    """A decoder whose tokens are numbered by their position in the shortlist."""

    def __init__(self, decoder, shortlist):
        super().__init__(decoder.dictionary)
        self.decoder, self.shortlist = decoder, shortlist
        self.output = output_layer_of(decoder, shortlist)

    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None, **options):
        features, extra = self.decoder(
            self.shortlist[prev_output_tokens],
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            features_only=True,
            **options,
        )
        return self.output.logits(features[:, -1:]), extra

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        self.decoder.reorder_incremental_state_scripting(incremental_state, new_order)


class ShortlistModel(nn.Module):
    """A model with a ShortlistDecoder, as far as fairseq's EnsembleModel needs it.

    Args:
        model: a translation model.
        shortlist: K sorted token indices.
    """

    def __init__(self, model, shortlist):
        super().__init__()
        self.model, self.encoder = model, model.encoder
        self.decoder = ShortlistDecoder(model.decoder, shortlist)

    def max_decoder_positions(self):
        return self.model.max_decoder_positions()

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        return self.model.get_normalized_probs(net_output, log_probs, sample)
