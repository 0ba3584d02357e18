"""Quasi-recurrent networks (Bradbury et al. 2017, "Quasi-recurrent neural networks")."""

import torch
from torch import Tensor, nn

from ....nn.autocast import to_autocast_dtype
from ....nn.unfold import unfold
from ..context import Context
from ..language.registry import PAST, Cost, register_layer
from ..language.spec import LayerSpec
from .activation import ACTIVATIONS, activation_argument
from .common import KERNEL, WIDTH, given_width, xavier_linear
from .recurrent import save_state


@register_layer(
    "qrnn",
    "a quasi-recurrent layer: causal convolution, then a gated sum over the past "
    "(beyond the paper)",
    WIDTH,
    KERNEL,
    activation_argument("tanh", "non-linearity of the candidate", without=("glu",)),
    reach=PAST,
    width=given_width,
    cost=lambda spec: Cost(spec["k"] * spec.input_width * 2 * spec["d"]),
    parallel=False,
)
class QuasiRecurrentLayer(nn.Module):
    """``qrnn``: c_t = f_t c_(t-1) + (1 - f_t) z_t, z and f from a causal convolution.

    This is the f-pooling of Bradbury et al. (2017), section 2.1.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.kernel_size = spec["k"]
        self.linear = xavier_linear(
            self.kernel_size * spec.input_width,
            2 * spec.width,
            parts=2,
            kernel_size=self.kernel_size,
        )
        self.activation = ACTIVATIONS[spec["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        state, mask = context.layer_state(self), context.padding_mask
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        inputs = unfold(to_autocast_dtype(x), self.kernel_size, causal=True, state=state)
        candidate, forget = self.linear(inputs).chunk(2, dim=-1)
        forget = forget.sigmoid()
        update = (1.0 - forget) * self.activation(candidate)
        cell = update.new_zeros(update[:, 0].shape)
        if state is not None:
            cell = state.rows.get("hidden", cell)
        outputs = []
        for forget_t, update_t in zip(forget.unbind(1), update.unbind(1)):
            cell = forget_t * cell + update_t
            outputs.append(cell)
        if state is not None:
            save_state(state, cell.unsqueeze(0), mask)
        return torch.stack(outputs, dim=1)
