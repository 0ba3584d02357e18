"""From tokens to loss: the calls of a recorded training pass of each family."""

from collections.abc import Sequence
from textwrap import wrap

from convs2s.models.adl.language.spec import LayerSpec
from convs2s.models.adl.language.writer import label
from convs2s.pictures.model import kind_of
from docs.flows import INSET, LEFT, MARGIN, RIGHT, Figure, Flow
from docs.recorded import Training, training
from docs.small_models import DECODER, ENCODER

LANE = (LEFT[1] + RIGHT[0]) / 2
CENTER = (66, 462)
EMBEDDING = "token + position embedding"


class Sides:
    """A figure with the encoder on the left and the decoder on the right.

    Args:
        run: the training pass.
        top: y of the upper edge of both.
        parts: as for ``Figure``.
    """

    def __init__(self, run: Training, top: float, **parts: int):
        self.run, self.figure = run, Figure(run.sizes, **parts)
        self.encoder, self.decoder = (Flow(self.figure, edges, top) for edges in (LEFT, RIGHT))
        self.encoder.start("source tokens", tuple(run.batch.source.shape))
        self.decoder.start("previous target tokens", tuple(run.batch.previous.shape))
        # The last call that was drawn.
        self.number = -1

    def box(self, flow: Flow, path: str, text: str, kind: str, style: str = "") -> float:
        """A box for the next call of a path; returns y of its middle."""
        calls = [call.path for call in self.run.calls]
        # A call that is not among those that follow is drawn in the wrong order.
        self.number = calls.index(path, self.number + 1)
        return flow.box(self.run.calls[self.number], text, kind, style)

    def loss(self, flow: Flow) -> None:
        """The boxes at the end."""
        self.box(flow, "inputs", "omit padding", "single")
        self.box(flow, "loss", "output layer, cross-entropy", "single")
        flow.arrow()
        flow.y += 16
        self.figure.text(flow.x, flow.y - 4, "loss", "bold", "middle")


def convs2s() -> str:
    """ConvS2S: from tokens to loss."""
    run = training("convs2s")
    sides = Sides(run, 10)
    figure, encoder, decoder = sides.figure, sides.encoder, sides.decoder
    sides.box(encoder, "encoder.embed", EMBEDDING, "single")
    sides.box(encoder, "encoder.input", "linear map", "single")
    for number in range(len(run.network.encoder.blocks.convolutions)):
        encoder.open(f"layer {number + 1}")
        text = "centered convolution, GLU"
        sides.box(encoder, f"encoder.blocks.convolutions.{number}", text, "near")
        encoder.close("+")
    sides.box(encoder, "encoder.output", "linear map", "single")
    encoder.arrow()
    top = encoder.y
    figure.rect(LEFT[0], top, LEFT[1] - LEFT[0], 82, "box source")
    for line, (text, name) in enumerate(
        (("keys", "encoder_out"), ("values: keys + embedding", "encoder_values"))
    ):
        figure.text(LEFT[0] + INSET, top + 16 + 38 * line, text)
        figure.shape(LEFT[0] + INSET, top + 32 + 38 * line, run.encoded[name])
    sides.box(decoder, "decoder.embed", EMBEDDING, "single")
    sides.box(decoder, "decoder.input", "linear map", "single")
    blocks = run.network.decoder.blocks
    for number in range(len(blocks.convolutions)):
        decoder.open(f"layer {number + 1}")
        text = "causal convolution, GLU"
        sides.box(decoder, f"decoder.blocks.convolutions.{number}", text, "near")
        y = sides.box(decoder, f"decoder.blocks.attention.{number}", "attention", "source")
        attend(figure, (LEFT[1], top + 41), (decoder.left, y))
        decoder.close("+")
    sides.box(decoder, "decoder.features", "linear map", "single")
    sides.loss(decoder)
    kinds = (
        ("single", "sees one position"),
        ("near", f"sees k = {blocks.convolutions[0].kernel_size} positions"),
        ("source", "what the decoder attends to, and where it does"),
    )
    return figure.finish(decoder.y + 30, "ConvS2S: from tokens to loss", kinds)


def attend(figure: Figure, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A line from the source to a layer that attends to it."""
    way = start, (LANE, start[1]), (LANE, end[1]), end
    figure.line(*way, kind="attention", head="accent")


def pervasive() -> str:
    """Pervasive attention: from tokens to loss."""
    run = training("pervasive")
    dense = run.network.decoder.network.dense
    width, height = dense.options.kernel_size, dense.options.target_kernel_size
    sides = Sides(run, 10, P=height)
    figure, encoder, decoder = sides.figure, sides.encoder, sides.decoder
    sides.box(encoder, "encoder.embed", "token embedding", "single")
    sides.box(encoder, "encoder.share", "source half of the 1 × 1", "single")
    sides.box(decoder, "decoder.embed", "token embedding", "single")
    sides.box(decoder, "decoder.network.target", "target half of the 1 × 1", "single")
    for side in (encoder, decoder):
        figure.shape(side.x + 10, side.y + 17, side.shape)
    flow = Flow(figure, CENTER, encoder.y + 36)
    for side, lane in ((encoder, flow.x - 8), (decoder, flow.x + 8)):
        way = (side.x, side.y), (side.x, flow.y), (lane, flow.y)
        figure.line(*way, head="head")
    figure.circle(flow.x, flow.y, 8, "box paper")
    figure.text(flow.x, flow.y + 4, "+", anchor="middle")
    flow.y += 8
    sides.box(flow, "pack", "list the cells of the grid that are not padding", "single")
    flow.open(f"layer 1 of {dense.options.num_layers}: adds g channels")
    sides.box(flow, "read", "batch normalization, ReLU, 1 × 1 convolution", "single")
    sides.box(flow, "causal_conv2d", "the same, with a masked k × k convolution", "near")
    sides.box(flow, "pack", "list the cells again", "single")
    flow.close("&")
    # After the last layer.
    flow.shape = (*flow.shape[:-1], dense.channels)
    sides.box(
        flow, "decoder.network.dense", "the same, with a 1 × 1 that halves the channels", "single"
    )
    sides.box(flow, "decoder.network.aggregator", "maximum over the source positions", "source")
    sides.box(flow, "decoder.network.output", "linear map", "single")
    sides.loss(flow)
    kinds = (
        ("single", "sees one cell, or one position"),
        ("near", f"sees {width} source and {height} target positions, none of them later"),
        ("source", "reduces a row of the grid to a vector"),
    )
    return figure.finish(flow.y + 30, "Pervasive attention: from tokens to loss", kinds)


def adl() -> str:
    """A model in ADL: from tokens to loss, beside its definition."""
    run = training("adl")
    sides = Sides(run, 74)
    figure, encoder, decoder = sides.figure, sides.encoder, sides.decoder
    spec = run.network.spec
    lines = wrap(DECODER, 60, break_on_hyphens=False)
    for number, line in enumerate([ENCODER, *lines]):
        figure.text(MARGIN + 70, 20 + 17 * number, line)
    for number, side in enumerate(("encoder", "decoder")):
        figure.text(MARGIN, 20 + 17 * number, side, "bold")
    sides.box(encoder, "encoder.embed", "token embedding", "single")
    layers(sides, encoder, spec.encoder.layers, "encoder.layers", ENCODER.split(" -> "))
    encoder.arrow()
    top = encoder.y
    figure.rect(LEFT[0], top, LEFT[1] - LEFT[0], 44, "box source")
    figure.text(LEFT[0] + INSET, top + 16, "encoder output")
    figure.shape(LEFT[0] + INSET, top + 34, run.encoded["encoder_out"])
    sides.box(decoder, "decoder.embed", "token embedding", "single")
    for y in layers(sides, decoder, spec.decoder.layers, "decoder.layers", DECODER.split(" -> ")):
        attend(figure, (LEFT[1], top + 22), (RIGHT[0] + 22, y))
    sides.loss(decoder)
    kinds = (
        ("single", "sees one position"),
        ("near", "sees neighbors"),
        ("far", "sees all positions, or all earlier ones"),
        ("source", "what the decoder attends to, and where it does"),
    )
    return figure.finish(decoder.y + 30, "A model in ADL: from tokens to loss", kinds)


def layers(
    sides: Sides, flow: Flow, specs: Sequence[LayerSpec], path: str, texts: Sequence[str] = ()
) -> list[float]:
    """The layers of a chain.

    Args:
        sides: the figure.
        flow: the side.
        specs: the layers.
        path: of their modules.
        texts: each as it stands in the definition; none inside a layer.
    Returns:
        y of those that attend to the source.
    """
    attending = []
    for number, spec in enumerate(specs):
        of_layer = f"{path}.{number}"
        if spec.chains:
            flow.open(texts[number])
            attending += layers(sides, flow, spec.chains[0], f"{of_layer}.chain")
            flow.close("+")
        else:
            y = sides.box(flow, of_layer, label(spec), kind_of(spec), "bold" if texts else "")
            attending += [y] if kind_of(spec) == "source" else []
    return attending
