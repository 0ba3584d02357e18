"""The attention of sentence pairs, for networks of this library and models of fairseq."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..common.errors import UserError
from ..models.interface import Network
from ..nn.attention import MEAN, SOURCE, AttentionMap, AttentionMaps
from ..translation.ensemble import Ensemble, numbers
from ..translation.translator import Translator


def load(paths: Sequence[str], **options: Any) -> list[Translator]:
    """Load models that share the dictionaries of the first one, on the CPU.

    Args:
        paths: checkpoints.
        options: those of ``Translator``, for the first model; only its text is prepared.
    Raises:
        UserError: if a checkpoint, the dictionaries or the preparation cannot be read or do not
            fit.
    """
    first = Translator(paths[0], device="cpu", **options)
    dictionaries = first.ensemble.dictionaries
    source, target = dictionaries.languages
    same = {"data": dictionaries.folder, "source_lang": source, "target_lang": target, "raw": True}
    more = {**options, "preparation": None, "bpe_codes": None, **same}
    return [first, *(Translator(path, device="cpu", **more) for path in paths[1:])]


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


def translate(model: Ensemble, source: str) -> str:
    """Translate a sentence.

    Args:
        model: one model.
        source: source tokens, separated by spaces.
    Returns:
        Target tokens, separated by spaces.
    """
    _check_length(model, source, "source")
    ((best, *_),) = model.translate([source.split()])
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
