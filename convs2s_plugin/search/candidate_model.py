"""A model restricted to a candidate vocabulary, so that the search is in a small vocabulary."""

from typing import Any

from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from .output_layer import OutputLayer, output_layer_of


class CandidateDecoder(FairseqIncrementalDecoder):
    """A decoder whose tokens are numbered by their position in the candidate vocabulary.

    Args:
        decoder: a decoder whose logits are one linear map of its features.
    """

    def __init__(self, decoder: FairseqIncrementalDecoder):
        super().__init__(decoder.dictionary)
        self.decoder = decoder
        self.candidates: Tensor
        self.output: OutputLayer

    def restrict_to(self, candidates: Tensor) -> None:
        """Set the candidate vocabulary of the next forward passes, K sorted token indices."""
        self.candidates = candidates
        self.output = output_layer_of(self.decoder, candidates)

    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None, **options):
        """Compute logits R x 1 x K of the next token.

        Args:
            prev_output_tokens: R x T positions in the candidate vocabulary.
            encoder_out, incremental_state, options: passed on to the decoder.
        """
        features, extra = self.decoder(
            self.candidates[prev_output_tokens],
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            features_only=True,
            **options,
        )
        return self.output.logits(features[:, -1:]), extra

    def reorder_incremental_state_scripting(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Reorder the incremental state of the decoder inside."""
        self.decoder.reorder_incremental_state_scripting(incremental_state, new_order)


class CandidateModel(nn.Module):
    """A model with a CandidateDecoder, as far as fairseq's EnsembleModel needs it.

    Args:
        model: a translation model of this package, or one of fairseq's transformers.
    Raises:
        UserError: if the logits of the model are not one linear map of its features.
    """

    def __init__(self, model: FairseqEncoderDecoderModel):
        super().__init__()
        output_layer_of(model.decoder)
        self.model = model
        self.encoder = model.encoder
        self.decoder = CandidateDecoder(model.decoder)

    def max_decoder_positions(self) -> int:
        """The limit of the model inside."""
        return self.model.max_decoder_positions()

    def set_beam_size(self, beam_size: int) -> None:
        """Pass the beam size on to the model inside."""
        if hasattr(self.model, "set_beam_size"):
            self.model.set_beam_size(beam_size)

    def get_normalized_probs(self, net_output, log_probs: bool, sample: dict | None = None):
        """Probabilities over the candidate vocabulary."""
        return self.model.get_normalized_probs(net_output, log_probs, sample)
