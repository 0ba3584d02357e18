"""Scores of single sentences, which serve as costs in training and as utilities in reranking.

The n-grams of a sentence are counted once, and then compared with those of many others.
"""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams, extract_all_word_ngrams


class SentenceScore(ABC):
    """A score between 0 and 1 that compares a sentence with a reference."""

    @abstractmethod
    def count(self, text: str) -> Any:
        """Count the n-grams of a sentence; its words are separated by spaces."""

    @abstractmethod
    def compare(self, hypothesis: Any, reference: Any) -> float:
        """The score of a hypothesis, from what ``count`` returned for both sentences."""

    def score(self, hypothesis: str, reference: str) -> float:
        """The score of a hypothesis."""
        return self.compare(self.count(hypothesis), self.count(reference))


class SentenceBLEU(SentenceScore):
    """BLEU of one sentence; all counts but those of words begin with 1.

    This smoothing is that of Lin and Och (2004), as Edunov et al. (2018) use it: sacreBLEU's
    ``add-k`` with k = 1. Words are compared as they are, without sacreBLEU's tokenizers.
    """

    def count(self, text: str) -> tuple[Counter[tuple[str, ...]], int]:
        """The number of each n-gram of up to four words, and the number of words."""
        return extract_all_word_ngrams(text, 1, MAX_NGRAM_ORDER)

    def compare(self, hypothesis: Any, reference: Any) -> float:
        """BLEU of a hypothesis, from what ``count`` returned for both sentences."""
        (ngrams, length), (reference_ngrams, reference_length) = hypothesis, reference
        correct = [0] * MAX_NGRAM_ORDER
        for ngram, count in ngrams.items():
            if ngram in reference_ngrams:
                correct[len(ngram) - 1] += min(count, reference_ngrams[ngram])
        total = [max(0, length - order) for order in range(MAX_NGRAM_ORDER)]
        found = BLEU.compute_bleu(correct, total, length, reference_length, "add-k", 1)
        return float(found.score) / 100


class SentenceCHRF(SentenceScore):
    """chrF of one sentence, with sacreBLEU's defaults: n-grams of up to six characters, beta 2."""

    def count(self, text: str) -> list[tuple[Counter[str], int]]:
        """For each order, the number of each n-gram and the number of all of them."""
        counters = extract_all_char_ngrams(text, CHRF.CHAR_ORDER)
        return [(counter, sum(counter.values())) for counter in counters]

    def compare(self, hypothesis: Any, reference: Any) -> float:
        """The chrF of a hypothesis, from what ``count`` returned for both sentences."""
        precision = recall = 0.0
        orders = 0
        for (ngrams, total), (reference_ngrams, reference_total) in zip(hypothesis, reference):
            if not total or not reference_total:
                continue
            orders += 1
            common = ngrams.keys() & reference_ngrams.keys()
            matches = sum(min(ngrams[ngram], reference_ngrams[ngram]) for ngram in common)
            precision += matches / total
            recall += matches / reference_total
        if not precision or not recall:
            return 0.0
        squared = CHRF.BETA**2
        return (1 + squared) * precision * recall / (squared * precision + recall) / orders


SENTENCE_SCORES: dict[str, type[SentenceScore]] = {"bleu": SentenceBLEU, "chrf": SentenceCHRF}
