"""Linear attention with decays: products of queries with a state that all earlier positions update.

In training, a sentence is cut into chunks. The pairs of positions in a chunk are computed as in
attention, and only the states at the beginnings of chunks depend on each other. Decays are given by
their logarithms, which are added up, and never divided by each other.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .gradient import first_derivatives_only
from .scan import linear_scan

# Most positions in a chunk: longer ones have more pairs, shorter ones more states.
HEAD_CHUNK, CHANNEL_CHUNK = 128, 32
# The smallest log decay of a channel at a position. With it, what was before is less than half of
# the last bit of double precision, and half of a chunk has exponents that double precision can
# represent.
LOWEST = -40.0
# The largest exponent of a factor in single precision. Its relative error is then below 1e-5.
LARGEST = 32.0


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    before: Tensor | None = None,
    need_state: bool = False,
    key_scale: Tensor | None = None,
    skip: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """o_t = q_t S_t + d v_t, S_t = a_t S_(t-1) + b_t k_t v_t^T, in single precision or better.

    Args:
        query, key: B x h x T x E; with decays for each head, all heads may share them (h = 1).
        value: B x h x T x F.
        log_decay: log a, not positive: B x h x T x 1 for each head (B may be 1), or B x h x T x E
            for each channel of the keys.
        before: S_0, B x h x E x F; None for zeros.
        need_state: whether to return S_T (False).
        key_scale: b, B x h x T x 1, with decays for each head; None for ones.
        skip: d, h, with decays for each head; None for zeros.
    Returns:
        o, B x h x T x F, and S_T, B x h x E x F, or None.
    """
    exact = torch.promote_types(value.dtype, torch.float32)
    # Autocast would round states and scores to half precision.
    with torch.autocast(value.device.type, enabled=False):
        inputs = query.to(exact), key.to(exact), value.to(exact), log_decay.to(exact)
        if torch.compiler.is_compiling() and before is None and not need_state:
            return _in_graph(*inputs, key_scale, skip), None
        further = (None if each is None else each.to(exact) for each in (before, key_scale, skip))
        return _by_chunks(need_state, *inputs, *further)


def _in_graph(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    key_scale: Tensor | None,
    skip: Tensor | None,
) -> Tensor:
    """o for any number of positions, in a graph; arguments are those of ``linear_attention``."""
    if log_decay.size(3) == 1:
        key_scale = None if key_scale is None else key_scale.to(query.dtype)
        scores = _HeadScores.apply(query @ key.transpose(2, 3), log_decay, key_scale)
        output = scores @ value
        return output if skip is None else output + skip.to(value.dtype).view(-1, 1, 1) * value
    # B x T x hEF
    updates = key.unsqueeze(4) * value.unsqueeze(3)
    decay = log_decay.exp().unsqueeze(4).expand_as(updates)
    flat = (each.transpose(1, 2).flatten(2) for each in (decay, updates))
    states = linear_scan(*flat).unflatten(2, (updates.size(1), *updates.shape[3:])).transpose(1, 2)
    return (query.unsqueeze(3) @ states).squeeze(3)


def _by_chunks(
    need_state: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    before: Tensor | None,
    key_scale: Tensor | None,
    skip: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Arguments are those of ``linear_attention``."""
    length, by_channel = value.size(2), log_decay.size(3) > 1
    assert not by_channel or key_scale is skip is None, "both are for decays of heads"
    chunks = -(-length // (CHANNEL_CHUNK if by_channel else HEAD_CHUNK))
    size = -(-length // chunks)
    query, key, value, log_decay = (
        _chunks(each, chunks, size) for each in (query, key, value, log_decay)
    )
    value = value.contiguous()
    with_states = chunks > 1 or before is not None or need_state
    if by_channel:
        precision = _precision(log_decay)
        scores, query, key, decay = _ChannelDecays.apply(
            query, key, log_decay, precision, with_states
        )
    else:
        query, key = query.contiguous(), key.contiguous()
        key_scale = None if key_scale is None else _chunks(key_scale, chunks, size)
        scores = _HeadScores.apply(query @ key.transpose(3, 4), log_decay, key_scale)
        if skip is not None:
            scores.diagonal(dim1=3, dim2=4).add_(skip.view(-1, 1, 1))
    output = scores @ value
    if not with_states:
        return output.flatten(2, 3), None

    # The chunks that read a state, and those that update it for others
    reading = slice(1 if before is None else 0, chunks)
    updating = slice(chunks if need_state else chunks - 1)
    query, key = query[:, :, reading], key[:, :, updating]
    if not by_channel:
        since = log_decay.cumsum(dim=3).exp()
        until = F.pad(log_decay[:, :, :, 1:], (0, 0, 0, 1)).flip(3).cumsum(dim=3).flip(3).exp()
        decay = since[:, :, :, -1]
        until = until if key_scale is None else until * key_scale
        query, key = query * since[:, :, reading], key * until[:, :, updating]
    updates = key.transpose(3, 4) @ value[:, :, updating]
    state = before
    starts = [] if before is None else [before]
    for update, factor in zip(updates.unbind(2), decay.unsqueeze(4).unbind(2)):
        state = update if state is None else torch.addcmul(update, factor, state)
        starts.append(state)
    starts = starts[: query.size(2)]
    if starts:
        output[:, :, reading] += query @ torch.stack(starts, dim=2)
    return output.flatten(2, 3)[:, :, :length], state if need_state else None


def _chunks(x: Tensor, chunks: int, size: int) -> Tensor:
    """Cut B x h x T x E into B x h x n x L x E.

    Padding follows the last position. Its decay is 1 and its key zero, so it leaves the state
    unchanged.
    """
    padding = chunks * size - x.size(2)
    if padding:
        x = F.pad(x, (0, 0, 0, padding))
    return x.unflatten(2, (chunks, size))


def _precision(log_decay: Tensor) -> torch.dtype:
    """The precision of the factors in chunks of log decays of channels, ... x L x E.

    Double precision takes twice the time, and only decays near zero need it.
    """
    half = log_decay.size(-2) // 2 + 1
    if _is_readable(log_decay) and log_decay.amin() * half > -LARGEST:
        return log_decay.dtype
    return torch.float64


def _is_readable(x: Tensor) -> bool:
    """Whether a value of x can be read without waiting for a device, or ending a graph."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


class _HeadScores(torch.autograd.Function):
    """The product of each query i and key j, times b_j a_(j+1) ... a_i; zero for i < j.

    Its inputs are the products, ... x L x L, the log decays, and the scales of the keys or None,
    ... x L x 1 each.
    """

    @staticmethod
    def forward(ctx: Any, products: Tensor, log_decay: Tensor, key_scale: Tensor | None) -> Tensor:
        decays = log_decay.expand(*log_decay.shape[:-1], log_decay.size(-2)).tril(-1)
        decays = decays.cumsum(dim=-2).exp_().tril_()
        ctx.save_for_backward(products, decays, key_scale)
        scores = products * decays
        return scores if key_scale is None else scores.mul_(key_scale.transpose(-2, -1))

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        products, decays, key_scale = ctx.saved_tensors
        of_products, of_decay, of_scale = grad * decays, None, None
        if any(ctx.needs_input_grad[1:]):
            shares = of_products * products
            if key_scale is not None:
                of_scale = shares.sum(dim=-2).unsqueeze(-1)
                shares.mul_(key_scale.transpose(-2, -1))
            of_sums = shares.sum(dim=-1, keepdim=True) - shares.sum(dim=-2).unsqueeze(-1)
            of_decay = _of_log_decays(of_sums.sum_to_size(*decays.shape[:-1], 1))
        if key_scale is not None:
            of_products.mul_(key_scale.transpose(-2, -1))
        return of_products.sum_to_size(products.shape), of_decay, of_scale


class _ChannelDecays(torch.autograd.Function):
    """Products of queries and keys with decays for each channel.

    The scores are sum_c q_ic k_jc a_(j+1)c ... a_ic for a query i and a key j. The decays of
    channels differ, so they must be factors of the queries and of the keys, from the middle of
    the chunk. There, the factors of queries before it and of keys after it are large numbers, and
    those of the keys and queries that they meet are small: double precision can represent all of
    them.

    Its inputs are queries, keys and log decays, ... x L x E each, the precision of the factors, and
    whether there are states.

    Returns:
        The scores, ... x L x L, zero for i < j. With states, queries times the decays since the
        beginning of the chunk, keys times those until its end, ... x L x E, and the decay of the
        whole chunk, ... x E.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        log_decay: Tensor,
        precision: torch.dtype,
        with_states: bool,
    ) -> tuple[Tensor | None, ...]:
        size, exact = query.size(-2), query.dtype
        sums = log_decay.new_ones(size, size, dtype=precision).tril()
        # The matrices of products are contiguous, whatever the inputs are.
        log_decay = log_decay.clamp(min=LOWEST).to(precision).contiguous()
        of_query = ((sums - sums[size // 2]) @ log_decay).exp_()
        of_key = of_query.reciprocal()
        left, right = of_query * query, of_key * key
        scores = (left @ right.transpose(-2, -1)).tril_().to(exact)
        # From the beginning to the middle, and from there to the end.
        first = log_decay[..., :1, :].exp() * of_key[..., :1, :]
        second = of_query[..., -1:, :]
        ctx.save_for_backward(of_query, of_key, left, right, first, second)
        ctx.with_states = with_states
        if not with_states:
            return scores, None, None, None
        decay = (first * second).squeeze(-2)
        return scores, (left * first).to(exact), (right * second).to(exact), decay.to(exact)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        of_query, of_key, left, right, first, second = ctx.saved_tensors
        exact = grads[0].dtype
        shares = grads[0].tril().to(left.dtype)
        of_left, of_right = shares @ right, shares.transpose(-2, -1) @ left
        if ctx.with_states:
            of_since, of_until, of_whole = (grad.to(left.dtype) for grad in grads[1:])
            of_left.addcmul_(of_since, first)
            of_right.addcmul_(of_until, second)
        # The derivative of the sum of the log decays up to a position
        of_sums = (left * of_left).addcmul_(right, of_right, value=-1.0)
        if ctx.with_states:
            ends = (right * of_until).sum(dim=-2) + first.squeeze(-2) * of_whole
            of_sums[..., -1, :].addcmul_(ends, second.squeeze(-2))
        of_decay = _of_log_decays(of_sums)
        of_query, of_key = of_left.mul_(of_query), of_right.mul_(of_key)
        return of_query.to(exact), of_key.to(exact), of_decay.to(exact), None, None


def _of_log_decays(of_sums: Tensor) -> Tensor:
    """The derivatives of log decays, from those of their sums up to each position, ... x L x E."""
    size = of_sums.size(-2)
    return of_sums.new_ones(size, size).triu() @ of_sums
