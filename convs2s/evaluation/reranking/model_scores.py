"""The scores that another model gives the hypotheses of n-best lists."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary

from ...common.errors import UserError
from ...common.text_files import excerpt
from ...translation.ensemble import Ensemble
from ...translation.forced import score_pairs
from ...translation.loading import Places
from ...translation.options import EnsembleOptions
from ...translation.unknown_words import unknown_word
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
        UserError: if the lists have no sources, or tokens that the model does not know, if a
            hypothesis is too long for the model, or if the model cannot be loaded.
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
    for source, target in pairs:
        _check_tokens(task.source_dictionary, source, checkpoint)
        _check_tokens(task.target_dictionary, target, checkpoint)
    return np.array([pair.score for pair in score_pairs(ensemble, pairs)])


def _check_tokens(dictionary: Dictionary, text: str, checkpoint: str) -> None:
    """Check that all tokens of a text are in the dictionary."""
    token = unknown_word(dictionary, text)
    if token is not None:
        raise UserError(
            f"The n-best lists have the token {excerpt(token)}, which the dictionaries of "
            f"{checkpoint} do not have: --model needs a model of the same tokens, and lists of "
            "fairseq-generate without --remove-bpe."
        )
