"""Recurrent networks with layer normalization inside (Ba et al. 2016, section 3.1)."""

import torch
from torch import Tensor, nn

from ...nn.linear import Linear
from .pointwise import layer_norm, linear


class _Normalized(nn.Module):
    """What both have: projections without biases, each normalized over all gates together."""

    def __init__(self, inputs: int, outputs: int, gates: int):
        super().__init__()
        self.input = linear(inputs, gates * outputs, bias=False, parts=gates)
        self.recurrent = Linear(outputs, gates * outputs, bias=False)
        for part in self.recurrent.weight.detach().chunk(gates):
            nn.init.orthogonal_(part)
        self.input_norm = layer_norm(gates * outputs)
        self.recurrent_norm = layer_norm(gates * outputs)

    def initial(self, x: Tensor) -> Tensor:
        """Zeros, B x C'."""
        return x.new_zeros(len(x), self.recurrent.in_features)

    def projected(self, x: Tensor) -> tuple[Tensor, ...]:
        """What comes from the input at each position, in the precision of normalization."""
        return self.input_norm(self.input(x)).unbind(dim=1)

    def recurred(self, hidden: Tensor) -> Tensor:
        """What comes from the last state."""
        return self.recurrent_norm(self.recurrent(hidden))


class NormalizedLstm(_Normalized):
    """An LSTM whose gates and cell are normalized; called as ``nn.LSTM(batch_first=True)``.

    Args:
        inputs, outputs: channels C and C'.
        forget_bias: first value of the forget gate's bias.
    """

    def __init__(self, inputs: int, outputs: int, forget_bias: float):
        super().__init__(inputs, outputs, gates=4)
        self.cell_norm = layer_norm(outputs)
        with torch.no_grad():
            self.input_norm.bias[outputs : 2 * outputs] = forget_bias

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """B x T x C and states of 1 x B x C' to B x T x C' and states."""
        hidden, cell = (part.squeeze(0) for part in state) if state else [self.initial(x)] * 2
        outputs = []
        for projected in self.projected(x):
            gates = (projected + self.recurred(hidden)).chunk(4, dim=-1)
            entered, kept, shown = (gates[i].sigmoid() for i in (0, 1, 3))
            cell = kept * cell + entered * gates[2].tanh()
            hidden = shown * self.cell_norm(cell).tanh()
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), (hidden.unsqueeze(0), cell.unsqueeze(0))


class NormalizedGru(_Normalized):
    """A GRU whose gates are normalized; called as ``nn.GRU(batch_first=True)``.

    Args:
        inputs, outputs: channels C and C'.
    """

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, gates=3)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """B x T x C and a state of 1 x B x C' to B x T x C' and a state."""
        hidden = self.initial(x) if state is None else state.squeeze(0)
        outputs = []
        for projected in self.projected(x):
            reset_in, update_in, new_in = projected.chunk(3, dim=-1)
            reset, update, new = self.recurred(hidden).chunk(3, dim=-1)
            update = (update_in + update).sigmoid()
            new = (new_in + (reset_in + reset).sigmoid() * new).tanh()
            hidden = torch.lerp(new, hidden, update)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), hidden.unsqueeze(0)
