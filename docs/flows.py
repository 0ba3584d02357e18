"""Boxes one below the other, with the shape of what passes between them."""

import math
import re
from collections.abc import Iterable, Sequence

from convs2s.pictures.svg import CHARACTER, Drawing
from docs.recorded import Call, letters, times

WIDTH, MARGIN = 528, 12
LEFT, RIGHT = (MARGIN, 254), (274, WIDTH - MARGIN)
BOX, GAP, FRAME = 36, 26, 22
INSET = 9
MEANINGS = {
    "B": "sentences",
    "R": "hypotheses (rows)",
    "b": "hypotheses of a sentence",
    "S": "source positions",
    "T": "target positions",
    "t": "target tokens so far",
    "cells": "cells without padding",
    "N": "target tokens without padding",
    "E": "embedding channels",
    "C": "channels",
    "H": "hidden channels",
    "g": "channels that a layer adds",
    "L": "layers",
    "k": "positions in a kernel",
    "P": "target positions in a kernel",
    "h": "heads",
    "V": "words in the vocabulary",
}


class Figure(Drawing):
    """A drawing with shapes, which it explains at its end.

    Args:
        sizes: what the sizes are called.
        parts: numbers of other letters in these names.
    """

    def __init__(self, sizes: dict[str, int], **parts: int):
        super().__init__()
        self.sizes, self.numbers = sizes, sizes | parts
        self.used: set[str] = set()

    def shape(self, x: float, y: float, shape: Sequence[int], below: bool = False) -> None:
        """Write a shape with letters, and with numbers beside or below them."""
        text = letters(shape, self.sizes)
        self.used.update(re.findall(r"[a-zA-Z]+", text))
        self.text(x, y, text or "one number")
        if below:
            self.text(x, y + 14, times(shape), "small quiet")
        elif text:
            self.text(x + (len(text) + 1) * CHARACTER, y, times(shape), "small quiet")

    def finish(self, y: float, title: str, kinds: Iterable[tuple[str, str]]) -> str:
        """Explain colors and letters; returns the text of the file.

        Args:
            y: of the first line.
            title: for readers who do not see the drawing.
            kinds: the classes of boxes, and what they mean.
        """
        for kind, text in kinds:
            self.rect(MARGIN, y - 11, 22, 14, f"box {kind}")
            self.text(MARGIN + 30, y, text)
            y += 20
        y += 4
        used = [name for name in MEANINGS if name in self.used]
        for number, name in enumerate(used):
            x = (LEFT, RIGHT)[number % 2][0]
            text = f"{name} = {self.numbers[name]} {MEANINGS[name]}"
            self.text(x, y + 16 * (number // 2), text, "small quiet")
        y += 16 * math.ceil(len(used) / 2)
        return self.svg(WIDTH, y, title)


class Flow:
    """Boxes one below the other.

    Args:
        figure: what they are painted on.
        edges: x of the left and the right edge.
        top: y of the upper edge.
    """

    def __init__(self, figure: Figure, edges: tuple[float, float], top: float):
        self.figure, (self.left, self.right), self.y = figure, edges, top
        # Where arrows run, in frames and outside.
        self.x = self.left + 2 * FRAME
        # Of what passes; None where it was just said.
        self.shape: Sequence[int] | None = None
        self.frames: list[tuple[float, float, float]] = []

    def start(self, text: str, shape: Sequence[int]) -> None:
        """Name the input."""
        self.figure.text(self.left, self.y + 12, text, "bold")
        self.y, self.shape = self.y + 18, shape

    def arrow(self, head: str = "head") -> None:
        """An arrow down, with the shape of what passes."""
        self.figure.line((self.x, self.y), (self.x, self.y + GAP), head=head)
        if self.shape is not None:
            self.figure.shape(self.x + 10, self.y + GAP / 2 + 4, self.shape)
        self.y += GAP

    def box(self, call: Call, text: str, kind: str, style: str = "") -> float:
        """A box for a call, with its file; returns y of its middle."""
        self.arrow()
        self.figure.rect(self.left, self.y, self.right - self.left, BOX, f"box {kind}")
        self.figure.text(self.left + INSET, self.y + 15, text, style)
        self.figure.text(self.left + INSET, self.y + 29, call.file, "small quiet")
        self.y, self.shape = self.y + BOX, call.shape
        return self.y - BOX / 2

    def open(self, title: str) -> None:
        """Begin a frame around the boxes that follow."""
        self.arrow(head="")
        self.frames.append((self.left, self.right, self.y))
        self.figure.text(self.right - 8, self.y + 15, title, "bold", "end")
        self.left, self.right, self.shape = self.left + FRAME, self.right - 8, None

    def close(self, sign: str) -> None:
        """End the frame, with a connection past its boxes.

        Args:
            sign: how it is joined with what the boxes compute.
        """
        self.left, self.right, top = self.frames.pop()
        start, end, lane = top + 8, self.y + 11, self.left + FRAME / 2
        self.figure.line((self.x, self.y), (self.x, self.y + 22))
        self.figure.line(
            (self.x, start), (lane, start), (lane, end), (self.x - 8, end), head="head"
        )
        self.figure.circle(self.x, end, 8, "box paper")
        self.figure.text(self.x, end + 4, sign, anchor="middle")
        self.y += 22
        self.figure.rect(self.left, top, self.right - self.left, self.y - top, "frame")
