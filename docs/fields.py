"""What a position sees, computed from gradients in small networks: the receptive fields."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from convs2s.models.pervasive.densenet import DenseNet2d
from convs2s.models.pervasive.grid import Grid
from convs2s.models.pervasive.options import PervasiveOptions
from docs.flows import MARGIN, Figure
from docs.small_models import PAIRS, batch, build

SOURCE, TARGET = (sentence.split() for sentence in PAIRS[0])
PREVIOUS = ["</s>", *TARGET[:-1]]
# Of the grid; its first features have CHANNELS channels.
LAYERS, KERNEL, GROWTH, CHANNELS = 3, 3, 4, 8
ROW, COLUMN = 5, 3
SECONDS, REPEATS = 8, 3


def seen(outputs: Tensor, inputs: Tensor) -> list[int]:
    """The positions of inputs 1 x N x C on which some numbers depend, or cells of N x C."""
    of_each = [
        torch.autograd.grad(number, inputs, retain_graph=True)[0] for number in outputs.flatten()
    ]
    strength = torch.stack(of_each).abs().sum(dim=(0, -1))
    return strength.flatten().nonzero().flatten().tolist()


class Nodes:
    """Rows of boxes with one box for each token, from below: its embedding, then each layer.

    Args:
        figure: what they are painted on.
        tokens: the tokens, which stand below the lowest row.
        bottom: y of the lowest row.
        reads: for each layer and position, the positions below that it sees.
        chosen: the position of the last layer whose receptive field is shown.
    """

    WIDTH, HEIGHT, ACROSS, UP, LEFT = 36, 22, 48, 58, 40

    def __init__(
        self,
        figure: Figure,
        tokens: Sequence[str],
        bottom: float,
        reads: list[list[list[int]]],
        chosen: int,
    ):
        self.bottom, self.chosen, columns = bottom, chosen, range(len(tokens))
        field = {chosen}
        fields = [field]
        strong = []
        for row in range(len(reads), 0, -1):
            for column in columns:
                for below in reads[row - 1][column]:
                    (x0, y0), (x, y) = self.at(row - 1, below), self.at(row, column)
                    line = (x0, y0 - self.HEIGHT / 2), (x, y + self.HEIGHT / 2)
                    if column in field:
                        strong.append(line)
                    else:
                        figure.line(*line, kind="grid")
            field = {below for column in field for below in reads[row - 1][column]}
            fields.insert(0, field)
        for line in strong:
            figure.line(*line)
        for row, field in enumerate(fields):
            for column in columns:
                x, y = self.at(row, column)
                kind = "near" if column in field else "single"
                kind = "far" if row == len(reads) and column == chosen else kind
                place = x - self.WIDTH / 2, y - self.HEIGHT / 2
                figure.rect(*place, self.WIDTH, self.HEIGHT, f"box {kind}")
            x, y = self.at(row, len(tokens))
            text = f"layer {row}" if row else "tokens"
            figure.text(x - self.WIDTH / 2, y + 4, text, "small quiet")
        for column, token in enumerate(tokens):
            figure.text(self.at(0, column)[0], bottom + 28, token, anchor="middle")

    def at(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a box."""
        x = self.LEFT + self.ACROSS * column + self.WIDTH / 2
        return x, self.bottom - self.UP * row


def convs2s() -> str:
    """ConvS2S: the receptive fields of the encoder and of the decoder."""
    network, data = build("convs2s"), batch()
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        passed[module] = inputs[0], output[0] if isinstance(output, tuple) else output

    encoder, decoder = network.encoder.blocks, network.decoder.blocks
    attention = decoder.attention.values()
    for module in (*encoder.convolutions, *decoder.convolutions, *attention):
        module.register_forward_hook(keep)
    encoded = network.encode(data.source[:1])
    network.decode(data.previous[:1], encoded)

    def reads(blocks: nn.Module) -> list[list[list[int]]]:
        pairs = (passed[module] for module in blocks.convolutions)
        return [[seen(x, inputs) for x in output.unbind(1)] for inputs, output in pairs]

    figure = Figure({})
    top = 24 + Nodes.UP * len(decoder.convolutions) + 50
    figure.text(Nodes.LEFT, 20, "decoder: a convolution sees the past", "bold")
    target = Nodes(figure, PREVIOUS, top, reads(decoder), chosen=6)
    low = top + Nodes.UP * len(encoder.convolutions) + 120
    figure.text(Nodes.LEFT, top + 66, "encoder: a convolution sees both sides", "bold")
    source = Nodes(figure, SOURCE, low, reads(encoder), chosen=3)
    (_, bus), half = source.at(len(encoder.convolutions), 0), Nodes.HEIGHT / 2
    bus -= half + 14
    for number, module in enumerate(attention):
        # Only the chosen position has its receptive field shown; all attend alike.
        for column in seen(passed[module][1][:, target.chosen], encoded["encoder_out"]):
            x, y = source.at(len(encoder.convolutions), column)
            figure.line((x, y - half), (x, bus), kind="attention")
        x, y = target.at(number + 1, 0)
        way = (source.at(0, len(SOURCE) - 1)[0], bus), (22, bus), (22, y), (x - Nodes.WIDTH / 2, y)
        figure.line(*way, kind="attention", head="accent")
    for column, token in enumerate(TARGET):
        x, y = target.at(len(decoder.convolutions), column)
        figure.line((x, y - half), (x, y - half - 16), head="head")
        figure.text(x, y - half - 21, token, anchor="middle")
    kinds = (
        ("far", "a position of the last layer"),
        ("near", "its receptive field: what it depends on"),
        ("single", "other positions; in the lowest row, embeddings"),
    )
    y = low + 58
    figure.line((MARGIN, y - 4), (MARGIN + 22, y - 4), kind="attention", head="accent")
    figure.text(MARGIN + 30, y, "attention: each decoder layer sees all outputs of the encoder")
    return figure.finish(y + 20, "ConvS2S: the receptive fields of encoder and decoder", kinds)


def pervasive() -> str:
    """Pervasive attention: the grid, with the receptive field of one cell layer by layer."""
    torch.manual_seed(1)
    options = PervasiveOptions(
        num_layers=LAYERS, growth_rate=GROWTH, kernel_size=KERNEL, no_transition=True, dropout=0.0
    )
    dense = DenseNet2d(options, CHANNELS).double().eval()
    rows, columns = len(PREVIOUS), len(SOURCE)
    chosen = ROW * columns + COLUMN
    first = torch.randn(rows * columns, CHANNELS, dtype=torch.double, requires_grad=True)
    features = dense(first, Grid(1, rows, columns))[chosen]
    # Each layer adds GROWTH channels to those before it.
    fields = [seen(new, first) for new in features[CHANNELS:].split(GROWTH)]

    figure = Figure({})
    figure.elements.append(f"<style>{animation(LAYERS)}</style>")
    left, top, width, height = 72, 58, 42, 28
    right = left + width * columns
    figure.text(left, 20, "source", "bold")
    figure.text(MARGIN, 20, "target", "bold")
    figure.text(right + 29, 20, "max", "bold", "middle")
    figure.text(right + 64, 20, "next token", "bold")

    def corner(index: int) -> tuple[float, float]:
        t, s = divmod(index, columns)
        return left + width * s, top + height * t

    def cell(index: int, kind: str) -> None:
        x, y = corner(index)
        figure.rect(x + 2, y + 2, width - 4, height - 4, f"box {kind}")

    for s, token in enumerate(SOURCE):
        figure.text(left + width * (s + 0.5), top - 10, token, anchor="middle")
    for index in range(rows * columns):
        cell(index, "single" if index // columns <= ROW else "paper")
    cell(chosen, "far")
    # Numbers do not move: whoever prints the page meanwhile sees them all.
    numbers = {chosen: 1}
    for layer, field in enumerate(fields, start=1):
        figure.elements.append(f'<g class="layer{layer}">')
        for index in sorted({*field} - {*numbers}):
            cell(index, "near")
            numbers[index] = layer
        figure.elements.append("</g>")
    for index, layer in numbers.items():
        x, y = corner(index)
        figure.text(x + width / 2, y + height / 2 + 4, str(layer), "small", "middle")
    for t, token in enumerate(PREVIOUS):
        y = top + height * (t + 0.5)
        figure.text(left - 8, y + 4, token, anchor="end")
        figure.line((right, y), (right + 14, y), kind="attention", head="accent")
        figure.rect(right + 16, y - 10, 26, 20, "box source")
        figure.line((right + 42, y), (right + 58, y), head="head")
        figure.text(right + 64, y + 4, TARGET[t])
    layers = ", ".join(str(layer + 1) for layer in range(LAYERS))
    sizes = ", ".join(str(len(field)) for field in fields)
    kinds = (
        ("far", "a cell: its source token and its previous target token"),
        ("near", f"what it depends on after layer {layers}: {sizes} cells"),
        ("single", "other cells of the same and of earlier target positions"),
        ("paper", "later target positions: no layer sees them"),
        ("source", "the maximum of each channel over a row"),
    )
    y = top + height * rows + 30
    return figure.finish(y, "Pervasive attention: the receptive field of a cell grows", kinds)


def animation(layers: int) -> str:
    """The rules that show layer after layer to readers who allow motion."""
    rules = []
    for layer in range(1, layers + 1):
        start = 80 * (layer - 1) // layers
        frames = f"0%, {start}% {{ opacity: 0; }} {start + 8}%, 97% {{ opacity: 1; }}"
        rules += [
            f"@keyframes layer{layer} {{ {frames} 100% {{ opacity: 0; }} }}",
            f".layer{layer} {{ animation: layer{layer} {SECONDS}s {REPEATS}; }}",
        ]
    inside = "\n".join(rules)
    return f"@media (prefers-reduced-motion: no-preference) {{\n{inside}\n}}"
