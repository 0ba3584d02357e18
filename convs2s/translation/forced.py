"""Scores and alignments that models give to translations that they did not make."""

import math
from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from fairseq import utils
from fairseq.data import LanguagePairDataset

from ..common.errors import UserError
from .ensemble import Ensemble


class ScoredPair(NamedTuple):
    """What models say about a source sentence and its translation.

    Attributes:
        score: the mean log-probability of the tokens in base 2, end of the sentence included.
        alignment: pairs of source and target token, counted from 0; None if not asked for.
    """

    score: float
    alignment: list[tuple[int, int]] | None


def score_pairs(
    ensemble: Ensemble, pairs: Sequence[tuple[str, str]], align: bool = False
) -> list[ScoredPair]:
    """Score translations, in batches of similar length.

    Args:
        ensemble: the models.
        pairs: source and target tokens, separated by spaces.
        align: whether to align each target token with the source token of the highest attention.
    Raises:
        UserError: if a sentence is too long for the models.
    """
    if not pairs:
        return []
    task = ensemble.task
    sources, targets = (
        [dictionary.encode_line(text, add_if_not_exist=False).long() for text in texts]
        for dictionary, texts in zip((task.source_dictionary, task.target_dictionary), zip(*pairs))
    )
    lengths = np.array([[len(source), len(target)] for source, target in zip(sources, targets)])
    _check_lengths(ensemble, lengths)
    dataset = LanguagePairDataset(
        *(sources, lengths[:, 0], task.source_dictionary),
        *(targets, lengths[:, 1], task.target_dictionary),
        left_pad_source=task.cfg.left_pad_source,
        left_pad_target=task.cfg.left_pad_target,
        shuffle=False,
    )
    options = Namespace(score_reference=True, print_alignment="hard" if align else None)
    scorer = task.build_generator(ensemble.models, options)
    largest = max(ensemble.options.max_tokens, int(lengths.max()))
    scored: dict[int, ScoredPair] = {}
    for batch in dataset.batch_by_size(np.lexsort(lengths.T), max_tokens=largest):
        sample = dataset.collater([dataset[int(number)] for number in batch])
        sample = utils.apply_to_sample(lambda tensor: tensor.to(ensemble.device), sample)
        with torch.no_grad():
            found = task.inference_step(scorer, ensemble.models, sample)
        # The dataset sorts the pairs of a batch by length, so their numbers are needed.
        for number, (hypothesis, *_) in zip(sample["id"].tolist(), found):
            score = float(hypothesis["score"]) / math.log(2)
            alignment = [(int(s), int(t)) for s, t in hypothesis["alignment"]] if align else None
            scored[number] = ScoredPair(score, alignment)
    return [scored[number] for number in range(len(pairs))]


def _check_lengths(ensemble: Ensemble, lengths: np.ndarray) -> None:
    """Check that no sentence is too long for the models."""
    source, target = (
        min(limit) for limit in zip(*(model.max_positions() for model in ensemble.models))
    )
    if lengths[:, 0].max() > source or lengths[:, 1].max() > target:
        raise UserError(
            f"There are pairs of up to {lengths[:, 0].max()} x {lengths[:, 1].max()} tokens, ends "
            f"of sentences included, but the model reads at most {source} x {target}."
        )
