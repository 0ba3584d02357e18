"""The scores that another model gives the hypotheses of n-best lists."""

import math
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset
from torch import Tensor

from ..decoding.unknown_words import unknown_word
from ..errors import UserError
from ..text_files import excerpt
from ..translation.ensemble import Ensemble
from ..translation.loading import Places
from ..translation.options import EnsembleOptions
from .nbest import NBest


def model_scores(
    checkpoint: str, data: str | None, lists: Sequence[NBest], options: EnsembleOptions
) -> np.ndarray:
    """The mean log-probability in base 2 of the tokens of each hypothesis.

    Args:
        checkpoint: a model that reads and writes the tokens of the lists.
        data: folder of its dictionaries; None for that of the checkpoint or of its training data.
        lists: n-best lists with source tokens.
        options: precision, device and size of batches.
    Raises:
        UserError: if the lists have no sources, or tokens that the model does not know, or if the
            model cannot be loaded.
    """
    if any(each.source is None for each in lists):
        raise UserError(
            "--model needs the source tokens, which the n-best lists do not have (no lines "
            "S-NUMBER): make them with fairseq-generate."
        )
    folders = [Path(data)] if data else [Path(checkpoint).parent]
    ensemble = Ensemble([checkpoint], options, Places(folders, with_training_data=data is None))
    task = ensemble.task
    pairs = [
        (str(each.source), hypothesis.tokens) for each in lists for hypothesis in each.hypotheses
    ]
    sources, targets = (
        [_encode(dictionary, text, checkpoint) for text in texts]
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
    scorer = task.build_generator(ensemble.models, Namespace(score_reference=True))
    scores = np.zeros(len(pairs))
    # LanguagePairDataset sorts the pairs of a batch by length, so their numbers are needed.
    for batch in dataset.batch_by_size(
        np.lexsort(lengths.T), max_tokens=max(options.max_tokens, int(lengths.max()))
    ):
        sample = dataset.collater([dataset[int(number)] for number in batch])
        sample = utils.apply_to_sample(lambda tensor: tensor.to(ensemble.device), sample)
        with torch.no_grad():
            found = task.inference_step(scorer, ensemble.models, sample)
        for number, (hypothesis, *_) in zip(sample["id"].tolist(), found):
            scores[number] = float(hypothesis["score"]) / math.log(2)
    return scores


def _encode(dictionary: Dictionary, text: str, checkpoint: str) -> Tensor:
    """The tokens of a text, which all must be in the dictionary, and the end of the sentence."""
    token = unknown_word(dictionary, text)
    if token is not None:
        raise UserError(
            f"The n-best lists have the token {excerpt(token)}, which the dictionaries of "
            f"{checkpoint} do not have: --model needs a model of the same tokens, and lists of "
            "fairseq-generate without --remove-bpe."
        )
    return dictionary.encode_line(text, add_if_not_exist=False).long()


def _check_lengths(ensemble: Ensemble, lengths: np.ndarray) -> None:
    """Check that no hypothesis is too long for the model."""
    source, target = (
        min(limit) for limit in zip(*(model.max_positions() for model in ensemble.models))
    )
    if lengths[:, 0].max() > source or lengths[:, 1].max() > target:
        raise UserError(
            f"The n-best lists have pairs of up to {lengths[:, 0].max()} x {lengths[:, 1].max()} "
            f"tokens, but the model of --model reads at most {source} x {target}."
        )
