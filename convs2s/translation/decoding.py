"""What a search needs of a model, and the networks of this library as such models."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn.int8 import dense
from ..nn.linear import linear
from ..nn.state import BeamOrder, State, reorder_encoder_output

# Largest number of scores that are normalized at once: their logits fit into a cache of 2 MiB.
MAX_SCORES = 2**19


class Decoding(Protocol):
    """One model that decodes one batch; its state belongs to one call.

    Attributes:
        by_row: whether the log-probabilities of a hypothesis depend only on its own logits.
    """

    by_row: bool

    def step(self, prefix: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the logits of the next tokens.

        Args:
            prefix: R x T tokens of all R hypotheses, the first token before the first word. Each
                call has one token more than the call before.
        Returns:
            Logits R x V, and attention R x S, or None if it is not needed or the model has none.
        """

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log-probabilities R' x V of logits R' x V, some rows of those of the last step."""

    def reorder_(self, order: Tensor, beam_order: BeamOrder | None = None) -> None:
        """Let hypothesis i continue hypothesis ``order[i]``.

        Before the first step, there is one hypothesis for each sentence.

        Args:
            order: R' indices.
            beam_order: the order of their sentences; None if it is not known.
        """


class Forced(NamedTuple):
    """What a model says about given translations.

    Attributes:
        log_probs: R x T log-probabilities of their tokens.
        attention: R x T x S; None if it is not needed, or if the model has none.
    """

    log_probs: Tensor
    attention: Tensor | None


class Model(Protocol):
    """A model that translates; calls share it, and change nothing in it.

    Attributes:
        module: the network, or the model of fairseq.
        aligns_tokens: whether the attention of a position depends on the token there.
        max_source_length, max_target_length: largest numbers of tokens, ends of sentences included.
    """

    module: Any
    aligns_tokens: bool
    max_source_length: int
    max_target_length: int

    def output_weights(self) -> list[Tensor]:
        """Weights of the matrix product that computes logits, which the embeddings may share."""

    def encode(self, source: Tensor) -> Any:
        """Encode B x S source tokens."""

    def start(
        self, encoded: Any, need_weights: bool = False, shortlist: Tensor | None = None
    ) -> Decoding:
        """Start to decode a batch.

        Args:
            encoded: what ``encode`` returned.
            need_weights: whether steps return attention (False).
            shortlist: K sorted token indices: tokens are then numbered by their position in it, and
                V is K. None for the whole vocabulary.
        """

    def attend(
        self, encoded: Any, sentences: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor | None:
        """The attention R x T x S of given translations, or None if the model has none.

        Args:
            encoded: what ``encode`` returned.
            sentences: R indices, the source of each translation.
            previous: R x T, the token before each token of ``target``.
            target: R x T.
        """

    def score(
        self, encoded: Any, previous: Tensor, target: Tensor, need_weights: bool = False
    ) -> Forced:
        """Score one translation of each sentence; arguments are those of the other methods."""


class NetworkModel:
    """A network of this library.

    Args:
        network: a network with the interface of ``models/interface.py``.
    """

    def __init__(self, network: Any):
        self.module = network
        self.aligns_tokens: bool = network.aligns_tokens
        self.max_source_length: int = network.max_source_length
        self.max_target_length: int = network.max_target_length

    def output_weights(self) -> list[Tensor]:
        """The weight of the output layer, which may be that of the embeddings."""
        return [dense(self.module.output.weight_and_bias()[0])]

    def encode(self, source: Tensor) -> dict[str, Any]:
        """Encode B x S source tokens."""
        encoded: dict[str, Any] = self.module.encode(source)
        return encoded

    def start(
        self,
        encoded: dict[str, Any],
        need_weights: bool = False,
        shortlist: Tensor | None = None,
    ) -> Decoding:
        """Start to decode a batch; see ``Model``."""
        return NetworkDecoding(self.module, encoded, need_weights, shortlist)

    def attend(
        self, encoded: dict[str, Any], sentences: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor | None:
        """The attention of given translations; see ``Model``."""
        encoded = reorder_encoder_output(encoded, BeamOrder(sentences, encoded["beam_size"]))
        return self._decode(encoded, previous, target, need_weights=True)[1]

    def score(
        self,
        encoded: dict[str, Any],
        previous: Tensor,
        target: Tensor,
        need_weights: bool = False,
    ) -> Forced:
        """Score one translation of each sentence; see ``Model``."""
        features, attention = self._decode(encoded, previous, target, need_weights)
        # One position at a time: the scores of a whole vocabulary are large.
        scores = [
            log_softmax(self.module.logits(column.unsqueeze(1)).squeeze(1)).gather(
                1, tokens.unsqueeze(1)
            )
            for column, tokens in zip(features.unbind(1), target.unbind(1))
        ]
        return Forced(torch.cat(scores, dim=1), attention)

    def _decode(
        self, encoded: dict[str, Any], previous: Tensor, target: Tensor, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        aligned = {"target_tokens": target} if self.aligns_tokens and need_weights else {}
        found: tuple[Tensor, Tensor | None] = self.module.decode(
            previous, encoded, None, need_weights=need_weights, **aligned
        )
        return found


class NetworkDecoding:
    """A network of this library that decodes one batch; see ``Decoding``.

    Args:
        network, encoded, need_weights, shortlist: as for ``NetworkModel``.
    """

    by_row = True

    def __init__(
        self, network: Any, encoded: dict[str, Any], need_weights: bool, shortlist: Tensor | None
    ):
        self._network, self._encoded, self._state = network, encoded, State()
        self._need_weights, self._shortlist = need_weights, shortlist
        self._output = None
        if shortlist is not None:
            self._output = network.output.weight_and_bias(shortlist)

    def step(self, prefix: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the logits of the next tokens; see ``Decoding``."""
        if self._shortlist is not None:
            prefix = self._shortlist[prefix]
        features, attention = self._network.decode(
            prefix, self._encoded, self._state, need_weights=self._need_weights
        )
        last = features[:, -1:]
        if self._output is None:
            logits = self._network.logits(last)
        else:
            logits = linear(last, *self._output)
        return logits[:, -1], None if attention is None else attention[:, -1]

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log-probabilities of logits."""
        return log_softmax(logits)

    def reorder_(self, order: Tensor, beam_order: BeamOrder | None = None) -> None:
        """Let hypothesis i continue hypothesis ``order[i]``; see ``Decoding``."""
        beam_order = beam_order or BeamOrder(order, self._encoded["beam_size"])
        self._state.reorder_(order, beam_order)
        self._encoded = reorder_encoder_output(self._encoded, beam_order)


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities in single precision, as those of fairseq's models are."""
    return F.log_softmax(logits, dim=-1, dtype=torch.float32)


class NextTokens(NamedTuple):
    """What an ensemble says about the next tokens of R hypotheses.

    Attributes:
        log_probs_of: returns a new tensor, the log-probabilities R' x V of some rows, given R'
            indices; or those of a slice of rows, which may be a view.
        shape: that of all log-probabilities, R x V.
        rows_at_once: for how many rows at a time it is fastest.
        exact: whether equal log-probabilities are so rare that torch may decide their order.
        attention: R x S, the mean of the models that have it; None if no model has.
    """

    log_probs_of: Callable[[Any], Tensor]
    shape: torch.Size
    rows_at_once: int
    exact: bool
    attention: Tensor | None


def next_tokens(
    decodings: Sequence[Decoding], prefix: Tensor, temperature: float = 1.0
) -> NextTokens:
    """Take a step with all models of an ensemble, whose result is the mean of probabilities.

    Args:
        decodings: N models, at least one.
        prefix: R x T tokens.
        temperature: divides the logits (1).
    """
    steps = [decoding.step(prefix) for decoding in decodings]
    if temperature != 1:
        steps = [(logits.div_(temperature), attention) for logits, attention in steps]
    attention = _mean_attention([attention for _, attention in steps])
    if len(decodings) > 1:
        each = [decoding.log_probs(logits) for decoding, (logits, _) in zip(decodings, steps)]
        mean = mean_log_probs(each)
        return NextTokens(mean.__getitem__, mean.shape, len(mean), True, attention)
    (decoding,), ((logits, _),) = decodings, steps
    # A GPU is fastest with all rows.
    by_row = decoding.by_row and logits.device.type == "cpu"
    rows_at_once = max(1, MAX_SCORES // logits.size(-1)) if by_row else len(logits)
    exact = logits.dtype not in (torch.bfloat16, torch.float16)
    return NextTokens(
        lambda rows: decoding.log_probs(logits[rows]), logits.shape, rows_at_once, exact, attention
    )


def mean_log_probs(each: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of the probabilities of several models."""
    if len(each) == 1:
        return each[0]
    return torch.logsumexp(torch.stack(list(each)), dim=0) - math.log(len(each))


def _mean_attention(of_models: Sequence[Tensor | None]) -> Tensor | None:
    found = [attention for attention in of_models if attention is not None]
    if len(of_models) == 1 or not found:
        return found[0] if found else None
    # fairseq divides by the number of all models, which changes no alignment.
    total = sum(found[1:], start=found[0])
    return total / len(of_models)
