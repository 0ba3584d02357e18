"""One step of beam search: what a recorded step of each family computes, and what it keeps."""

from collections.abc import Sequence

from convs2s.models.adl.language.spec import LayerSpec
from convs2s.models.adl.language.writer import label
from convs2s.pictures.model import kind_of
from docs.flows import BOX, INSET, RIGHT, Figure, Flow
from docs.recorded import BEAM, Call, Step, step

# Edges of what is kept, and the way of the new order.
LEFT, LANE = (32, 252), 20
CARD = 50


class Cards:
    """A step on the right; on the left cards for what it keeps, beside the box that needs it.

    Args:
        run: the step.
        parts: as for ``Figure``.
    """

    def __init__(self, run: Step, **parts: int):
        self.run, self.figure = run, Figure(run.sizes, b=BEAM, **parts)
        self.flow = Flow(self.figure, RIGHT, 10)
        # y of the cards that the new order changes.
        self.reordered: list[float] = []
        self.figure.text(LEFT[0], 22, "kept between steps", "bold")
        self.flow.start("tokens of each hypothesis", self.call("prefix").shape)
        self.box("decoder.embed", "embed the last token", "single")

    def call(self, path: str) -> Call:
        """The first call of a path."""
        return next(call for call in self.run.calls if call.path == path)

    def box(self, path: str, text: str, kind: str, *names: str) -> float:
        """A box for a call, and a card for what it needs; returns y of its middle.

        Args:
            path: of the call.
            text, kind: as for ``Flow.box``.
            names: what is kept, tensors of one shape; none for no card.
        """
        y = self.flow.box(self.call(path), text, kind)
        if names:
            self.card(names, y, y)
        return y

    def card(self, names: tuple[str, ...], y: float, end: float) -> None:
        """A card at some height, and an arrow to the box that needs it.

        Args:
            names: what is kept.
            y: of the middle of the card.
            end: y of the end of the arrow.
        """
        kept = {one.path: one for one in self.run.kept}
        first, *others = (kept[name] for name in names)
        assert all(one[1:] == first[1:] for one in others), f"{names} differ"
        (left, right), top = LEFT, y - CARD / 2
        kind = "moved" if first.is_reordered else "paper"
        self.figure.rect(left, top, right - left, CARD, f"box {kind}")
        self.figure.text(left + INSET, top + 15, ", ".join(n.rpartition(".")[2] for n in names))
        self.figure.shape(left + INSET, top + 30, first.shape, below=True)
        middle = (right + self.flow.left) / 2
        way = (middle, y), (middle, end)
        self.figure.line(*way, (self.flow.left, end), head="head")
        self.figure.line(*way[::-1], (right, y), head="head" if first.is_written else "")
        if first.is_reordered:
            self.reordered.append(y)

    def finish(self, title: str) -> str:
        """The boxes at the end, and the new order of the hypotheses."""
        flow, figure = self.flow, self.figure
        self.box("decoder.output", "output layer", "single")
        self.box("order", "best continuations", "single")
        flow.arrow()
        figure.rect(LEFT[0], flow.y, RIGHT[1] - LEFT[0], BOX, "box moved")
        figure.text(LEFT[0] + INSET, flow.y + 15, "State.reorder_(order)")
        figure.text(LEFT[0] + INSET, flow.y + 29, "nn/state.py", "small quiet")
        start = flow.y + BOX / 2
        for y in self.reordered:
            way = (LEFT[0], start), (LANE, start), (LANE, y), (LEFT[0], y)
            figure.line(*way, head="head")
        kinds = (
            ("moved", "a row for each hypothesis: reordered between steps"),
            ("paper", "a row for each sentence, shared by its hypotheses: stays in place"),
        )
        return figure.finish(flow.y + BOX + 30, title, kinds)


def convs2s() -> str:
    """ConvS2S: one step."""
    run = step("convs2s")
    convolutions = run.network.decoder.blocks.convolutions
    cards = Cards(run, k=convolutions[0].kernel_size)
    cards.box("decoder.input", "linear map", "single")
    for number in range(len(convolutions)):
        inputs = f"blocks.convolution{number}.inputs"
        path = f"decoder.blocks.convolutions.{number}"
        cards.box(path, "causal convolution, GLU", "near", inputs)
        path = f"decoder.blocks.attention.{number}"
        cards.box(path, "attention", "source", "encoder_out", "encoder_values")
    cards.box("decoder.features", "linear map", "single")
    return cards.finish("ConvS2S: one step of beam search")


def pervasive() -> str:
    """Pervasive attention: one step."""
    run = step("pervasive")
    network = run.network.decoder.network
    cards = Cards(run, P=network.dense.options.target_kernel_size)
    cards.box("decoder.network.target", "target half of the 1 × 1", "single")
    cards.box("pack", "add: one row of the grid", "single", "encoder_out")
    sums = "network.dense.partial_sums"
    cards.box("decoder.network.dense", "DenseNet", "near", sums)
    cards.box("decoder.network.aggregator", "maximum over the source", "source")
    cards.box("decoder.network.output", "linear map", "single")
    return cards.finish("Pervasive attention: one step of beam search")


def adl() -> str:
    """A model in ADL: one step."""
    run = step("adl")
    # Those of the definition: dropout does nothing here.
    (cnn,) = (layer for layer in run.network.spec.decoder.walk() if layer.name == "cnn")
    cards = Cards(run, k=cnn["k"])
    layers(cards, run.network.spec.decoder.layers, "layers")
    return cards.finish("A model in ADL: one step of beam search")


def layers(cards: Cards, specs: Sequence[LayerSpec], path: str) -> None:
    """The layers of a chain, with what each keeps."""
    above = 0.0
    for number, spec in enumerate(specs):
        of_layer = f"{path}.{number}"
        if spec.chains:
            layers(cards, spec.chains[0], f"{of_layer}.chain")
        elif spec.name != "dropout":
            kept = [one.path for one in cards.run.kept if one.path.startswith(f"{of_layer}.")]
            y = cards.box(f"decoder.{of_layer}", label(spec), kind_of(spec), *kept)
            if spec.name == "mh_dot_self_att":
                cards.card(("backpointers",), above, y - 9)
            above = y
