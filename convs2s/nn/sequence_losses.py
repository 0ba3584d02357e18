"""Losses of a sentence over its candidate translations (Edunov et al. 2018, section 3.2).

Shapes: B sentences with K candidates each. ``mask`` is False where a sentence has fewer; it has
at least one.
"""

from collections.abc import Callable

from torch import Tensor

MINUS_INFINITY = float("-inf")


def candidate_probabilities(scores: Tensor, mask: Tensor) -> Tensor:
    """Probabilities over the candidates of each sentence, B x K; 0 where there is none."""
    return scores.masked_fill(~mask, MINUS_INFINITY).softmax(dim=1)


def risk(scores: Tensor, costs: Tensor, mask: Tensor) -> Tensor:
    """The expected cost of each sentence (equation 7).

    Args:
        scores: B x K; their exponentials are proportional to the probabilities.
        costs: B x K.
        mask: B x K, True where there is a candidate.
    Returns:
        B.
    """
    return (candidate_probabilities(scores, mask) * costs.masked_fill(~mask, 0.0)).sum(dim=1)


def sequence_nll(scores: Tensor, costs: Tensor, mask: Tensor) -> Tensor:
    """The negative log-likelihood of the best candidate among all, B; arguments as in ``risk``."""
    log_probabilities = scores.masked_fill(~mask, MINUS_INFINITY).log_softmax(dim=1)
    return -log_probabilities.gather(1, _best(costs, mask)).squeeze(1)


def margin(scores: Tensor, costs: Tensor, mask: Tensor) -> Tensor:
    """The sum of the violations of the margin between each candidate and the best one, B.

    The margin is the difference of the costs. Arguments are those of ``risk``.
    """
    return _violations(scores, costs, mask).clamp(min=0.0).masked_fill(~mask, 0.0).sum(dim=1)


def max_margin(scores: Tensor, costs: Tensor, mask: Tensor) -> Tensor:
    """The violation of the margin between the candidate of the highest score and the best one, B.

    Arguments are those of ``risk``.
    """
    highest = scores.masked_fill(~mask, MINUS_INFINITY).argmax(dim=1, keepdim=True)
    return _violations(scores, costs, mask).gather(1, highest).squeeze(1).clamp(min=0.0)


def softmax_margin(scores: Tensor, costs: Tensor, mask: Tensor) -> Tensor:
    """The margin to all candidates, with the logarithm of a sum of exponentials for the maximum, B.

    -s(u*) + log sum exp(s(u) + cost(u)). Arguments are those of ``risk``.
    """
    exceeding = (scores + costs).masked_fill(~mask, MINUS_INFINITY).logsumexp(dim=1)
    return exceeding - scores.gather(1, _best(costs, mask)).squeeze(1)


def _best(costs: Tensor, mask: Tensor) -> Tensor:
    """The candidate of the lowest cost of each sentence, B x 1: the pseudo-reference."""
    return costs.masked_fill(~mask, float("inf")).argmin(dim=1, keepdim=True)


def _violations(scores: Tensor, costs: Tensor, mask: Tensor) -> Tensor:
    """By how much the score of each candidate, with its margin, exceeds the best one's, B x K."""
    best = _best(costs, mask)
    return costs - costs.gather(1, best) + scores - scores.gather(1, best)


SEQUENCE_LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "risk": risk,
    "nll": sequence_nll,
    "margin": margin,
    "max-margin": max_margin,
    "softmax-margin": softmax_margin,
}
