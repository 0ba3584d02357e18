"""Steps of linear attention in a beam search, without a state for each hypothesis at first.

A state has E F numbers for each head, which a step reads and writes, and which are copied when
hypotheses change places. Keys and values of a few positions have fewer: those of the last positions
stay in a cache that all hypotheses of a sentence share, as in attention. When it is full, each
hypothesis adds them to a state, and the cache is empty again.

Decays are those of hypotheses. Where they are one number for each head, each hypothesis has a
weight for each position; where they differ by channel, it has its own keys.
"""

import torch
from torch import Tensor

from .state import State

# Most positions in the cache, with decays for each head and for each channel. Reading keys and
# values of this many positions takes about as long as reading a state and copying it for the next
# step.
RECENT, RECENT_OF_CHANNELS = 128, 64


def step(
    state: State,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    factor: Tensor,
    scale: Tensor,
    beam_size: int,
    mask: Tensor | None,
) -> Tensor:
    """o = q S, S = a S + b k v^T for one position of each hypothesis, in one precision.

    Args:
        state: the state of the layer. In its rows are ``hidden``, S before the positions in the
            cache, R x (h E F); ``decay``, a of these positions multiplied, R x h x 1 (or E); and of
            each position b times a of those that follow: ``weights``, R x h x T, or with decays for
            each channel, ``keys``, which are multiplied by them, R x h x T x E.
        query, key: R x g x 1 x E; with decays for each head, all may share them (g = 1 or h).
        value: R x h x 1 x F.
        factor: a, R x h x 1 for each head, or R x h x E for each channel of the keys.
        scale: b, R x h x 1; zero where a hypothesis has no token yet, as ``factor`` is one there.
        beam_size: how many consecutive hypotheses share a sentence.
        mask: B x 1 x beam_size x (columns), True at columns of the caches that belong to the past
            of a hypothesis; the last columns are those of this cache. None if all do.
    Returns:
        R x h x 1 x F.
    """
    rows, cache = state.rows, state.kv_cache()
    by_channel = factor.size(2) > 1
    if by_channel:
        keys = key * scale.unsqueeze(3)
        if "keys" in rows:
            keys = torch.cat([rows["keys"] * factor.unsqueeze(2), keys], dim=2)
        rows["keys"] = keys
        weights = (query @ keys.transpose(2, 3)).squeeze(2)
        key = key[..., :0]
    else:
        weights = (
            torch.cat([rows["weights"] * factor, scale], dim=2) if "weights" in rows else scale
        )
        rows["weights"] = weights
    key_columns, value_columns = cache.append(*(_by_sentence(x, beam_size) for x in (key, value)))
    # B x h x beam_size x columns
    of_columns = weights.unflatten(0, (-1, beam_size)).transpose(1, 2).unsqueeze(-1)
    if mask is not None:
        columns = mask[..., -value_columns.size(2) :].unflatten(3, (-1, beam_size))
        of_columns = of_columns * columns
    of_columns = of_columns.flatten(3)
    if not by_channel:
        of_columns = (_by_sentence(query, beam_size) @ key_columns.transpose(2, 3)) * of_columns
    output = _by_hypothesis(of_columns @ value_columns)
    if "hidden" in rows:
        rows["decay"] = decay = rows["decay"] * factor
        before = rows["hidden"].unflatten(1, (value.size(1), query.size(3), -1))
        output = output + (query * decay.unsqueeze(2)) @ before
    limit = RECENT_OF_CHANNELS if by_channel else RECENT
    # One graph is for all steps.
    if torch.compiler.is_compiling() or weights.size(2) >= limit:
        fold(state, mask, beam_size)
    return output


def fold(state: State, mask: Tensor | None, beam_size: int) -> None:
    """Add the positions in the cache to the state of each hypothesis, and empty the cache.

    Args:
        state, mask, beam_size: as for ``step``, after it.
    """
    rows, cache = state.rows, state.filled_cache()
    if cache is None:
        return
    keys, values = (_of_hypotheses(each, mask, beam_size) for each in cache.contents())
    if "keys" in rows:
        keys = rows.pop("keys")
        decay = torch.ones_like(keys[:, :, 0])
    else:
        weights = rows.pop("weights")
        values = values * weights.unsqueeze(3)
        decay = torch.ones_like(weights[:, :, :1])
    hidden = keys.transpose(2, 3) @ values
    if "hidden" in rows:
        before = rows["hidden"].view_as(hidden)
        hidden = torch.addcmul(hidden, rows["decay"].unsqueeze(3), before)
    rows.update(hidden=hidden.flatten(1), decay=decay)
    cache.clear()


def _by_sentence(x: Tensor, beam_size: int) -> Tensor:
    """R x h x 1 x E to B x h x beam_size x E."""
    return x.squeeze(2).unflatten(0, (-1, beam_size)).transpose(1, 2)


def _by_hypothesis(x: Tensor) -> Tensor:
    """B x h x beam_size x E to R x h x 1 x E."""
    return x.transpose(1, 2).flatten(0, 1).unsqueeze(2)


def _of_hypotheses(x: Tensor, mask: Tensor | None, beam_size: int) -> Tensor:
    """The columns of each hypothesis' past in a cache B x h x (T beam_size) x E: R x h x T x E."""
    if mask is None:
        return x
    of_position = mask[:, 0, :, -x.size(2) :].unflatten(2, (-1, beam_size))
    # Any column will do at padding, whose weight is zero.
    columns = of_position.to(torch.uint8).argmax(dim=3)
    columns = columns + beam_size * torch.arange(columns.size(2), device=x.device)
    index = columns.flatten(1)[:, None, :, None].expand(-1, x.size(1), -1, x.size(3))
    return x.gather(2, index).unflatten(2, (beam_size, -1)).transpose(1, 2).flatten(0, 1)
