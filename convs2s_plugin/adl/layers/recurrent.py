"""Recurrent layers (Domhan 2018, section 2.3), and quasi-recurrent ones."""

import torch
from torch import Tensor, nn

from ...decoding.state import State
from ...nn.autocast import to_autocast_dtype
from ...nn.unfold import unfold
from ..context import Context
from ..language.spec import LayerSpec
from .cells import NormalizedGru, NormalizedLstm
from .pointwise import ACTIVATIONS, linear

States = Tensor | tuple[Tensor, Tensor] | None


def network(cell: str, inputs: int, outputs: int, forget_bias: float) -> nn.Module:
    """A recurrent network of one layer.

    Input weights are initialised as in Glorot and Bengio (2010), recurrent ones orthogonally, each
    gate for itself, biases with zero.

    Args:
        cell: lstm, gru, lnlstm or lngru.
        inputs, outputs: channels.
        forget_bias: first value of the forget gate's bias.
    """
    if cell == "lnlstm":
        return NormalizedLstm(inputs, outputs, forget_bias)
    if cell == "lngru":
        return NormalizedGru(inputs, outputs)
    module = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](inputs, outputs, batch_first=True)
    gates = 4 if cell == "lstm" else 3
    with torch.no_grad():
        for part in module.weight_ih_l0.chunk(gates):
            nn.init.xavier_uniform_(part)
        for part in module.weight_hh_l0.chunk(gates):
            nn.init.orthogonal_(part)
        module.bias_ih_l0.zero_()
        module.bias_hh_l0.zero_()
        if cell == "lstm":
            # torch's order of gates is input, forget, cell, output.
            module.bias_ih_l0[outputs : 2 * outputs] = forget_bias
    return module


class Recurrent(nn.Module):
    """``rnn``: from left to right."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.network = network(layer["cell"], layer.input_width, layer.width, layer["forget_bias"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x C'."""
        memory = context.layer_state(self)
        before = None if memory is None else recall(memory)
        outputs, after = self.network(to_autocast_dtype(x), before)
        if memory is not None:
            keep(memory, after, context.padding_mask)
        return outputs


def recall(memory: State) -> States:
    """The state that a step begins with, as torch's networks take it; None at first."""
    if "hidden" not in memory.rows:
        return None
    hidden = memory.rows["hidden"].unsqueeze(0)
    return (hidden, memory.rows["cell"].unsqueeze(0)) if "cell" in memory.rows else hidden


def keep(memory: State, after: States, padding_mask: Tensor | None) -> None:
    """Remember the state that a step ends with, in rows where it was not one of padding.

    Args:
        memory: of the layer.
        after: 1 x R x C', or a pair of them.
        padding_mask: R x 1, or None.
    """
    pair = after if isinstance(after, tuple) else (after,)
    for name, new in zip(("hidden", "cell"), pair):
        new = new.squeeze(0)
        if padding_mask is not None:
            new = new.masked_fill(padding_mask, 0.0)
            if name in memory.rows:
                new = torch.where(padding_mask, memory.rows[name], new)
        memory.rows[name] = new


class BidirectionalRecurrent(nn.Module):
    """``birnn``: one network from each end of the sentence, half the channels each."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        given = (layer["cell"], layer.input_width, layer.width // 2, layer["forget_bias"])
        self.forwards, self.backwards = network(*given), network(*given)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x S x C to B x S x C'; padding is to the right."""
        x, mask = to_autocast_dtype(x), context.padding_mask
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(turned(x, mask))
        return torch.cat([ahead, turned(back, mask)], dim=-1)


def turned(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Sentences from their last word to their first, with padding where it was.

    Args:
        x: B x S x C.
        padding_mask: B x S, True at padding to the right of the words, or None.
    """
    if padding_mask is None:
        return x.flip(1)
    places = torch.arange(x.size(1), device=x.device)
    last = (~padding_mask).sum(dim=1, keepdim=True) - 1
    order = torch.where(padding_mask, places, last - places)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


class QuasiRecurrent(nn.Module):
    """``qrnn``: c_t = f_t c_(t-1) + (1 - f_t) z_t, z and f from a causal convolution.

    Bradbury et al. (2017), "Quasi-recurrent neural networks", with their f-pooling.
    """

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.kernel_size = layer["k"]
        self.linear = linear(
            self.kernel_size * layer.input_width,
            2 * layer.width,
            parts=2,
            kernel_size=self.kernel_size,
        )
        self.activation = ACTIVATIONS[layer["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x C'."""
        memory, mask = context.layer_state(self), context.padding_mask
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        seen = unfold(to_autocast_dtype(x), self.kernel_size, causal=True, state=memory)
        candidate, forget = self.linear(seen).chunk(2, dim=-1)
        forget = forget.sigmoid()
        new = (1.0 - forget) * self.activation(candidate)
        cell = new.new_zeros(new[:, 0].shape)
        if memory is not None:
            cell = memory.rows.get("hidden", cell)
        outputs = []
        for kept, added in zip(forget.unbind(1), new.unbind(1)):
            cell = kept * cell + added
            outputs.append(cell)
        if memory is not None:
            keep(memory, cell.unsqueeze(0), mask)
        return torch.stack(outputs, dim=1)
