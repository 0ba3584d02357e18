"""The attention of sentence pairs as plain data, as JSON and as one HTML page.

``docs/attention.md`` describes the JSON. The page needs no network and no other file.
"""

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from ..common.errors import UserError
from ..nn.attention import CONTRIBUTIONS, DECODER, ENCODER, SOURCE, AttentionMap
from .selection import choose_heads

FORMAT, VERSION = "convs2s-attention", 1
FOLDER = Path(__file__).parent / "page_files"
SCRIPTS = ("drawing.js", "controls.js")
_PLACEHOLDER = re.compile(r"<!--(title|style|script|data)-->")

# The tokens of queries and of keys, by the kind of map. A decoder attends to its inputs, the
# previous tokens.
AXES = {
    SOURCE: ("target", "source"),
    ENCODER: ("source", "source"),
    DECODER: ("target", "previous"),
    CONTRIBUTIONS: ("target", "source"),
}


class MapEntry(TypedDict):
    """One layer; ``weights`` is head x query x key, and ``signed`` if weights may be negative."""

    name: str
    kind: str
    layer: str
    description: str
    model: int
    queries: str
    keys: str
    signed: bool
    heads: list[str]
    weights: list[list[list[float]]]


class SentenceEntry(TypedDict):
    """One sentence pair, as text and as tokens; ``previous`` has the inputs of the decoder."""

    source_text: str
    target_text: str
    source: list[str]
    target: list[str]
    previous: list[str]
    maps: list[MapEntry]


class Document(TypedDict):
    """Everything; ``models`` has the names of the checkpoints."""

    format: str
    version: int
    models: list[str]
    sentences: list[SentenceEntry]


def document(models: list[str], sentences: list[SentenceEntry]) -> Document:
    """The document of some sentences.

    Args:
        models: names of the checkpoints.
        sentences: the sentence pairs.
    """
    return {"format": FORMAT, "version": VERSION, "models": models, "sentences": sentences}


def sentence_entry(
    source: list[str],
    target: list[str],
    maps_of_models: Sequence[Sequence[AttentionMap]],
    heads: str,
    digits: int,
    texts: tuple[str, str],
) -> SentenceEntry:
    """One sentence pair.

    Args:
        source, target: the tokens, ends of sentence included.
        maps_of_models: the chosen layers of each model, one row each.
        heads: the choice of heads; see ``choose_heads``.
        digits: decimals of the weights.
        texts: source and target as plain text.
    Raises:
        UserError: if a layer has no such head, or a weight is not a finite number.
    """
    maps = [
        _map_entry(layer, heads, model, digits)
        for model, layers in enumerate(maps_of_models)
        for layer in layers
    ]
    previous = [target[-1], *target[:-1]]
    return {
        "source_text": texts[0],
        "target_text": texts[1],
        "source": source,
        "target": target,
        "previous": previous,
        "maps": maps,
    }


def _map_entry(layer: AttentionMap, heads: str, model: int, digits: int) -> MapEntry:
    names, weights = choose_heads(layer, heads)
    if not bool(weights.isfinite().all()):
        raise UserError(
            f"{layer.name} has weights that are not finite numbers: training of the model has "
            "diverged, or its precision is too low."
        )
    queries, keys = AXES[layer.kind]
    return {
        "name": layer.name,
        "kind": layer.kind,
        "layer": layer.layer,
        "description": layer.description,
        "model": model,
        "queries": queries,
        "keys": keys,
        "signed": layer.kind == CONTRIBUTIONS,
        "heads": names,
        "weights": [
            # Adding zero makes -0.0 zero.
            [[round(weight, digits) + 0.0 for weight in row] for row in head]
            for head in weights.double().tolist()
        ],
    }


def as_json(content: Document) -> str:
    """The text of the JSON file, which is one line."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"


def page(content: Document, title: str) -> str:
    """The text of the page.

    Args:
        content: what it shows.
        title: its title, plain text.
    """
    names = ("page.html", "style.css", *SCRIPTS)
    template, style, *scripts = ((FOLDER / name).read_text(encoding="utf-8") for name in names)
    return filled(template, style, scripts, as_json(content).rstrip(), title)


def filled(template: str, style: str, scripts: Sequence[str], data: str, title: str) -> str:
    """A page that needs no other file.

    Args:
        template: HTML with comments in the places of the other parts.
        style: CSS.
        scripts: JavaScript.
        data: JSON.
        title: plain text.
    """
    # No tag and no comment can start in the data.
    data = data.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"})
    parts = {
        "title": html.escape(title),
        "style": f"<style>\n{style}</style>",
        "script": "\n".join(f"<script>\n{script}</script>" for script in scripts),
        "data": f'<script type="application/json" id="data">{data}</script>',
    }
    # In one pass, so that nothing is replaced inside the data.
    return _PLACEHOLDER.sub(lambda found: parts[found[1]], template)
