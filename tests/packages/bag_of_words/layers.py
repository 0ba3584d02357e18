"""The layers of bag-of-words models, in plain torch."""

import torch
from torch import Tensor


def causal_mean(x: Tensor, padding_mask: Tensor, state=None) -> Tensor:
    """The mean of the embeddings up to each position, itself included.

    Args:
        x: R x T x E; with a state, the T positions that follow those seen before.
        padding_mask: R x T, True at padding, which does not count.
        state: the layer's incremental state; None outside incremental decoding.
    Returns:
        R x T x E.
    """
    real = (~padding_mask).unsqueeze(-1).to(torch.promote_types(x.dtype, torch.float32))
    total, count = (x * real).cumsum(dim=1), real.cumsum(dim=1)
    if state is not None:
        if state.rows:
            total = total + state.rows["total"].unsqueeze(1)
            count = count + state.rows["count"].unsqueeze(1)
        state.rows["total"], state.rows["count"] = total[:, -1], count[:, -1]
    return (total / count.clamp(min=1)).to(x.dtype)
