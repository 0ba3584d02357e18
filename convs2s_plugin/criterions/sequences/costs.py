"""The costs of candidates: 1 - sentence BLEU or chrF, on words."""

from collections.abc import Sequence
from typing import Any

from fairseq.data import Dictionary

COSTS = ("bleu", "chrf")
# Unknown words of a candidate do not match those of the reference. Both are private characters.
UNKNOWN_IN_CANDIDATE, UNKNOWN_IN_REFERENCE = "\ue000", "\ue001"


class Costs:
    """Computes the cost of candidates.

    Args:
        name: of the score, one of COSTS.
        dictionary: target dictionary.
        remove_bpe: how sub-words are joined, as in fairseq: "subword_nmt", "sentencepiece" or
            "none".
    """

    def __init__(self, name: str, dictionary: Dictionary, remove_bpe: str):
        # sacreBLEU changes how a process reacts to signals: only who needs it imports it.
        from convs2s.evaluation.sentence_scores import SENTENCE_SCORES

        self._score = SENTENCE_SCORES[name]()
        self.dictionary = dictionary
        self.remove_bpe = remove_bpe

    def __call__(
        self, candidates: Sequence[Sequence[int]], reference: Sequence[int]
    ) -> list[float]:
        """The cost of each candidate of a sentence, from 0 to 1."""
        counted = self._count(reference, UNKNOWN_IN_REFERENCE)
        return [
            1.0 - self._score.compare(self._count(tokens, UNKNOWN_IN_CANDIDATE), counted)
            for tokens in candidates
        ]

    def _count(self, tokens: Sequence[int], unknown: str) -> Any:
        text = self.dictionary.string(tokens, self.remove_bpe, unk_string=unknown)
        return self._score.count(text)
