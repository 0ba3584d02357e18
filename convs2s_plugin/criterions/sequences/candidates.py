"""The candidates of a batch of sentences, with their costs: 1 - sentence BLEU or chrF, on words."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from convs2s.translation.alignment import shifted

COSTS = ("bleu", "chrf")
# Unknown words of a candidate do not match those of the reference. Both are private characters.
UNKNOWN_IN_CANDIDATE, UNKNOWN_IN_REFERENCE = "\ue000", "\ue001"


class Costs:
    """Computes the cost of candidates.

    Args:
        name: name of the score, one of COSTS.
        dictionary: target dictionary.
        remove_bpe: how sub-words are joined, as in fairseq: "subword_nmt", "sentencepiece" or
            "none".
    """

    def __init__(self, name: str, dictionary: Dictionary, remove_bpe: str):
        # sacreBLEU changes how a process reacts to signals: it is imported only where it is needed.
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


class CandidateSet(NamedTuple):
    """The candidates of one sentence, each of them once.

    Attributes:
        tokens: the tokens of each candidate, with the end of the sentence.
        costs: the cost of each candidate.
    """

    tokens: list[tuple[int, ...]]
    costs: list[float]


class Rows(NamedTuple):
    """Some sentences of a batch, whose candidates the decoder reads as one batch.

    Attributes:
        sentences: R indices of the sentences in the batch, those of a sentence one after another.
        tokens: R x T, the tokens of each candidate, padded on the right.
        prev_output_tokens: R x T, the input of the decoder.
        counts: number of candidates of each of the sentences.
    """

    sentences: Tensor
    tokens: Tensor
    prev_output_tokens: Tensor
    counts: list[int]


def candidate_sets(
    found: Sequence[Sequence[Tensor]], references: Sequence[Tensor], costs: Costs, keep: bool
) -> list[CandidateSet]:
    """Compute the costs of all candidates, without those that occur twice in a sentence.

    Args:
        found: the candidates of each sentence.
        references: the tokens of each reference.
        costs: computes costs.
        keep: whether the reference is also a candidate; it always is if there is no other one.
    """
    sets = []
    for hypotheses, target in zip(found, references):
        reference = tuple(target.tolist())
        tokens = list(dict.fromkeys(tuple(hypothesis.tolist()) for hypothesis in hypotheses))
        if reference not in tokens and (keep or not tokens):
            tokens.append(reference)
        sets.append(CandidateSet(tokens, costs(tokens, reference)))
    return sets


def in_rows(
    sets: Sequence[CandidateSet], max_tokens: int, eos: int, pad: int, device: torch.device
) -> Iterator[tuple[list[int], Rows]]:
    """Split a batch into parts with at most ``max_tokens`` tokens, padding included.

    All candidates of a sentence are in one part, which may therefore be larger if the sentence is
    alone in it. Sentences with candidates of similar length are together.

    Args:
        sets: the candidates of each sentence.
        max_tokens: largest number of tokens.
        eos, pad: indices of the end of the sentence and of padding.
        device: where tensors are made.
    Yields:
        The sentences of a part, and their candidates.
    """
    longest = [max(map(len, each.tokens)) for each in sets]
    part: list[int] = []
    rows = 0
    for sentence in sorted(range(len(sets)), key=longest.__getitem__):
        more = len(sets[sentence].tokens)
        if part and (rows + more) * longest[sentence] > max_tokens:
            yield part, _rows(part, sets, eos, pad, device)
            part, rows = [], 0
        part.append(sentence)
        rows += more
    yield part, _rows(part, sets, eos, pad, device)


def _rows(
    part: Sequence[int], sets: Sequence[CandidateSet], eos: int, pad: int, device: torch.device
) -> Rows:
    candidates = [torch.tensor(each) for sentence in part for each in sets[sentence].tokens]
    counts = [len(sets[sentence].tokens) for sentence in part]
    tokens = pad_sequence(candidates, batch_first=True, padding_value=pad)
    previous = shifted(candidates, eos, pad)
    sentences = torch.repeat_interleave(torch.tensor(part), torch.tensor(counts))
    return Rows(sentences.to(device), tokens.to(device), previous.to(device), counts)
