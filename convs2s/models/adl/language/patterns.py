"""The patterns of hybrid language models -> definitions in ADL: ``convs2s adl import``.

A pattern says which layers follow each other. It does not give sizes, non-linearities or
embeddings of positions.

Needs neither torch nor fairseq.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from ....common.errors import TextError, UserError, nearest
from ....common.limits import MAX_ADL_LAYERS
from ....common.lines import excerpt
from .registry import entries
from .resolve import resolve
from .spec import DECODER, ENCODER
from .writer import repetition

SOURCE_ATTENTION = "mh_dot_src_att"


class _Kind(NamedTuple):
    """The meaning of a part of a pattern.

    Attributes:
        name: the name of the chain.
        mixer: the layer that combines positions, or "".
        feed_forward: whether a feed-forward network is part of it.
        recurrent: whether it knows the order of the positions.
        window: the key of a configuration that limits its attention, or "".
    """

    name: str
    mixer: str = ""
    feed_forward: bool = False
    recurrent: bool = False
    window: str = ""


# The symbols of Megatron's hybrid patterns.
SYMBOLS = {
    "M": _Kind("mamba", "mamba2", recurrent=True),
    "*": _Kind("attention", "mh_dot_self_att"),
    "-": _Kind("feed_forward", feed_forward=True),
}
# The names in Hugging Face's configurations, each for a mixer and a feed-forward network.
LAYER_TYPES = {
    "full_attention": _Kind("full_attention", "mh_dot_self_att", True),
    "sliding_attention": _Kind(
        "sliding_attention", "mh_dot_self_att", True, False, "sliding_window"
    ),
    "linear_attention": _Kind("linear_attention", "gla", True, True),
}
# Those of RecurrentGemma, whose attention is local.
BLOCK_TYPES = {
    "recurrent": _Kind("recurrent", "rg_lru", True, True),
    "attention": _Kind("local_attention", "mh_dot_self_att", True, False, "attention_window_size"),
}
# The keys of a configuration that hold a pattern.
KEYS = ("layer_types", "block_types", "hybrid_override_pattern")
# Keys of the number of experts.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def definition_of_pattern(text: str, side: str, source: str = "PATTERN") -> str:
    """The definition that a pattern describes.

    Args:
        text: symbols such as ``M-M*-``, a list of names in JSON, or the JSON of a configuration of
            Hugging Face.
        side: ENCODER, or DECODER for attention to the source after each layer that combines
            positions.
        source: a name for the text in error messages.
    Raises:
        TextError, UserError: if something in the pattern is unknown, or a layer is not available.
    """
    if text.lstrip()[:1] in ("[", "{"):
        kinds, config = _read_json(text, source)
    else:
        kinds, config = _read_symbols(text, source), {}
    if len(kinds) > MAX_ADL_LAYERS:
        raise UserError(
            f"{source} has {len(kinds)} layers, more than the {MAX_ADL_LAYERS} of a side."
        )
    if side == DECODER and not any(kind.mixer for kind in kinds):
        raise UserError(
            f"{source} has no layer that combines positions, and a decoder attends to the source "
            "after such layers: its output could not depend on the source."
        )
    chains = {kind.name: _chain(kind, side, config) for kind in kinds}
    names = {name: f"{name}_block" if name in entries() else name for name in chains}
    lines = [f"let {names[name]} = {chain};" for name, chain in chains.items()]
    parts = [] if any(kind.recurrent for kind in kinds) else ["pos"]
    parts += [*_repeated([names[kind.name] for kind in kinds]), "norm"]
    found = "\n".join([*lines, " -> ".join(parts)])
    sides = (found, "id") if side == ENCODER else ("id", found)
    resolve(*sides, sources=("the definition", "the definition"))
    return found


def _read_symbols(text: str, source: str) -> list[_Kind]:
    """The kinds of layers of a string of symbols."""
    positions = [position for position, symbol in enumerate(text) if not symbol.isspace()]
    known = ", ".join(f"{symbol} ({kind.name})" for symbol, kind in SYMBOLS.items())
    if not positions:
        raise TextError(f"the pattern is empty: symbols are {known}", text, 0, source)
    for position in positions:
        if text[position] not in SYMBOLS:
            experts = ", which means a mixture of experts" if text[position] == "E" else ""
            raise TextError(
                f"there is no symbol {excerpt(text[position])}{experts}; symbols are {known}, and "
                "a pattern may also be a list of names in JSON, or a file",
                text,
                position,
                source,
            )
        if why := _unavailable(SYMBOLS[text[position]], {}):
            raise TextError(why, text, position, source)
    return [SYMBOLS[text[position]] for position in positions]


def _read_json(text: str, source: str) -> tuple[list[_Kind], dict[str, Any]]:
    """The kinds of layers of a list or a configuration, and the configuration."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(f"not valid JSON: {error.msg}", text, error.pos, source) from None
    except (RecursionError, ValueError):
        raise UserError(
            f"{source} is not valid JSON: its values are nested too deeply, or a number is too "
            "long."
        ) from None
    if isinstance(content, list):
        return _kinds(content, "", {**LAYER_TYPES, **BLOCK_TYPES}, {}, source), {}
    given = [key for key in KEYS if content.get(key) is not None]
    if len(given) != 1:
        found = f"both {' and '.join(given)}" if given else "none"
        inner = [
            name
            for name, part in content.items()
            if isinstance(part, dict) and any(part.get(key) is not None for key in KEYS)
        ]
        hint = f"; {inner[0]} has: give this part alone" if inner and not given else ""
        raise UserError(
            f"{source} must have one of {', '.join(KEYS)}, which hold a pattern, and has {found}"
            f"{hint}."
        )
    for key in EXPERTS:
        if content.get(key):
            raise UserError(
                f"{source} has {key}: {excerpt(json.dumps(content[key]))}, a mixture of experts, "
                "which ADL does not have."
            )
    (key,) = given
    value, number = content[key], content.get("num_hidden_layers")
    if number is not None and (type(number) is not int or not 1 <= number <= MAX_ADL_LAYERS):
        _refuse(source, "num_hidden_layers", number, f"an integer from 1 to {MAX_ADL_LAYERS}")
    if key == "hybrid_override_pattern":
        if not isinstance(value, str):
            _refuse(source, key, value, "a string of symbols such as M-M*-")
        kinds = _read_symbols(value, f"{source}, {key}")
    else:
        if not isinstance(value, list):
            _refuse(source, key, value, "a list of names")
        known = LAYER_TYPES if key == "layer_types" else BLOCK_TYPES
        kinds = _kinds(value, key, known, content, source)
    if key == "block_types":
        if number is None:
            raise UserError(
                f"{source} needs num_hidden_layers: block_types are repeated up to this number."
            )
        kinds = [kinds[layer % len(kinds)] for layer in range(number)]
    elif number not in (None, len(kinds)):
        raise UserError(
            f"{source} has num_hidden_layers: {number}, but {key} has {len(kinds)} layers."
        )
    return kinds, content


def _refuse(source: str, key: str, value: Any, allowed: str) -> NoReturn:
    raise UserError(f"{source}: {key} must be {allowed}, found {excerpt(json.dumps(value))}.")


def _kinds(
    names: list[Any], key: str, known: dict[str, _Kind], config: dict[str, Any], source: str
) -> list[_Kind]:
    """The kinds of layers of a list of names."""
    if not names:
        raise UserError(f"{source}: the list of layers is empty; names are {', '.join(known)}.")
    for index, name in enumerate(names):
        place = f"{source}: {key}[{index}], counted from 0,"
        if not isinstance(name, str):
            raise UserError(f"{place} is {excerpt(json.dumps(name))}, but must be a name.")
        if name not in known:
            raise UserError(
                f"{place} is {excerpt(name)}{nearest(name, known)}; names are {', '.join(known)}."
            )
        if why := _unavailable(known[name], config):
            raise UserError(f"{place} is {excerpt(name)}, which cannot be imported: {why}.")
    return [known[name] for name in names]


def _unavailable(kind: _Kind, config: dict[str, Any]) -> str:
    """Why a part of a pattern cannot be imported, as a sentence; empty if it can."""
    entry = entries().get(kind.mixer)
    if kind.mixer and entry is None:
        return (
            f"{kind.name} means the layer '{kind.mixer}', which is not registered; `convs2s "
            "adl layers` lists those that are"
        )
    if not kind.window or entry is None:
        return ""
    if "window" not in [argument.name for argument in entry.arguments]:
        return f"{kind.name} needs an argument 'window', which '{kind.mixer}' does not have"
    size = config.get(kind.window)
    if type(size) is int and size > 0:
        return ""
    found = "is missing" if size is None else f"is {excerpt(json.dumps(size))}"
    return f"its {kind.window}, a number of positions in a config.json, {found}"


def _chain(kind: _Kind, side: str, config: dict[str, Any]) -> str:
    """The text of the chain for a part of a pattern."""
    parts: list[str] = []
    if kind.mixer:
        window = f"(window={config[kind.window]})" if kind.window else ""
        parts.append(f"res_nd({kind.mixer}{window})")
        if side == DECODER:
            parts.append(f"res_nd({SOURCE_ATTENTION})")
    if kind.feed_forward:
        parts.append("res_nd(ffl)")
    return " -> ".join(parts)


def _repeated(names: Sequence[str]) -> list[str]:
    """The parts of a chain, with repetitions joined."""
    parts: list[str] = []
    while names:
        period, count = repetition([(name,) for name in names])
        if count == 1:
            parts.append(names[0])
        elif period == 1:
            parts.append(f"repeat({count}, {names[0]})")
        else:
            parts.append(f"cycle({count}, {', '.join(names[:period])})")
        names = names[count:]
    return parts
