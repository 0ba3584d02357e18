"""What a search needs of a model, and the networks of this library as such models."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn.int8 import dense
from ..nn.linear import linear
from ..nn.state import BeamOrder, State, reorder_encoder_output

# Hypotheses whose logits a CPU computes at once. With 1,500 of them and 6,000 tokens, all logits
# take 36 MB, which are cleared in each step: on an AMD EPYC, product and softmax in single
# precision took 1.7 times as long as in parts. Fewer rows are slower with many channels.
ROWS_AT_ONCE = 320
# Largest number of scores that are normalized at once: their logits fit into a cache of 2 MiB.
MAX_SCORES = 2**19


class Decoding(Protocol):
    """One model that decodes one batch; its state belongs to one call.

    Attributes:
        by_row: whether the log-probabilities of a hypothesis depend only on its own logits.
    """

    by_row: bool

    def step(self, prefix: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the features of the next tokens.

        Args:
            prefix: R x T tokens of all R hypotheses, the first token before the first word, which
                is the last word of a translation from right to left. Each call has one token more
                than the call before.
        Returns:
            Features R x C, and attention R x S, or None if it is not needed or the model has none.
        """

    def logits(self, features: Tensor) -> Tensor:
        """Logits R' x V of features R' x C, some rows of those of the last step."""

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
        right_to_left: whether the last token of a translation is predicted first.
        max_source_length, max_target_length: largest numbers of tokens, ends of sentences included.
    """

    module: Any
    aligns_tokens: bool
    right_to_left: bool
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
        self.right_to_left: bool = network.right_to_left
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
        """Compute the features of the next tokens; see ``Decoding``."""
        if self._shortlist is not None:
            prefix = self._shortlist[prefix]
        features, attention = self._network.decode(
            prefix, self._encoded, self._state, need_weights=self._need_weights
        )
        return features[:, -1], None if attention is None else attention[:, -1]

    def logits(self, features: Tensor) -> Tensor:
        """Logits of features; see ``Decoding``."""
        if self._output is None:
            logits: Tensor = self._network.logits(features.unsqueeze(1))
            return logits[:, -1]
        return linear(features, *self._output)

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
    is_half = logits.dtype in (torch.bfloat16, torch.float16)
    if is_half and logits.device.type == "cpu" and not torch.is_grad_enabled():
        # In the memory of the copy: no kernel of a CPU reads one precision and writes another.
        single = logits.float()
        return torch.log_softmax(single, dim=-1, out=single)
    return F.log_softmax(logits, dim=-1, dtype=torch.float32)


class NextTokens(NamedTuple):
    """What an ensemble says about the next tokens of R hypotheses.

    Attributes:
        logits_of: returns the logits R' x V of some rows, given R' indices or a slice; for several
            models, the log-probabilities.
        log_probs: returns the log-probabilities R' x V of logits; they may share memory.
        shape: that of all log-probabilities, R x V.
        at_once: for how many rows at a time to compute logits, and log-probabilities.
        exact: whether equal log-probabilities are so rare that torch may decide their order.
        attention: R x S, the mean of the models that have it; None if no model has.
    """

    logits_of: Callable[[Tensor | slice], Tensor]
    log_probs: Callable[[Tensor], Tensor]
    shape: torch.Size
    at_once: tuple[int, int]
    exact: bool
    attention: Tensor | None

    def log_probs_of(self, rows: Tensor | slice) -> Tensor:
        """The log-probabilities R' x V of some rows; those of a slice may be a view."""
        return self.log_probs(self.logits_of(rows))

    def parts(self) -> Iterator[Tensor]:
        """The log-probabilities of all rows, one part after the other."""
        size, part = self.at_once
        for start in range(0, self.shape[0], size):
            yield from map(self.log_probs, self.logits_of(slice(start, start + size)).split(part))


def rows_at_once(vocab_size: int, beam_size: int) -> tuple[int, int]:
    """For how many hypotheses a CPU computes logits, and log-probabilities, at once.

    Args:
        vocab_size: V.
        beam_size: hypotheses of each sentence, which stay together.
    """
    part = max(1, MAX_SCORES // vocab_size)
    size = max(part, ROWS_AT_ONCE)
    return max(1, size // beam_size) * beam_size, max(1, part // beam_size) * beam_size


def next_tokens(
    decodings: Sequence[Decoding],
    prefix: Tensor,
    temperature: float = 1.0,
    at_once: tuple[int, int] | None = None,
) -> NextTokens:
    """Take a step with all models of an ensemble, whose result is the mean of probabilities.

    Args:
        decodings: N models, at least one.
        prefix: R x T tokens.
        temperature: divides the logits (1).
        at_once: as ``rows_at_once`` returns it, if the scores are read in parts (None: all rows).
            A GPU is fastest with all rows.
    """
    steps = [decoding.step(prefix) for decoding in decodings]
    attention = _mean_attention([attention for _, attention in steps])

    def logits_of(model: int, rows: Tensor | slice) -> Tensor:
        features, _ = steps[model]
        logits = decodings[model].logits(features[rows])
        return logits if temperature == 1 else logits / temperature

    num_rows, is_one = len(prefix), len(decodings) == 1
    if is_one and decodings[0].by_row:
        if at_once is None or prefix.device.type != "cpu":
            at_once = num_rows, num_rows
        first = logits_of(0, slice(at_once[0]))
        return NextTokens(
            lambda rows: first[rows] if _is_within(rows, first, num_rows) else logits_of(0, rows),
            decodings[0].log_probs,
            torch.Size((num_rows, first.size(1))),
            at_once,
            first.dtype not in (torch.bfloat16, torch.float16),
            attention,
        )
    every = [logits_of(model, slice(None)) for model in range(len(decodings))]
    exact = not is_one or every[0].dtype not in (torch.bfloat16, torch.float16)
    # What a model of fairseq calls logits may have another number of columns.
    each = [decoding.log_probs(logits) for decoding, logits in zip(decodings, every)]
    mean = mean_log_probs(each)
    every_row = num_rows, num_rows
    return NextTokens(mean.__getitem__, lambda same: same, mean.shape, every_row, exact, attention)


def _is_within(rows: Tensor | slice, first: Tensor, num_rows: int) -> bool:
    """Whether rows are among the first ones of ``num_rows``."""
    if len(first) == num_rows:
        return True
    return isinstance(rows, slice) and rows.stop is not None and rows.stop <= len(first)


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
