"""The attention of sentence pairs, for networks of this library and models of fairseq."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from ..common.errors import UserError
from ..models.interface import Network
from ..nn.attention import MEAN, SOURCE, AttentionMap, AttentionMaps
from ..translation.buffers import TextProcessor
from ..translation.ensemble import Ensemble, numbers
from ..translation.loading import Languages, Loaded, load_model
from ..translation.options import EnsembleOptions
from ..translation.text import find_places, find_text


def load(
    paths: Sequence[str],
    data: str | None,
    languages: Languages,
    text: TextProcessor | None,
    load_model: Callable[..., Loaded] = load_model,
) -> tuple[list[Ensemble], TextProcessor]:
    """Load models, and find the processing of their text as ``convs2s translate`` does.

    Args:
        paths: checkpoints of models with the same dictionaries.
        data: the folder of the dictionaries; None to find it from the first checkpoint.
        languages: the source and the target language; None for those of the checkpoint or data.
        text: what ``given_text`` returned.
        load_model: makes models, as ``translation.loading.load_model`` does.
    Returns:
        Each model as an ensemble of its own, and the processing of text.
    Raises:
        UserError: if a checkpoint, the dictionaries or the preparation cannot be read or do not
            fit.
    """
    if data is not None and not Path(data).is_dir():
        raise UserError(f"There is no folder {data}: --data is the folder of the dictionaries.")
    options = EnsembleOptions(device="cpu")
    places = find_places(paths[0], data, languages, text)
    models = [Ensemble([path], options, places, load_model) for path in paths]
    return models, find_text(text, paths[0], models[0].data, models[0].languages)


class SentenceAttention(NamedTuple):
    """The attention of one model in one sentence pair.

    Attributes:
        source: S source tokens.
        target: T target tokens.
        maps: one row each. If layers attend to the source, the first map is the mean of all of
            them, "source.mean".
    """

    source: list[str]
    target: list[str]
    maps: AttentionMaps


def translate(model: Ensemble, source: str, beam_size: int = 5) -> str:
    """Translate a sentence.

    Args:
        model: one model.
        source: source tokens, separated by spaces.
        beam_size: beam size (5).
    Returns:
        Target tokens, separated by spaces.
    """
    _check_length(model, source, "source")
    ((best, *_),) = model.with_options(beam=beam_size).translate([source.split()])
    return " ".join(best.tokens)


@torch.no_grad()
def compute_attention(model: Ensemble, source: str, target: str) -> SentenceAttention:
    """Compute the attention between a source sentence and a target in one forward pass.

    Args:
        model: one model.
        source: source tokens, separated by spaces.
        target: target tokens, separated by spaces.
    Raises:
        UserError: if the model returns no attention, or if a sentence is too long for it.
    """
    _check_length(model, source, "source")
    _check_length(model, target, "target")
    source_ids = numbers(source.split(), model.source).unsqueeze(0)
    target_ids = numbers(target.split(), model.target).unsqueeze(0)
    previous = target_ids.roll(1, dims=1)
    (module,) = model.models
    if isinstance(module, Network):
        maps = module.attention_maps(source_ids, previous, target_ids)
    else:
        # What a model of fairseq or of another package returns.
        maps, (searched,) = AttentionMaps(), model.search_models
        encoded = searched.encode(source_ids)
        weights = searched.attend(encoded, torch.tensor([0]), previous, target_ids)
        if weights is not None:
            maps.add(SOURCE, weights.unsqueeze(1), "as the model returns it", MEAN)
    if not maps:
        raise UserError(f"{type(module).__name__} returns no attention: there is nothing to plot.")
    mean = maps.mean()
    if mean is not None and maps.of_kind(SOURCE)[0].layer != MEAN:
        description = "mean of all layers and heads"
        maps.insert(0, AttentionMap(SOURCE, MEAN, mean.unsqueeze(1), description))
    return SentenceAttention(
        [*source.split(), model.source[model.source.eos()]],
        [*target.split(), model.target[model.target.eos()]],
        maps,
    )


def _check_length(model: Ensemble, text: str, side: str) -> None:
    """Check that a sentence is not too long for a model.

    Some decoders continue beyond their last position without an error.
    """
    length = len(text.split()) + 1
    limit = model.max_source_tokens + 1
    if side == "target":
        limit = model.search_models[0].max_target_length
    if length > limit:
        raise UserError(
            f"A {side} sentence has {length} tokens, end of sentence included, but this model "
            f"allows at most {limit}."
        )
