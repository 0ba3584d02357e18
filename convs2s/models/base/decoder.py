"""The base class of all decoders."""

from collections.abc import Callable
from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from ...nn.attention_maps import SOURCE, AttentionMaps
from ...nn.embedding import Embedding
from ...nn.state import State, child
from .length_limit import explain_length_limit
from .scripting import NotScriptable

STATE_KEY = "convs2s_plugin"


class PluginDecoder(NotScriptable, FairseqIncrementalDecoder):
    """A decoder whose incremental state is one ``State``.

    A family defines ``decode`` and sets the attribute ``output`` to a module of ``nn/output.py``,
    or to one with the same methods: ``forward(features, state)`` computes logits, and
    ``weight_and_bias(tokens)`` returns the rows of weight and bias for some tokens or for all.

    Args:
        dictionary: target dictionary.
        embed: target embedding.
        max_length: the largest number of tokens in a target sentence, end of sentence included.

    Attributes:
        need_attn: whether to return attention if the caller does not say so (False). fairseq's
            own decoders have an attribute of this name, too.
        aligns_tokens: whether the attention of a position depends on the token predicted there
            (False). If it does, ``decode`` has an argument ``target_tokens`` to give the tokens.
    """

    need_attn = False
    aligns_tokens = False

    def __init__(self, dictionary, embed: Embedding, max_length: int):
        super().__init__(dictionary)
        self.embed = embed
        self.max_length = max_length

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoder_out: dict[str, Any],
        state: State | None,
        need_attn: bool,
        **unused,
    ) -> tuple[Tensor, Tensor | Callable[[Tensor | None], Tensor] | None]:
        """Compute features; every family defines this method.

        Args:
            tokens: R x T indices of the previous target tokens, starting with the end of sentence.
            padding_mask: R x T, True at padding.
            encoder_out: the encoder's dictionary.
            state: the incremental state, or None outside incremental decoding. If it is given,
                only the positions from ``state.length`` on are computed.
            need_attn: whether to return attention weights.
        Returns:
            Features R x T x C, and attention weights R x T x S, or None if they are not needed. A
            decoder with ``aligns_tokens`` returns a function instead of weights; it is called with
            the logits R x T x V, or with None if they are not computed, and returns the weights.

            A decoder with several layers or heads that attend has an argument ``maps``: an
            ``AttentionMaps`` to which it adds the weights of each, or None. If it adds none to the
            source, the returned weights count as those of one layer.
        """
        raise NotImplementedError

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        need_attn: bool | None = None,
        attention_maps: AttentionMaps | None = None,
        **options,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Compute the logits of the next target tokens.

        Args:
            prev_output_tokens: R x T indices of the previous target tokens. In incremental
                decoding they are the whole prefix, too.
            encoder_out: the encoder's dictionary.
            incremental_state: fairseq's incremental state, or None. If it is given, only the
                positions that it has not seen are computed.
            features_only: whether to return features instead of logits (False).
            need_attn: whether to return attention weights (default: the attribute ``need_attn``).
            attention_maps: to which layers add their weights, with R rows; None if they are not
                needed. See ``PluginModel.attention_maps``.
            options: passed on to ``decode``.
        Returns:
            Logits R x T x V or features R x T x C, and ``{"attn": [weights R x T x S or None]}``.
        Raises:
            UserError: if a sentence has more tokens than the model has positions for.
        """
        state = self._state(incremental_state)
        need_attn = self.need_attn if need_attn is None else need_attn
        if attention_maps is not None:
            options["maps"], need_attn = attention_maps, True
        with explain_length_limit("target"):
            features, attention = self.decode(
                prev_output_tokens,
                prev_output_tokens.eq(self.dictionary.pad()),
                encoder_out,
                state,
                need_attn,
                **options,
            )
        if state is not None:
            state.length = prev_output_tokens.size(1)
        logits = None if features_only else self.output_layer(features, state)
        if callable(attention):
            attention = attention(logits)
        if attention_maps is not None and attention is not None:
            if not attention_maps.of_kind(SOURCE):
                attention_maps.add(SOURCE, attention.unsqueeze(1), "attention to the source")
        return features if features_only else logits, {"attn": [attention]}

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **options,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Compute features R x T x C, the input of the output layer; see ``forward``."""
        return self.forward(prev_output_tokens, encoder_out, incremental_state, True, **options)

    def output_layer(self, features: Tensor, state: State | None = None, **unused) -> Tensor:
        """Compute logits R x T x V from features R x T x C."""
        return self.output(features, child(state, "output"))

    @staticmethod
    def _state(incremental_state: dict[str, Any] | None) -> State | None:
        """The ``State`` in fairseq's incremental state, or None outside incremental decoding."""
        if incremental_state is None:
            return None
        return incremental_state.setdefault(STATE_KEY, State())

    def reorder_incremental_state(self, incremental_state: dict[str, Any], new_order: Tensor):
        """Make hypothesis i continue the old hypothesis ``new_order[i]``."""
        if STATE_KEY in incremental_state:
            incremental_state[STATE_KEY].reorder_(new_order)

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        """Do the same; fairseq's generator calls this method instead."""
        self.reorder_incremental_state(incremental_state, new_order)

    def max_positions(self) -> int:
        """The largest number of tokens in a target sentence, end of sentence included."""
        return self.max_length
