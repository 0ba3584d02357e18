"""A search without a model: it reverses its tokens, and marks each sentence."""

from convs2s.translation.options import EnsembleOptions
from convs2s.translation.results import Hypothesis


class Words:
    """Tokens are words; text is what spaces separate."""

    def encode(self, line):
        return " ".join(line.split())

    def decode(self, tokens):
        return tokens


class Reversal:
    """Translates by reversal; ``shuffle`` puts the batches into another order."""

    options = EnsembleOptions(unnormalized=True, alignment=True)

    def __init__(self, limit=10, batch=3, shuffle=None, nbest=2):
        self.max_source_tokens, self.batch, self.nbest = limit, batch, nbest
        self.shuffle = shuffle
        self.lengths = []

    def batches(self, lengths, workers=1):
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        found = [order[i : i + self.batch] for i in range(0, len(order), self.batch)]
        if self.shuffle:
            self.shuffle.shuffle(found)
        return found

    def translate(self, sentences):
        self.lengths.append([len(tokens) for tokens in sentences])
        return [
            [self._hypothesis(tokens, rank) for rank in range(self.nbest)] for tokens in sentences
        ]

    def _hypothesis(self, tokens, rank):
        assert 0 < len(tokens) <= self.max_source_tokens
        last = len(tokens) - 1
        return Hypothesis(
            "",
            -float(rank + len(tokens)),
            [f"{token}/{rank}" for token in reversed(tokens)],
            [-1.0] * len(tokens) + [-float(rank)],
            [(last - i, i) for i in range(len(tokens))],
        )

    def do(self, jobs):
        for job in jobs:
            yield job, self.translate(job.sentences)


def reversed_line(line):
    """The best translation of a line that is not too long."""
    return " ".join(f"{token}/0" for token in reversed(line.split()))
