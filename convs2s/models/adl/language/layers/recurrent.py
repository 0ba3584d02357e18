"""Recurrent layers (Domhan 2018, section 2.3)."""

from ..arguments import Argument, Choice, LayerError, Real
from ..registry import PAST, SENTENCE, Cost, declare, register_unsupported
from ..spec import LayerSpec
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


def check_cell(spec: LayerSpec) -> None:
    if spec["forget_bias"] and not spec["cell"].endswith("lstm"):
        raise LayerError(f"a '{spec['cell']}' cell has no forget gate", "forget_bias")


def check_halves(spec: LayerSpec) -> None:
    check_cell(spec)
    if spec["d"] % 2:
        raise LayerError(
            "'birnn' has half of its channels in each direction, so their number must be even, but "
            f"it is {spec['d']}",
            "d",
        )


def cell_weights(cell: str, inputs: int, outputs: int) -> int:
    """Weights of a cell's matrices, and multiply-adds for one position."""
    return _gates(cell) * outputs * (inputs + outputs)


def cell_parameters(cell: str, inputs: int, outputs: int) -> int:
    """Parameters of a cell.

    Input and hidden state have a bias for each gate, or scale and shift in cells with layer
    normalization; the normalized cell of an LSTM also has scale and shift.
    """
    vectors = 2 * _gates(cell)
    if cell.startswith("ln"):
        vectors = 2 * vectors + (2 if cell == "lnlstm" else 0)
    return cell_weights(cell, inputs, outputs) + vectors * outputs


def _gates(cell: str) -> int:
    return 3 if cell.endswith("gru") else 4


declare(
    "rnn",
    "a recurrent network from left to right (section 2.3)",
    CELL,
    WIDTH,
    FORGET_BIAS,
    reach=PAST,
    width=given_width,
    check=check_cell,
    cost=lambda spec: Cost(cell_weights(spec["cell"], spec.input_width, spec["d"])),
    parameters=lambda spec: cell_parameters(spec["cell"], spec.input_width, spec["d"]),
    parallel=False,
)
declare(
    "birnn",
    "recurrent networks in both directions, d/2 channels each, concatenated (section 2.3); "
    "only in an encoder",
    CELL,
    WIDTH,
    FORGET_BIAS,
    reach=SENTENCE,
    width=given_width,
    check=check_halves,
    cost=lambda spec: Cost(2 * cell_weights(spec["cell"], spec.input_width, spec["d"] // 2)),
    parameters=lambda spec: 2 * cell_parameters(spec["cell"], spec.input_width, spec["d"] // 2),
    parallel=False,
)
for _cell in ("lstm", "gru"):
    for _name, _layer in ((_cell, "rnn"), (f"bi{_cell}", "birnn")):
        register_unsupported(_name, f"there is no layer '{_name}': write '{_layer}({_cell})'")
