"""Pictures of attention."""

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..nn.attention import AttentionMaps
from .document import Document, document, sentence_entry
from .figures import check_format, import_pyplot, save_figure
from .picture import choose_fonts, plot
from .selection import choose_layers

DIGITS = 6


def draw(content: Document, pyplot: Any, path: str | None = None) -> tuple[Any, str | None]:
    """Draw a picture with fonts that have its characters.

    Args:
        content: what it shows.
        pyplot: ``matplotlib.pyplot``.
        path: a file to write; None for none.
    Returns:
        The figure, and a sentence about the characters that no font has, if there are any.
    Raises:
        UserError: if the figure would be too large, or the file cannot be written.
    """
    tokens = (
        token
        for sentence in content["sentences"]
        for token in (*sentence["source"], *sentence["target"])
    )
    fonts, missing = choose_fonts(import_module("matplotlib.font_manager"), tokens)
    with pyplot.rc_context({"font.family": fonts}), warnings.catch_warnings():
        # matplotlib warns about each missing character separately.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = plot(pyplot, content)
        # Otherwise a notebook would show it twice.
        pyplot.close(figure)
        if path is not None:
            # The constrained layout reserves too little space for rotated labels.
            save_figure(figure, path, bbox_inches="tight")
    if not missing:
        return figure, None
    return figure, (
        f"No font of this system has {' '.join(missing[:10])}{' ...' if len(missing) > 10 else ''},"
        " which the picture shows as boxes: install a font that has them, such as Noto Sans "
        "CJK for Chinese, Japanese and Korean, or write a page (--output FILE.html)."
    )


def figure_of(
    source: list[str],
    target: list[str],
    maps: Sequence[AttentionMaps],
    path: str | None,
    layers: str,
    heads: str,
) -> Any:
    """The figure of a sentence pair.

    Args:
        source, target: its tokens, ends of sentences included.
        maps: the layers of each model.
        path, layers, heads: as for ``Attention.plot``, which also says what is raised.
    """
    if path is not None:
        check_format(str(path))
    pyplot = import_pyplot(display=True)
    chosen = choose_layers(maps, layers)
    texts = " ".join(source[:-1]), " ".join(target[:-1])
    entry = sentence_entry(source, target, chosen, heads, DIGITS, texts)
    names = [f"model {number}" for number, _ in enumerate(maps, start=1)]
    figure, missing = draw(document(names, [entry]), pyplot, None if path is None else str(path))
    if missing:
        warnings.warn(missing, stacklevel=3)
    return figure
