"""The layers of a model in ADL as a drawing: ``convs2s adl draw``. Needs no torch.

The encoder is on the left and the decoder on the right, both from bottom to top, with the numbers
of ``convs2s adl explain`` beside each layer.
"""

from textwrap import wrap

from ..models.adl.language.registry import POSITION, UNBOUNDED, layer_type
from ..models.adl.language.spec import LayerSpec, ModelSpec
from ..models.adl.outline import Outline, Part, outline
from .svg import SMALL_CHARACTER, Drawing, longest

MARGIN, ROW, GAP = 16, 34, 12
# A part inside another one is narrower: outside, where residual connections run, and inside.
OUTSIDE, INSIDE = 18, 12
LANE = 10
# Layers that add their input to the output of their chain.
RESIDUAL = ("res", "highway")
KINDS = {
    "source": "attends to the source",
    "far": "sees all positions, or all earlier ones",
    "near": "sees some neighbors",
    "single": "sees a single position",
}
HEADINGS = ("output, receptive field", "parameters, multiply-adds")


def draw(model_spec: ModelSpec, vocabulary_size: int, length: int) -> str:
    """Draw a model.

    Args:
        model_spec: the resolved model.
        vocabulary_size: V of source and target.
        length: tokens of source and target for which multiply-adds are counted.
    Returns:
        The text of an SVG file.
    """
    found = outline(model_spec, vocabulary_size, length)
    drawing = Drawing()
    encoder, decoder = _Side(drawing, found.encoder), _Side(drawing, found.decoder)
    attending = [part for _, part in found.decoder.walk() if _attends(part)]
    blocks = sorted({part.layer["block"] for part in attending if part.layer})
    start, room = 2 * MARGIN + encoder.numbers, LANE * (len(blocks) + 3)
    bottom = 4 * MARGIN + max(encoder.height, decoder.height)
    encoder.place(start, 1, bottom)
    end = start + encoder.width + room + decoder.width
    decoder.place(end, -1, bottom)
    for number, block in enumerate(blocks):
        lane = start + encoder.width + LANE * (number + 2)
        _draw_attention(drawing, encoder, decoder, block, lane, attending)
    drawing.text(start, bottom + 20, f"source embeddings, S x {model_spec.encoder.input_width}")
    previous = " and previous output" if model_spec.input_feeding else ""
    text = f"target embeddings{previous}, T x {model_spec.decoder.input_width}"
    drawing.text(end, bottom + 20, text, anchor="end")
    width = max(end + MARGIN + decoder.numbers + MARGIN, 560)
    height = _draw_notes(drawing, found, bottom + 56, width)
    return drawing.svg(width, height, "The layers of a model in ADL, from bottom to top")


def _attends(part: Part) -> bool:
    return part.layer is not None and layer_type(part.layer).attends


def kind_of(layer: LayerSpec) -> str:
    """The key in KINDS of a layer itself, without the chains in it."""
    entry = layer_type(layer)
    reach = entry.reach_of(layer)
    if entry.attends:
        return "source"
    return "far" if UNBOUNDED in reach else "near" if reach != POSITION else "single"


def _numbers(part: Part) -> tuple[str, str]:
    """The two lines beside a part."""
    parameters, products = part.figures[:2]
    counts = f"{parameters:,}, {products:,}" if parameters or products else ""
    return ", ".join(filter(None, (part.output, part.field))), counts


def _gap(part: Part) -> int:
    """The distance of the parts inside a part."""
    return 2 * GAP if _is_parallel(part) else GAP


def _is_parallel(part: Part) -> bool:
    return part.layer is not None and len(part.layer.chains) > 1


def _head(is_box: bool) -> str:
    """The head of an arrow that ends at a box; one that ends at a frame continues inside."""
    return "head" if is_box else ""


def _height(part: Part) -> float:
    if not part.parts:
        return ROW
    return 2 * GAP + ROW + sum(_gap(part) + _height(inner) for inner in part.parts)


class _Side:
    """A stack. Horizontal positions are distances from the edge with its numbers.

    Args:
        drawing: what it is painted on.
        stack: the stack's part of the outline.
    """

    def __init__(self, drawing: Drawing, stack: Part):
        self.drawing, self.stack = drawing, stack
        parts = [*stack.walk()]
        self.width = max(
            (depth + bool(part.parts)) * (OUTSIDE + INSIDE) + max(longest([part.label]), 90) + 20
            for depth, part in parts
        )
        lines = [*HEADINGS, *(line for _, part in parts for line in _numbers(part))]
        self.numbers = longest(lines, SMALL_CHARACTER)
        deepest = max(depth + bool(part.parts) for depth, part in parts)
        self.center = (deepest * OUTSIDE + self.width - deepest * INSIDE) / 2
        self.height = _height(stack)
        # Where lines to other parts leave or arrive, at the inner edge: part -> x, y.
        self.doors: dict[Part, tuple[float, float]] = {}

    def place(self, edge: float, direction: int, bottom: float) -> None:
        """Draw the stack.

        Args:
            edge: x of the edge with the numbers.
            direction: 1 if the stack lies to the right of it, -1 if to the left.
            bottom: y of its lower edge.
        """
        self.edge, self.direction = edge, direction
        top = bottom - self.height
        self.draw(self.stack, 0, top)
        self.line((self.center, bottom + 8), (self.center, bottom))
        self.line((self.center, top), (self.center, top - 12), head="head")
        self.doors[self.stack] = (self.x(self.width), bottom + 4)
        for line, heading in enumerate(HEADINGS):
            self.text(-8, top - 22 + 13 * line, heading, "small quiet")

    def draw(self, part: Part, depth: int, top: float) -> float:
        """Draw a part whose upper edge is at ``top``; return its lower edge."""
        if not part.parts:
            self.row(part, depth, top)
            return top + ROW
        gap, inner = _gap(part), depth + 1
        node = top + GAP + ROW / 2
        y = self.row(part, inner if part.layer else depth, top + GAP)
        self.line((self.center, top + GAP if part.layer else y), (self.center, top))
        edges = []
        for inside in reversed(part.parts):
            upper = y + gap
            y = self.draw(inside, inner, upper)
            edges.append((upper, y))
        outer, lane = inner * OUTSIDE, depth * OUTSIDE + OUTSIDE / 2
        bottom = y + GAP
        for number, (upper, lower) in enumerate(edges):
            above = edges[number - 1][1] if number else top + GAP + ROW
            if number == 0 or gap == GAP:
                is_box = not part.parts[-number].parts if number else part.layer is not None
                self.line((self.center, upper), (self.center, above), head=_head(is_box))
            else:
                side = self.width - depth * INSIDE - INSIDE / 2
                way = (self.center, upper), (self.center, upper - 7), (side, upper - 7)
                self.line(*way, (side, node), (self.width - inner * INSIDE, node), head="head")
            if gap != GAP and number < len(edges) - 1:
                way = (self.center, bottom - 5), (lane, bottom - 5), (lane, lower + 7)
                self.line(*way, (self.center, lower + 7), (self.center, lower), head="head")
        head = _head(_is_parallel(part) or not part.parts[0].parts)
        self.line((self.center, bottom), (self.center, y), head=head)
        if part.layer and part.layer.name in RESIDUAL:
            way = (self.center, bottom - 5), (lane, bottom - 5), (lane, node)
            self.line(*way, (outer, node), head="head")
        self.rect(depth, top, bottom - top, "frame")
        return bottom

    def row(self, part: Part, depth: int, top: float) -> float:
        """Draw a layer as a box, or the title of several, and the numbers; return the lower end."""
        if part.layer:
            self.rect(depth, top, ROW, f"box {kind_of(part.layer)}")
            middle = (depth * OUTSIDE + self.width - depth * INSIDE) / 2
            self.drawing.text(self.x(middle), top + ROW / 2 + 4, part.label, anchor="middle")
        else:
            title = f"x {part.times}" if part.times > 1 else part.label
            self.text(depth * OUTSIDE + 8, top + 10, title, "bold", outwards=False)
        self.doors[part] = (self.x(self.width - depth * INSIDE), top + ROW / 2)
        for line, text in enumerate(_numbers(part)):
            self.text(-8, top + 14 + 13 * line, text, "small quiet")
        return top + ROW

    def x(self, distance: float) -> float:
        return self.edge + self.direction * distance

    def rect(self, depth: int, top: float, height: float, kind: str) -> None:
        width = self.width - depth * (OUTSIDE + INSIDE)
        self.drawing.rect(self.x(depth * OUTSIDE), top, self.direction * width, height, kind)

    def line(self, *points: tuple[float, float], head: str = "") -> None:
        self.drawing.line(*((self.x(distance), y) for distance, y in points), head=head)

    def text(self, distance: float, y: float, text: str, kind: str, outwards: bool = True) -> None:
        """A text that begins at some distance and runs outwards or inwards."""
        if text:
            anchor = "end" if outwards == (self.direction > 0) else "start"
            self.drawing.text(self.x(distance), y, text, kind, anchor)


def _draw_attention(
    drawing: Drawing, encoder: _Side, decoder: _Side, block: int, lane: float, parts: list[Part]
) -> None:
    """Draw the lines from an encoder block to the layers of the decoder that attend to it."""
    sources = [part for _, part in encoder.stack.walk() if block in part.blocks]
    x, y = encoder.doors[sources[0] if sources else encoder.stack]
    drawing.line((x, y), (lane, y), kind="attention")
    for part in parts:
        if part.layer and part.layer["block"] == block:
            end = decoder.doors[part]
            drawing.line((lane, y), (lane, end[1]), end, kind="attention", head="accent")


def _draw_notes(drawing: Drawing, found: Outline, y: float, width: float) -> float:
    """Draw the colors' meaning and the sentences of the outline; return the end of the drawing."""
    shown = {
        kind_of(part.layer)
        for stack in (found.encoder, found.decoder)
        for _, part in stack.walk()
        if part.layer
    }
    for kind in (kind for kind in KINDS if kind in shown):
        drawing.rect(MARGIN, y - 11, 22, 14, f"box {kind}")
        drawing.text(MARGIN + 30, y, KINDS[kind])
        y += 20
    label, (parameters, products, *_) = found.total.label.capitalize(), found.total.figures
    first = f"{label}: {parameters:,} parameters, {products:,} multiply-adds."
    # A warning ends with the line of the definition, which the drawing shows anyway.
    for sentence in (first, *(text.partition("\n")[0] for text in found.sentences)):
        y += 6
        for line in wrap(sentence, int((width - 2 * MARGIN) / SMALL_CHARACTER)):
            drawing.text(MARGIN, y, line, "small")
            y += 15
    return y + MARGIN - 8
