"""The decoder of all families."""

from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from ..decoding.state import State, child
from ..nn.embedding import Embedding

STATE_KEY = "convs2s_plugin"


class PluginDecoder(FairseqIncrementalDecoder):
    """A decoder that keeps all that it remembers in one State.

    Its ``output`` makes scores of features, and tells ``weight_and_bias`` (modules/output.py).

    Args:
        dictionary: of the target.
        embed: its word vectors.
        longest: words in the longest target, end of sentence included.

    Attributes:
        need_attn: whether a pass computes attention if its caller does not say (False).
        aligns_words: whether attention depends on the token at a target position, which can be
            given as ``target_tokens``, and not only on the position (False).
    """

    need_attn = False
    aligns_words = False

    def __init__(self, dictionary, embed: Embedding, longest: int):
        super().__init__(dictionary)
        self.embed = embed
        self.longest = longest

    def max_positions(self) -> int:
        """Words in the longest target, end of sentence included."""
        return self.longest

    def forward(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        features_only=False,
        **kwargs,
    ):
        """Logits B x T x V of the next tokens, and ``{"attn": [B x T x S or None]}``.

        Attention is computed if ``need_attn=True`` is given, or if it is not given and the
        attribute ``need_attn`` is set. With an incremental state, ``prev_output_tokens`` still
        holds the whole prefix, and only new positions are computed. With ``features_only``, the
        decoder returns features B x T x E' instead of logits.
        """
        features, extra = self.extract_features(
            prev_output_tokens,
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            **kwargs,
        )
        if features_only:
            return features, extra
        return self.output_layer(features, state=self.state(incremental_state)), extra

    def output_layer(self, features: Tensor, state: State | None = None, **unused) -> Tensor:
        """Scores B x T x V of features B x T x C."""
        return self.output(features, child(state, "output"))

    @staticmethod
    def state(incremental_state: dict[str, Any] | None) -> State | None:
        """The State inside fairseq's incremental state, or None outside of generation."""
        if incremental_state is None:
            return None
        return incremental_state.setdefault(STATE_KEY, State())

    def reorder_incremental_state(self, incremental_state: dict[str, Any], new_order: Tensor):
        """Let row i of everything remembered be what row ``new_order[i]`` was."""
        if STATE_KEY in incremental_state:
            incremental_state[STATE_KEY].reorder_(new_order)

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        """As above; no part of a decoder keeps state elsewhere."""
        self.reorder_incremental_state(incremental_state, new_order)
