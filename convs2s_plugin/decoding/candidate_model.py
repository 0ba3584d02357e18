"""A model that scores only some words, so that a whole search runs in a small vocabulary."""

from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..base.output_layer import OutputLayer, output_layer_of


class CandidateDecoder(FairseqIncrementalDecoder):
    """A decoder whose words are numbered by their place among a batch's candidates."""

    def __init__(self, decoder: FairseqIncrementalDecoder):
        super().__init__(decoder.dictionary)
        self.decoder = decoder
        self.words: Tensor
        self.output: OutputLayer

    def restrict_to(self, words: Tensor) -> None:
        """Score only ``words``, K sorted indices, from now on."""
        self.words = words
        self.output = output_layer_of(self.decoder, words)

    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None, **options):
        """Scores R x 1 x K of the next word, of R x T places among the candidates."""
        features, extra = self.decoder(
            self.words[prev_output_tokens],
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            features_only=True,
            **options,
        )
        return self.output.logits(features[:, -1:]), extra

    def reorder_incremental_state_scripting(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Follow the beam; only the decoder inside remembers anything."""
        self.decoder.reorder_incremental_state_scripting(incremental_state, new_order)


class CandidateModel(nn.Module):
    """What fairseq's EnsembleModel reads of a model, with a CandidateDecoder in it.

    Args:
        model: a translation model of this package, or one of fairseq's transformers.
    Raises:
        UserError: where the model scores words in a way that cannot be restricted.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        output_layer_of(model.decoder)
        self.model = model
        self.encoder = model.encoder
        self.decoder = CandidateDecoder(model.decoder)

    def max_decoder_positions(self) -> int:
        """As the model inside."""
        return self.model.max_decoder_positions()

    def set_beam_size(self, beam_size: int) -> None:
        """As the model inside, where it wants to know."""
        if hasattr(self.model, "set_beam_size"):
            self.model.set_beam_size(beam_size)

    def get_normalized_probs(self, net_output, log_probs: bool, sample: dict | None = None):
        """As the model inside: a softmax over the scores that there are."""
        return self.model.get_normalized_probs(net_output, log_probs, sample)
