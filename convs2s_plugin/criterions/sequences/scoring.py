"""The model's scores of candidates, and the loss that follows from them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from convs2s.nn.parts import sum_of_parts
from convs2s.nn.sequence_losses import SEQUENCE_LOSSES, risk
from convs2s.nn.token_scores import token_log_probabilities, token_logits

from ...models.adapters import OutputLayer, output_layer_of
from .candidates import CandidateSet, Rows, in_rows

# Losses of scores that are not normalized: the means of logits (Edunov et al. 2018, section 3.2).
OF_LOGITS = ("margin", "max-margin", "softmax-margin")
# Largest number of log-probabilities in memory (256 MiB in single precision).
MAX_LOGITS = 2**26


class Sums(NamedTuple):
    """Sums over the sentences of a batch, as tensors without dimensions.

    Attributes:
        loss: the weighted sum of the losses; it has a gradient.
        risk: the sum of the expected costs; None if it was not computed.
    """

    loss: Tensor
    risk: Tensor | None


@dataclass(frozen=True)
class SequenceLoss:
    """The loss of sentences over their candidates.

    Attributes:
        name: one of SEQUENCE_LOSSES.
        temperature: divisor of the scores; a score is the mean over the tokens of a candidate.
        eos, pad: indices of the end of the sentence and of padding.
    """

    name: str
    temperature: float
    eos: int
    pad: int

    def __call__(
        self,
        model: FairseqEncoderDecoderModel,
        encoder_out: Any,
        sets: Sequence[CandidateSet],
        weights: Tensor,
        max_tokens: int,
        vocabulary: Tensor | None = None,
    ) -> Sums:
        """Compute the losses of a batch, part by part.

        A part has as many tokens as the batch, so memory does not grow with the number of
        candidates; it has more if those of one sentence have more.

        Args:
            model: a translation model.
            encoder_out: the encoder's output for B sentences, which all candidates share.
            sets: the candidates of each sentence.
            weights: B, the weight of each sentence.
            max_tokens: number of target tokens in the batch, padding included.
            vocabulary: K sorted token indices that include all tokens of the candidates, for a
                softmax over them; None for the whole vocabulary.
        """
        leaves, structure = pytree.tree_flatten(encoder_out)
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
        words = output_layer_of(model.decoder).weight if vocabulary is None else vocabulary
        limit = min(max_tokens, MAX_LOGITS // len(words))
        risks: list[Tensor] = []

        def part(sentences: list[int], rows: Rows) -> Callable[[Sequence[Tensor]], Tensor]:
            def loss(inputs: Sequence[Tensor]) -> Tensor:
                tensors = list(leaves)
                for place, tensor in zip(places, inputs):
                    tensors[place] = tensor
                encoded = pytree.tree_unflatten(tensors, structure)
                costs = [cost for i in sentences for cost in sets[i].costs]
                losses, found = self._losses(model, encoded, rows, costs, vocabulary)
                if found is not None:
                    risks.append(found)
                return (losses * weights[sentences]).sum()

            return loss

        parts = in_rows(sets, limit, self.eos, self.pad, weights.device)
        with running_statistics(model):
            total = sum_of_parts(
                [part(*each) for each in parts],
                [leaves[i] for i in places],
                [x for x in model.decoder.parameters() if x.requires_grad],
            )
        return Sums(total, torch.stack(risks).sum() if risks else None)

    def _losses(
        self,
        model: FairseqEncoderDecoderModel,
        encoder_out: Any,
        rows: Rows,
        costs: Sequence[float],
        vocabulary: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """The loss of each sentence of a part, and the sum of their risks; see ``Sums``."""
        features, _ = model.decoder(
            rows.prev_output_tokens,
            encoder_out=model.encoder.reorder_encoder_out(encoder_out, rows.sentences),
            features_only=True,
        )
        layer = output_layer_of(model.decoder, vocabulary)
        device = features.device
        columns = torch.arange(max(rows.counts), device=device)
        mask = columns < torch.tensor(rows.counts, device=device).unsqueeze(1)

        def padded(values: Tensor) -> Tensor:
            return values.new_zeros(mask.shape).masked_scatter(mask, values)

        def scores(of_tokens: Callable[..., Tensor]) -> Tensor:
            means = self._means(features, rows.tokens, layer, vocabulary, of_tokens)
            return padded(means / self.temperature)

        of_logits = self.name in OF_LOGITS
        found = scores(token_logits if of_logits else token_log_probabilities)
        all_costs = padded(torch.tensor(costs, dtype=found.dtype, device=device))
        losses = SEQUENCE_LOSSES[self.name](found, all_costs, mask)
        if not of_logits:
            return losses, risk(found.detach(), all_costs, mask).sum()
        if model.training:
            # The risk would cost a softmax over the vocabulary, which this loss does without.
            return losses, None
        return losses, risk(scores(token_log_probabilities), all_costs, mask).sum()

    def _means(
        self,
        features: Tensor,
        tokens: Tensor,
        layer: OutputLayer,
        vocabulary: Tensor | None,
        of_tokens: Callable[..., Tensor],
    ) -> Tensor:
        """The mean of the scores of its tokens for each candidate, R."""
        real = tokens.ne(self.pad)
        target = tokens[real]
        if vocabulary is not None:
            target = torch.searchsorted(vocabulary, target)
        each = of_tokens(features[real], layer.weight, layer.bias, target)
        row = real.nonzero()[:, 0]
        return each.new_zeros(len(tokens)).index_add(0, row, each) / real.sum(dim=1)


@contextmanager
def running_statistics(model: nn.Module) -> Iterator[None]:
    """Let batch normalization use its running averages, as in the search for the candidates.

    Many candidates of a few sentences have other statistics than a batch of the training data. Nor
    are the parts of a batch the same for all workers, which would have to share their statistics.
    """
    norms = [x for x in model.modules() if hasattr(x, "running_mean") and x.training]
    for norm in norms:
        norm.training = False
    try:
        yield
    finally:
        for norm in norms:
            norm.training = True
