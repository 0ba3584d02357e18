"""Recurrent networks, with or without layer normalization inside (Ba et al. 2016, section 3.1)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.linear import Linear
from ....nn.scan import loop
from .common import layer_norm, xavier_linear


class _NormalizedNetwork(nn.Module):
    """Projections without biases, each normalized over all gates together.

    Args:
        inputs: channels C of the input.
        outputs: channels C' of the output.
        gates: the number of gates.
    """

    def __init__(self, inputs: int, outputs: int, gates: int):
        super().__init__()
        self.input = xavier_linear(inputs, gates * outputs, bias=False, parts=gates)
        self.recurrent = Linear(outputs, gates * outputs, bias=False)
        for weight in self.recurrent.weight.detach().chunk(gates):
            nn.init.orthogonal_(weight)
        self.input_norm = layer_norm(gates * outputs)
        self.recurrent_norm = layer_norm(gates * outputs)

    def initial_state(self, x: Tensor) -> Tensor:
        """Zeros, B x C'."""
        return x.new_zeros(x.size(0), self.recurrent.in_features)

    def input_proj(self, x: Tensor) -> Tensor:
        """The normalized projection of the input at each position, T x B x gC'."""
        return self.input_norm(self.input(x)).transpose(0, 1)

    def recurrent_proj(self, hidden: Tensor) -> Tensor:
        """The normalized projection of the hidden state, B x gC'."""
        return self.recurrent_norm(self.recurrent(hidden))


class NormalizedLstm(_NormalizedNetwork):
    """An LSTM with normalized gates and cell; called as ``nn.LSTM(batch_first=True)`` is.

    Args:
        inputs: channels C of the input.
        outputs: channels C' of the output.
        forget_bias: the initial bias of the forget gate.
    """

    def __init__(self, inputs: int, outputs: int, forget_bias: float):
        super().__init__(inputs, outputs, gates=4)
        self.cell_norm = layer_norm(outputs)
        with torch.no_grad():
            self.input_norm.bias[outputs : 2 * outputs] = forget_bias

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Map B x T x C and a pair of 1 x B x C' to B x T x C' and a pair of 1 x B x C'."""

        def step(
            before: tuple[Tensor, Tensor], projected: Tensor
        ) -> tuple[tuple[Tensor, Tensor], Tensor]:
            hidden, cell = before
            gates = (projected + self.recurrent_proj(hidden)).chunk(4, dim=-1)
            input_gate, forget_gate, output_gate = (gates[i].sigmoid() for i in (0, 1, 3))
            cell = forget_gate * cell + input_gate * gates[2].tanh()
            hidden = output_gate * self.cell_norm(cell).tanh()
            return (hidden, cell), hidden

        zeros = self.initial_state(x)
        before = (state[0].squeeze(0), state[1].squeeze(0)) if state else (zeros, zeros.clone())
        (hidden, cell), outputs = loop(step, before, self.input_proj(x))
        return outputs, (hidden.unsqueeze(0), cell.unsqueeze(0))


class NormalizedGru(_NormalizedNetwork):
    """A GRU with normalized gates; called as ``nn.GRU(batch_first=True)`` is.

    Args:
        inputs: channels C of the input.
        outputs: channels C' of the output.
    """

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, gates=3)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map B x T x C and 1 x B x C' to B x T x C' and 1 x B x C'."""

        def step(hidden: Tensor, projected: Tensor) -> tuple[Tensor, Tensor]:
            reset_in, update_in, new_in = projected.chunk(3, dim=-1)
            reset, update, new = self.recurrent_proj(hidden).chunk(3, dim=-1)
            update = (update_in + update).sigmoid()
            new = (new_in + (reset_in + reset).sigmoid() * new).tanh()
            hidden = torch.lerp(new, hidden, update)
            return hidden, hidden

        before = self.initial_state(x) if state is None else state.squeeze(0)
        hidden, outputs = loop(step, before, self.input_proj(x))
        return outputs, hidden.unsqueeze(0)


def _weights(network: nn.RNNBase) -> list[Tensor]:
    """Weights of the input and of the hidden state, then their biases."""
    return [getattr(network, name) for name in network._flat_weights_names]


class Lstm(nn.LSTM):
    """``nn.LSTM`` of one layer, which also works in a graph for any number of positions."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Map B x T x C and a pair of 1 x B x C' to B x T x C' and a pair of 1 x B x C'."""
        if not isinstance(input.size(1), torch.SymInt):
            return super().forward(input, hx)
        input_weight, weight, input_bias, bias = _weights(self)

        def step(
            before: tuple[Tensor, Tensor], projected: Tensor
        ) -> tuple[tuple[Tensor, Tensor], Tensor]:
            hidden, cell = before
            gates = (projected + F.linear(hidden, weight, bias)).chunk(4, dim=-1)
            input_gate, forget_gate, output_gate = (gates[i].sigmoid() for i in (0, 1, 3))
            cell = forget_gate * cell + input_gate * gates[2].tanh()
            hidden = output_gate * cell.tanh()
            return (hidden, cell), hidden

        projected = F.linear(input, input_weight, input_bias).transpose(0, 1)
        zeros = input.new_zeros(input.size(0), self.hidden_size)
        (hidden, cell), outputs = loop(step, (zeros, zeros.clone()), projected)
        return outputs, (hidden.unsqueeze(0), cell.unsqueeze(0))


class Gru(nn.GRU):
    """``nn.GRU`` of one layer, which also works in a graph for any number of positions."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Map B x T x C and 1 x B x C' to B x T x C' and 1 x B x C'."""
        if not isinstance(input.size(1), torch.SymInt):
            return super().forward(input, hx)
        input_weight, weight, input_bias, bias = _weights(self)

        def step(hidden: Tensor, projected: Tensor) -> tuple[Tensor, Tensor]:
            reset_in, update_in, new_in = projected.chunk(3, dim=-1)
            reset, update, new = F.linear(hidden, weight, bias).chunk(3, dim=-1)
            update = (update_in + update).sigmoid()
            new = (new_in + (reset_in + reset).sigmoid() * new).tanh()
            hidden = torch.lerp(new, hidden, update)
            return hidden, hidden

        projected = F.linear(input, input_weight, input_bias).transpose(0, 1)
        before = input.new_zeros(input.size(0), self.hidden_size)
        hidden, outputs = loop(step, before, projected)
        return outputs, hidden.unsqueeze(0)


def build_network(cell: str, inputs: int, outputs: int, forget_bias: float) -> nn.Module:
    """A recurrent network of one layer.

    Input weights are initialized as in Glorot and Bengio (2010), recurrent weights orthogonally,
    each gate separately. Biases are zero.

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
    module = {"lstm": Lstm, "gru": Gru}[cell](inputs, outputs, batch_first=True)
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
