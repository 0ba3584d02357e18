"""The choice of layers and heads: the options ``--layers`` and ``--heads``."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from ..common.errors import UserError
from ..nn.attention import KINDS, MEAN, SOURCE, AttentionMap, AttentionMaps

ALL = "all"


def choose_layers(maps_of_models: Sequence[AttentionMaps], layers: str) -> list[list[AttentionMap]]:
    """The chosen maps of each model, in the order of the choice.

    Args:
        maps_of_models: the maps of each model in one sentence pair.
        layers: names separated by commas: "all", "mean", a kind ("encoder"), a layer that attends
            to the source ("3"), or any layer ("decoder.2").
    Raises:
        UserError: if no model has a layer of that name.
    """
    chosen: list[dict[str, AttentionMap]] = [{} for _ in maps_of_models]
    for text in layers.split(","):
        matches = [_matches(maps, text.strip()) for maps in maps_of_models]
        if not any(matches):
            raise UserError(_no_such_layer(maps_of_models, text.strip()))
        for found, of_model in zip(chosen, matches):
            found.update({one.name: one for one in of_model})
    return [list(found.values()) for found in chosen]


def _matches(maps: AttentionMaps, text: str) -> list[AttentionMap]:
    if text == ALL:
        # The mean of a single layer with a single head is that layer.
        layers = [found for found in maps.of_kind(SOURCE) if found.layer != MEAN]
        alone = len(layers) == 1 and layers[0].weights.size(1) == 1
        by_kind = (found for kind in KINDS for found in maps.of_kind(kind))
        return [found for found in by_kind if not (alone and found.layer == MEAN)]
    if text in KINDS:
        return [found for found in maps.of_kind(text) if found.layer != MEAN]
    names = (text, f"{SOURCE}.{text}")
    return [found for found in maps if found.name in names]


def _no_such_layer(maps_of_models: Iterable[AttentionMaps], text: str) -> str:
    names = dict.fromkeys(found.name for maps in maps_of_models for found in maps)
    if text == MEAN or text == SOURCE:
        return (
            "No layer of the model attends to the source, so there is no mean to plot: choose "
            f"from {', '.join(names)} with --layers."
        )
    return (
        f"There is no attention layer '{text}' (--layers): the model has {', '.join(names)}; "
        f"'{ALL}' is every one of them."
    )


def choose_heads(chosen: AttentionMap, heads: str) -> tuple[list[str], Tensor]:
    """The chosen heads of a layer.

    Args:
        chosen: the layer, one row.
        heads: "all", "mean", or numbers from 1 separated by commas.
    Returns:
        A name for each head, its number from 1 or "mean"; and their weights h x Q x K.
    Raises:
        UserError: if the layer has no such head.
    """
    weights = chosen.weights[0].float().cpu()
    count = len(weights)
    if chosen.layer == MEAN:
        if heads not in (ALL, MEAN):
            raise UserError(
                f"{chosen.name} has no single heads (--heads {heads}): also choose layers with "
                f"--layers, such as --layers {SOURCE}."
            )
        names = [MEAN]
    elif heads == MEAN:
        names, weights = [MEAN if count > 1 else "1"], weights.mean(dim=0, keepdim=True)
    else:
        names = [str(1 + i) for i in range(count)]
        if heads != ALL:
            named = [text.strip() for text in heads.split(",")]
            missing = [text for text in named if text not in names]
            if missing:
                has = "1 head" if count == 1 else f"heads 1 to {count}"
                raise UserError(
                    f"There is no head '{missing[0]}' (--heads): {chosen.name} has {has}; "
                    f"'{MEAN}' and '{ALL}' are also possible."
                )
            names = list(dict.fromkeys(named))
            weights = weights[[int(name) - 1 for name in names]]
    return names, weights
