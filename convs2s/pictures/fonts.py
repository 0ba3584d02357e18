"""Fonts of the system for characters that matplotlib's default font lacks, such as Chinese."""

import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

# A font of boxes with code points in them, which has every character.
BOXES = "last resort"
# Control characters, invisible ones and halves of characters.
NOT_DRAWN = ("Cc", "Cf", "Cs")


def choose_fonts(manager: Any, texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Find fonts for texts.

    Args:
        manager: ``matplotlib.font_manager``.
        texts: what is to be drawn.
    Returns:
        The names of fonts, the default first, for ``font.family``; and the characters that none
        has, in the order of their code points.
    """
    characters = {each for text in texts for each in text if _is_drawn(each)}
    default = manager.FontProperties()
    names = list(default.get_family())
    missing = characters - _characters(manager, manager.findfont(default))
    if missing:
        _add_new_fonts(manager)
    found = _fonts_with(manager, missing)
    while missing and found:
        name = max(sorted(found), key=lambda name: len(found[name] & missing))
        # Of several files of this name, matplotlib draws with one.
        drawn = _characters(manager, manager.findfont(manager.FontProperties(family=[name])))
        del found[name]
        if missing & drawn:
            names.append(name)
            missing -= drawn
    return names, sorted(missing)


def _is_drawn(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in NOT_DRAWN


def _characters(manager: Any, path: str) -> set[str]:
    """The characters of a font; none if it has pictures of one size in place of outlines."""
    font = manager.get_font(path)
    return set(map(chr, font.get_charmap())) if font.scalable else set()


def _add_new_fonts(manager: Any) -> None:
    """Add fonts that were installed after matplotlib has written its list of fonts."""
    known = {entry.fname for entry in manager.fontManager.ttflist}
    for path in manager.findSystemFonts():
        if path not in known:
            # matplotlib passes over fonts that it cannot read, too.
            with suppress(OSError, RuntimeError):
                manager.fontManager.addfont(path)


def _fonts_with(manager: Any, characters: set[str]) -> dict[str, set[str]]:
    """The fonts with some of these characters: name -> those that it has."""
    found: dict[str, set[str]] = {}
    if not characters:
        return found
    for path, name in {entry.fname: entry.name for entry in manager.fontManager.ttflist}.items():
        if not name.lower().startswith(BOXES):
            with suppress(OSError, RuntimeError):
                has = characters & _characters(manager, path)
                if has:
                    found.setdefault(name, set()).update(has)
    return found
