"""Shared by the tests of sequence-level training: criterions, and a plain computation of losses."""

from argparse import Namespace

import torch

from convs2s.evaluation.sentence_scores import SENTENCE_SCORES
from convs2s_plugin.criterions.sequence_risk import ConvS2SSequenceRisk, ConvS2SSequenceRiskConfig
from tests.support.adapters import dictionary

SYMBOLS = dictionary()


def criterion(found=None, **options):
    """The criterion with given candidates in place of a search.

    Args:
        found: the candidates of each sentence, lists of tokens.
        options: without the prefix ``sequence_`` where they have it.
    """
    names = set(ConvS2SSequenceRiskConfig.__dataclass_fields__)
    cfg = {f"sequence_{key}" if key not in names else key: x for key, x in options.items()}
    config = ConvS2SSequenceRiskConfig(**{"sentence_avg": False, "label_smoothing": 0.1, **cfg})
    task = Namespace(source_dictionary=SYMBOLS, target_dictionary=SYMBOLS)
    made = ConvS2SSequenceRisk(task, config)
    if found is not None:
        candidates = [[torch.tensor(tokens) for tokens in each] for each in found]
        made.search = lambda model, sample: candidates
    return made


def plain_scores(model, batch, found, vocabulary=None, logits_only=False):
    """The mean log-probability (or logit) of each candidate; each has a row of its own."""
    rows = [(i, tokens) for i, each in enumerate(found) for tokens in each]
    longest = max(len(tokens) for _, tokens in rows)
    pad, eos = SYMBOLS.pad(), SYMBOLS.eos()
    target = torch.tensor([[*tokens, *[pad] * (longest - len(tokens))] for _, tokens in rows])
    previous = torch.tensor(
        [[eos, *tokens[:-1], *[pad] * (longest - len(tokens))] for _, tokens in rows]
    )
    source = batch["net_input"]["src_tokens"][[i for i, _ in rows]]
    lengths = batch["net_input"]["src_lengths"][[i for i, _ in rows]]
    logits = model(source, lengths, previous)[0]
    if vocabulary is not None:
        others = torch.ones(logits.size(-1), dtype=torch.bool)
        others[vocabulary] = False
        logits = logits.masked_fill(others, float("-inf"))
    scores = logits if logits_only else logits.log_softmax(-1)
    chosen = scores.gather(2, target.unsqueeze(2)).squeeze(2)
    means = [row[: len(tokens)].mean() for row, (_, tokens) in zip(chosen, rows)]
    parts = iter(means)
    return [torch.stack([next(parts) for _ in each]) for each in found]


def plain_costs(found, batch, cost="bleu"):
    """The cost of each candidate by its text."""
    score = SENTENCE_SCORES[cost]()
    costs = []
    for each, target in zip(found, batch["target"]):
        reference = SYMBOLS.string(target[target != SYMBOLS.pad()])
        texts = [SYMBOLS.string(torch.tensor(tokens)) for tokens in each]
        values = [1 - score.score(text, reference) for text in texts]
        costs.append(torch.tensor(values, dtype=torch.float64))
    return costs


def plain_loss(name, scores, costs):
    """The loss of one sentence, as the paper writes it."""
    best = int(costs.argmin())
    if name == "risk":
        weights = scores.exp()
        return sum(weights[i] / weights.sum() * costs[i] for i in range(len(costs)))
    if name == "nll":
        return -(scores[best].exp() / scores.exp().sum()).log()
    if name == "softmax-margin":
        return -scores[best] + sum((scores[i] + costs[i]).exp() for i in range(len(costs))).log()
    violations = [costs[i] - costs[best] - scores[best] + scores[i] for i in range(len(costs))]
    zero = scores.new_zeros(())
    if name == "margin":
        return sum(max(zero, violation) for violation in violations)
    return max(zero, violations[int(scores.argmax())])
