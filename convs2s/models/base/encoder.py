"""The base class of all encoders."""

from typing import Any

from fairseq.models import FairseqEncoder
from torch import Tensor

from ...nn.attention_maps import AttentionMaps
from ...nn.embedding import Embedding
from ...nn.state import reorder_encoder_output
from .length_limit import check_not_empty, explain_length_limit
from .scripting import NotScriptable


class PluginEncoder(NotScriptable, FairseqEncoder):
    """An encoder whose output is shared by all hypotheses of a sentence.

    A family defines ``encode``.

    Args:
        dictionary: source dictionary.
        embed: source embedding.
        max_length: the largest number of tokens in a source sentence, end of sentence included.

    Attributes:
        has_attention_maps: whether ``encode`` has an argument ``maps``, an ``AttentionMaps`` to
            which it adds the weights of its self-attention layers, or None (False).
        refuses_empty: whether ``encode`` itself refuses sentences without tokens (False).
    """

    has_attention_maps = False
    refuses_empty = False

    def __init__(self, dictionary, embed: Embedding, max_length: int):
        super().__init__(dictionary)
        self.embed = embed
        self.max_length = max_length

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences; every family defines this method.

        Args:
            tokens: B x S token indices, padded on either side or on both.
            padding_mask: B x S, True at padding.
        Returns:
            A dictionary for the decoder. It must have ``encoder_out``, a tensor, and
            ``encoder_padding_mask``, B x S or None if there is no padding. It may have more
            entries. Each tensor in it has one row per sentence; beam search reorders the rows.
        """
        raise NotImplementedError

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        attention_maps: AttentionMaps | None = None,
        **unused,
    ) -> dict[str, Any]:
        """Encode a batch of source sentences.

        Args:
            src_tokens: B x S token indices, padded on either side or on both.
            src_lengths: unused; lengths follow from the padding.
            attention_maps: to which self-attention layers add their weights; None if they are not
                needed.
        Returns:
            The dictionary of ``encode``, and ``beam_size``: the number of consecutive hypotheses
            that share a row of it, which is 1 before the search.
        Raises:
            UserError: if a sentence has no tokens, or more than the model has positions for.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        if not self.refuses_empty:
            check_not_empty(padding_mask)
        with explain_length_limit("source"):
            options: dict[str, Any] = {}
            if attention_maps is not None and self.has_attention_maps:
                options["maps"] = attention_maps
            encoded = self.encode(src_tokens, padding_mask, **options)
        return {**encoded, "beam_size": 1}

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """Return a new dictionary in which hypothesis i is the old hypothesis ``new_order[i]``."""
        return reorder_encoder_output(encoder_out, new_order)

    def max_positions(self) -> int:
        """The largest number of tokens in a source sentence, end of sentence included."""
        return self.max_length
