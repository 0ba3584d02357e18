"""The attention of sentence pairs, for networks of this library and models of fairseq."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..common.errors import UserError
from ..models.interface import Network
from ..nn.attention import MEAN, SOURCE, AttentionMap, AttentionMaps
from .decoding import Model
from .ensemble import Ensemble, numbers


@dataclass(frozen=True)
class Attention:
    """The attention of one or several models in one sentence pair.

    Attributes:
        source: S source tokens, the end of the sentence included.
        target: T target tokens, likewise.
        maps: the layers of each model, one row each. If layers attend to the source, the first map
            is the mean of all of them, "source.mean".
    """

    source: list[str]
    target: list[str]
    maps: list[AttentionMaps] = field(repr=False)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Name -> weights, queries x keys: T x S for attention to the source.

        Names are those of ``convs2s plot-attention``: ``source.mean``, ``source.2`` for a layer,
        ``source.2.1`` for the first of its heads if there are several. Those of the second model of
        an ensemble start with ``2:``, and so on.
        """
        found = {}
        for number, maps in enumerate(self.maps, start=1):
            for layer in maps:
                name = layer.name if number == 1 else f"{number}:{layer.name}"
                heads = layer.weights[0].float().cpu().numpy()
                for head, weights in enumerate(heads, start=1):
                    found[name if len(heads) == 1 else f"{name}.{head}"] = weights
        return found

    def plot(self, path: str | None = None, layers: str = MEAN, heads: str = MEAN) -> Any:
        """Draw the picture of ``convs2s plot-attention``.

        Args:
            path: a file to write as well (.png, .pdf, .svg); None for none.
            layers, heads: as for ``--layers`` and ``--heads``: "mean", "all", or names or numbers
                with commas between them.
        Returns:
            The figure of matplotlib, which a notebook shows.
        Raises:
            UserError: if there is no such layer or head, the file cannot be written, or matplotlib
                is not installed.
        """
        from ..pictures.attention import figure_of

        return figure_of(self.source, self.target, self.maps, path, layers, heads)


def best_translation(ensemble: Ensemble, source: str) -> str:
    """Translate a sentence.

    Args:
        ensemble: the models.
        source: source tokens, separated by spaces.
    Returns:
        Target tokens, separated by spaces.
    """
    _check_length(ensemble, source, "source")
    ((best, *_),) = ensemble.translate([source.split()])
    return " ".join(best.tokens)


@torch.no_grad()
def attention_of_pair(ensemble: Ensemble, source: str, target: str) -> Attention:
    """Compute the attention between a source sentence and a target in one forward pass.

    Args:
        ensemble: the models.
        source: source tokens, separated by spaces.
        target: target tokens, separated by spaces.
    Raises:
        UserError: if a model returns no attention, or if a sentence is too long for it.
    """
    _check_length(ensemble, source, "source")
    _check_length(ensemble, target, "target")
    source_ids, target_ids = (
        numbers(tokens.split(), vocabulary).unsqueeze(0).to(ensemble.device)
        for tokens, vocabulary in ((source, ensemble.source), (target, ensemble.target))
    )
    with ensemble.autocast():
        maps = [_maps(model, source_ids, target_ids) for model in ensemble.search_models]
    return Attention(
        [*source.split(), ensemble.source[ensemble.source.eos()]],
        [*target.split(), ensemble.target[ensemble.target.eos()]],
        maps,
    )


def _maps(model: Model, source: Tensor, target: Tensor) -> AttentionMaps:
    """The maps of one model for one sentence pair."""
    module, previous = model.module, target.roll(1, dims=1)
    if isinstance(module, Network):
        maps = module.attention_maps(source, previous, target)
    else:
        # What a model of fairseq or of another package returns.
        maps = AttentionMaps()
        sentences = torch.zeros(1, dtype=torch.long, device=source.device)
        weights = model.attend(model.encode(source), sentences, previous, target)
        if weights is not None:
            maps.add(SOURCE, weights.unsqueeze(1), "as the model returns it", MEAN)
    if not maps:
        raise UserError(f"{type(module).__name__} returns no attention: there is nothing to plot.")
    mean = maps.mean()
    if mean is not None and maps.of_kind(SOURCE)[0].layer != MEAN:
        description = "mean of all layers and heads"
        maps.insert(0, AttentionMap(SOURCE, MEAN, mean.unsqueeze(1), description))
    return maps


def _check_length(ensemble: Ensemble, text: str, side: str) -> None:
    """Check that a sentence is not too long for the models.

    Some decoders continue beyond their last position without an error.
    """
    length = len(text.split()) + 1
    limit = ensemble.max_source_tokens + 1
    if side == "target":
        limit = min(model.max_target_length for model in ensemble.search_models)
    if length > limit:
        raise UserError(
            f"A {side} sentence has {length} tokens, end of sentence included, but this model "
            f"allows at most {limit}."
        )
