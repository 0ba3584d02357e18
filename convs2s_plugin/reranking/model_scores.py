"""The scores that another model gives the hypotheses of n-best lists."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import UserError
from ..translation.ensemble import Ensemble
from ..translation.forced import score_pairs
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
        UserError: if the lists have no sources, the model cannot be loaded, or a hypothesis is too
            long for it.
    """
    if any(each.source is None for each in lists):
        raise UserError(
            "--model needs the source tokens, which the n-best lists do not have (no lines "
            "S-NUMBER): make them with fairseq-generate."
        )
    folders = [Path(data)] if data else [Path(checkpoint).parent]
    ensemble = Ensemble([checkpoint], options, Places(folders, with_training_data=data is None))
    pairs = [
        (str(each.source), hypothesis.tokens) for each in lists for hypothesis in each.hypotheses
    ]
    return np.array([pair.score for pair in score_pairs(ensemble, pairs)])
