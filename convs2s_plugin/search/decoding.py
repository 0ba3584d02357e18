"""Models of this package and of fairseq, as the search of the library needs them."""

import copy
from typing import Any

import torch
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.models.lstm import LSTMEncoder
from torch import Tensor

from convs2s.nn.int8 import dense
from convs2s.nn.state import BeamOrder
from convs2s.translation.decoding import Forced, Model, NetworkModel

from ..models.adapters import PluginModel, has_linear_output, output_layer_of


def search_model(model: FairseqEncoderDecoderModel) -> Model:
    """A model of this package, or of fairseq, in evaluation mode, as the search needs it."""
    return NetworkModel(model) if isinstance(model, PluginModel) else FairseqModel(model)


class FairseqModel:
    """A model of fairseq; see ``Model``.

    Args:
        model: the model; nothing in it changes.
    """

    right_to_left = False

    def __init__(self, model: FairseqEncoderDecoderModel):
        self.module = model
        self.max_source_length = int(model.encoder.max_positions())
        self.max_target_length = int(model.decoder.max_positions())
        self.aligns_tokens = bool(getattr(model, "full_context_alignment", False))

    def output_weights(self) -> list[Tensor]:
        """The weight of the output layer, if logits are one linear map of features."""
        decoder = self.module.decoder
        return [dense(output_layer_of(decoder).weight)] if has_linear_output(decoder) else []

    def encode(self, source: Tensor) -> Any:
        """Encode B x S source tokens."""
        lengths = source.ne(self.module.encoder.dictionary.pad()).sum(dim=1)
        net_input = {"src_tokens": source, "src_lengths": lengths}
        return self.module.encoder.forward_torchscript(net_input)

    def start(
        self, encoded: Any, need_weights: bool = False, shortlist: Tensor | None = None
    ) -> "FairseqDecoding":
        """Start to decode a batch; see ``Model``.

        Raises:
            UserError: if there is a shortlist, but logits are not one linear map of features.
        """
        return FairseqDecoding(self.module, encoded, need_weights, shortlist)

    def attend(
        self, encoded: Any, sentences: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor | None:
        """The attention of given translations; see ``Model``."""
        encoded = _reordered(self.module, encoded, sentences)
        return self._force(encoded, previous, need_weights=True)[1]

    def score(
        self, encoded: Any, previous: Tensor, target: Tensor, need_weights: bool = False
    ) -> Forced:
        """Score one translation of each sentence; see ``Model``."""
        output, attention = self._force(encoded, previous, need_weights)
        log_probs = self.module.get_normalized_probs(output, log_probs=True)
        scores = log_probs.gather(2, target.unsqueeze(2)).squeeze(2)
        return Forced(scores, attention if need_weights else None)

    def _force(
        self, encoded: Any, previous: Tensor, need_weights: bool
    ) -> tuple[Any, Tensor | None]:
        """What the decoder returns for whole translations, and its attention."""
        decoder = with_attention(self.module, need_weights).decoder
        output = decoder(previous, encoder_out=encoded)
        attention = attention_in(output[1] if len(output) > 1 else None)
        return output, _of_source(self.module, encoded, attention)


class FairseqDecoding:
    """A model of fairseq that decodes one batch; see ``Decoding``.

    Args:
        model, encoded, need_weights, shortlist: as for ``FairseqModel``.
    """

    def __init__(
        self,
        model: FairseqEncoderDecoderModel,
        encoded: Any,
        need_weights: bool,
        shortlist: Tensor | None,
    ):
        self._model = with_attention(model, need_weights)
        self._encoded = encoded
        self._state: dict[str, Any] = {}
        self._need_weights, self._shortlist = need_weights, shortlist
        self._output = None if shortlist is None else output_layer_of(model.decoder, shortlist)
        self._extra: Any = None
        self.by_row = has_linear_output(model.decoder)

    def step(self, prefix: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the features of the next tokens, or their logits; see ``Decoding``."""
        decoder = self._model.decoder
        options: dict[str, Any] = {}
        if isinstance(decoder, FairseqIncrementalDecoder):
            options["incremental_state"] = self._state
        if self._shortlist is not None:
            prefix, options["features_only"] = self._shortlist[prefix], True
        output, *extra = decoder.forward(prefix, encoder_out=self._encoded, **options)
        self._extra = extra[0] if extra else None
        attention = attention_in(self._extra) if self._need_weights else None
        attention = _of_source(self._model, self._encoded, attention)
        return output[:, -1], None if attention is None else attention[:, -1]

    def logits(self, features: Tensor) -> Tensor:
        """Logits of what a step returned: the same, unless there is a shortlist."""
        if self._output is None:
            return features
        return self._output.logits(features.unsqueeze(1))[:, -1]

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log-probabilities of logits."""
        output = logits.unsqueeze(1), self._extra
        return self._model.get_normalized_probs(output, log_probs=True, sample=None)[:, -1]

    def reorder_(self, order: Tensor, beam_order: BeamOrder | None = None) -> None:
        """Let hypothesis i continue hypothesis ``order[i]``; see ``Decoding``."""
        decoder = self._model.decoder
        if isinstance(decoder, FairseqIncrementalDecoder):
            decoder.reorder_incremental_state_scripting(self._state, order)
        self._encoded = _reordered(self._model, self._encoded, order)


def with_attention(
    model: FairseqEncoderDecoderModel, need_weights: bool
) -> FairseqEncoderDecoderModel:
    """The same model, whose decoder returns attention, or none.

    Decoders have an attribute for this, and threads that share a model may want different values.

    Args:
        model: the model, which is returned unchanged if its decoder has no such attribute.
        need_weights: whether attention is needed.
    Returns:
        A model with the same weights.
    """
    if not hasattr(model.decoder, "need_attn"):
        return model
    decoder = copy.copy(model.decoder)
    decoder.need_attn = need_weights
    same = copy.copy(model)
    same._modules = {**model._modules, "decoder": decoder}
    return same


def attention_in(extra: Any) -> Tensor | None:
    """Attention R x T x S in what a decoder returns besides its output."""
    weights = extra.get("attn") if isinstance(extra, dict) else extra
    if isinstance(weights, (list, tuple)):
        weights = weights[0] if weights else None
    return weights


def moves_padding(model: FairseqEncoderDecoderModel) -> bool:
    """Whether the encoder moves padding from the left to the right, as that of fairseq's LSTM."""
    return isinstance(model.encoder, LSTMEncoder) and bool(model.encoder.left_pad)


def padded_left(attention: Tensor, num_padding: Tensor) -> Tensor:
    """Bring attention to sources with padding on the right to the columns of a batch.

    Args:
        attention: R x T x S, with S - P tokens of a source first.
        num_padding: R, the number P of columns of padding.
    """
    columns = torch.arange(attention.size(2), device=attention.device)
    index = (columns - num_padding.unsqueeze(1)) % attention.size(2)
    return attention.gather(2, index.unsqueeze(1).expand_as(attention))


def _reordered(model: FairseqEncoderDecoderModel, encoded: Any, order: Tensor) -> Any:
    """Encoder output whose row i is the old row ``order[i]``; the old output stays unchanged."""
    # That of fairseq's fconv is a dictionary, in which the rows would be replaced.
    return model.encoder.reorder_encoder_out(copy.copy(encoded), order)


def _of_source(
    model: FairseqEncoderDecoderModel, encoded: Any, attention: Tensor | None
) -> Tensor | None:
    """Attention R x T x S to the columns of the source, which has padding on the left."""
    if attention is None or not moves_padding(model):
        return attention
    # The encoder's mask S x R, after its outputs and states.
    return padded_left(attention, encoded[3].sum(dim=0))
