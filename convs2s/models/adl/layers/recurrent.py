"""Recurrent layers (Domhan 2018, section 2.3)."""

import torch
from torch import Tensor, nn

from ....nn.linear import to_autocast_dtype
from ....nn.state import State
from ..context import Context
from ..language.spec import LayerSpec
from .cells import build_network
from .common import implements, reverse

# Hidden states, and cells for an LSTM, as torch's networks take and return them.
HiddenState = Tensor | tuple[Tensor, Tensor]


@implements("rnn")
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


@implements("birnn")
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
