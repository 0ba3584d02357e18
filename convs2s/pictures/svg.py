"""Drawings as SVG text, which follow the light or dark scheme of the reader; needs no package."""

import re
from collections.abc import Sequence
from html import escape

# Widths of a character of the fonts below, in pixels.
CHARACTER, SMALL_CHARACTER = 7.3, 6.7
# Class -> fill in the light and in the dark scheme.
FILLS = {
    "paper": ("#ffffff", "#14171c"),
    "quiet": ("#57606a", "#9da7b3"),
    "single": ("#f0f2f4", "#262b33"),
    "near": ("#cfe6f8", "#153d5a"),
    "far": ("#e2daf6", "#403167"),
    "source": ("#ffe0c2", "#5a300d"),
    "moved": ("#fff3b8", "#463a08"),
    "accent": ("#bc4c00", "#f0a04b"),
}
# Class -> stroke in both schemes.
STROKES = {
    "frame": ("#8c959f", "#6e7681"),
    "grid": ("#d0d7de", "#343b44"),
    "attention": ("#bc4c00", "#f0a04b"),
}
INK = ("#1b1f24", "#e6e9ed")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _scheme(number: int) -> str:
    rules = [f"svg {{ color: {INK[number]}; }}"]
    rules += [f".{name} {{ fill: {pair[number]}; }}" for name, pair in FILLS.items()]
    rules += [f".{name} {{ stroke: {pair[number]}; }}" for name, pair in STROKES.items()]
    return "\n".join(rules)


STYLE = f"""
text {{ fill: currentColor; font: 12px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; }}
path, line {{ fill: none; stroke: currentColor; stroke-width: 1.2; }}
.box {{ stroke: currentColor; stroke-width: 1; }}
.frame, .grid {{ fill: none; stroke-width: 1; }}
.head {{ fill: currentColor; stroke: none; }}
.small {{ font-size: 11px; }}
.bold {{ font-weight: 700; }}
{_scheme(0)}
@media (prefers-color-scheme: dark) {{
{_scheme(1)}
}}
"""


def allowed(text: str) -> str:
    """Text with a replacement character for each that XML does not allow."""
    return _NOT_XML.sub("\ufffd", text)


def plain(text: str) -> str:
    """Text with its markup escaped, and without characters that XML does not allow."""
    return escape(allowed(text))


class Drawing:
    """Elements of a picture, in the order in which they are painted; lengths are in pixels."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A box of some classes; ``width`` may be negative, for a box to the left of ``x``."""
        x, width = min(x, x + width), abs(width)
        size = f'width="{width:.1f}" height="{height:.1f}" rx="4"'
        self.elements.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{kind}"/>')

    def circle(self, x: float, y: float, radius: float, kind: str) -> None:
        """A circle around a point."""
        place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
        self.elements.append(f'<circle {place} class="{kind}"/>')

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text whose base is at ``y``; ``anchor`` is start, middle or end."""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self.elements.append(f'<text {place} class="{kind}">{plain(text)}</text>')

    def line(self, *points: tuple[float, float], kind: str = "", head: str = "") -> None:
        """A line through some points; ``head`` is the class of an arrowhead at its end, if any."""
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.elements.append(f'<path d="M{path}" class="{kind}"/>')
        if head:
            (x0, y0), (x, y) = points[-2:]
            size = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5 or 1
            dx, dy = 3 * (x - x0) / size, 3 * (y - y0) / size
            tip = f"M{x:.1f} {y:.1f} L{x - 2 * dx - dy:.1f} {y - 2 * dy + dx:.1f} "
            tip += f"L{x - 2 * dx + dy:.1f} {y - 2 * dy - dx:.1f}Z"
            self.elements.append(f'<path d="{tip}" class="{head}" style="stroke: none"/>')

    def svg(self, width: float, height: float, title: str) -> str:
        """The text of the file, with ``title`` for readers that do not see it."""
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{plain(title)}</title>",
                f"<style>{STYLE}</style>",
                '<rect width="100%" height="100%" class="paper"/>',
                *self.elements,
                "</svg>\n",
            ]
        )


def longest(texts: Sequence[str], character: float = CHARACTER) -> float:
    """The width of the longest text."""
    return max(map(len, texts), default=0) * character
