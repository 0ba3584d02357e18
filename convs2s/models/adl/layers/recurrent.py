"""Recurrent layers (Domhan 2018, section 2.3)."""

import torch
from torch import Tensor, nn

from ....nn.autocast import to_autocast_dtype
from ....nn.state import State
from ..context import Context
from ..language.arguments import Argument, Choice, LayerError, Real
from ..language.registry import PAST, SENTENCE, Cost, register_layer
from ..language.spec import LayerSpec
from .cells import NormalizedGru, NormalizedLstm
from .common import WIDTH, given_width

CELL = Argument(
    "cell",
    Choice(("lstm", "gru", "lnlstm", "lngru")),
    "lstm",
    "lnlstm, lngru: with layer normalization inside",
)
FORGET_BIAS = Argument(
    "forget_bias", Real(-100, 100), 0.0, "initial bias of the forget gate (lstm cells)"
)

# Hidden states, and cells in case of an LSTM, as torch's networks take and return them.
HiddenState = Tensor | tuple[Tensor, Tensor]


def check_cell(spec: LayerSpec) -> None:
    if spec["forget_bias"] and not spec["cell"].endswith("lstm"):
        raise LayerError(f"a '{spec['cell']}' cell has no forget gate", "forget_bias")


def check_halves(spec: LayerSpec) -> None:
    check_cell(spec)
    if spec["d"] % 2:
        raise LayerError(
            "'birnn' has half of its channels in each direction, so that their number must be "
            f"even, but it is {spec['d']}",
            "d",
        )


def cell_cost(cell: str, inputs: int, outputs: int) -> int:
    """Multiply-adds of a cell for one position."""
    gates = 3 if cell.endswith("gru") else 4
    return gates * outputs * (inputs + outputs)


def build_network(cell: str, inputs: int, outputs: int, forget_bias: float) -> nn.Module:
    """A recurrent network of one layer.

    Input weights are initialized as in Glorot and Bengio (2010), recurrent weights orthogonally,
    each gate by itself. Biases are zero.

    Args:
        cell: lstm, gru, lnlstm or lngru.
        inputs: channels C of the input.
        outputs: channels C' of the output.
        forget_bias: the initial bias of the forget gate.
    """
    if cell == "lnlstm":
        return NormalizedLstm(inputs, outputs, forget_bias)
    if cell == "lngru":
        return NormalizedGru(inputs, outputs)
    module = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](inputs, outputs, batch_first=True)
    gates = 4 if cell == "lstm" else 3
    with torch.no_grad():
        for weight in module.weight_ih_l0.chunk(gates):
            nn.init.xavier_uniform_(weight)
        for weight in module.weight_hh_l0.chunk(gates):
            nn.init.orthogonal_(weight)
        module.bias_ih_l0.zero_()
        module.bias_hh_l0.zero_()
        if cell == "lstm":
            # Torch's order of gates is input, forget, cell, output.
            module.bias_ih_l0[outputs : 2 * outputs] = forget_bias
    return module


@register_layer(
    "rnn",
    "a recurrent network from left to right (section 2.3)",
    CELL,
    WIDTH,
    FORGET_BIAS,
    reach=PAST,
    width=given_width,
    check=check_cell,
    cost=lambda spec: Cost(cell_cost(spec["cell"], spec.input_width, spec["d"])),
    parallel=False,
)
class RecurrentLayer(nn.Module):
    """``rnn``: a network from left to right."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.network = build_network(
            spec["cell"], spec.input_width, spec.width, spec["forget_bias"]
        )

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        state = context.layer_state(self)
        before = None if state is None else load_state(state)
        outputs, after = self.network(to_autocast_dtype(x), before)
        if state is not None:
            save_state(state, after, context.padding_mask)
        return outputs


def load_state(state: State) -> HiddenState | None:
    """The hidden state before a step, as torch's networks take it; None before the first."""
    if "hidden" not in state.rows:
        return None
    hidden = state.rows["hidden"].unsqueeze(0)
    return (hidden, state.rows["cell"].unsqueeze(0)) if "cell" in state.rows else hidden


def save_state(state: State, after: HiddenState, padding_mask: Tensor | None) -> None:
    """Keep the hidden state after a step; hypotheses at padding keep their previous one.

    Args:
        state: the incremental state of the layer.
        after: 1 x R x C', or a pair of them for an LSTM.
        padding_mask: R x 1, True at padding; None if there is none.
    """
    pair = after if isinstance(after, tuple) else (after,)
    for name, new in zip(("hidden", "cell"), pair):
        new = new.squeeze(0)
        if padding_mask is not None:
            new = new.masked_fill(padding_mask, 0.0)
            if name in state.rows:
                new = torch.where(padding_mask, state.rows[name], new)
        state.rows[name] = new


@register_layer(
    "birnn",
    "recurrent networks in both directions, d/2 channels each, concatenated (section 2.3); only "
    "in an encoder",
    CELL,
    WIDTH,
    FORGET_BIAS,
    reach=SENTENCE,
    width=given_width,
    check=check_halves,
    cost=lambda spec: Cost(2 * cell_cost(spec["cell"], spec.input_width, spec["d"] // 2)),
    parallel=False,
)
class BidirectionalRecurrentLayer(nn.Module):
    """``birnn``: one network from each end of the sentence, with half of the channels each."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        given = (spec["cell"], spec.input_width, spec.width // 2, spec["forget_bias"])
        self.forwards, self.backwards = build_network(*given), build_network(*given)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x S x C to B x S x C'; padding is on the right."""
        x, mask = to_autocast_dtype(x), context.padding_mask
        forwards, _ = self.forwards(x)
        backwards, _ = self.backwards(reverse(x, mask))
        return torch.cat([forwards, reverse(backwards, mask)], dim=-1)


def reverse(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Reverse the tokens of each sentence; padding stays in its place.

    Args:
        x: B x S x C.
        padding_mask: B x S, True at padding on the right; None if there is none.
    """
    if padding_mask is None:
        return x.flip(1)
    positions = torch.arange(x.size(1), device=x.device)
    last = (~padding_mask).sum(dim=1, keepdim=True) - 1
    order = torch.where(padding_mask, positions, last - positions)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))
