"""Scaled dot-product attention, alignments, and the attention weights of every layer by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .dropout import Dropout
from .linear import is_eager_cpu
from .softmax import causal_mask, masked_softmax

# Sequence length up to which separate matrix multiplications are faster on a CPU than torch's
# fused attention kernels.
MAX_UNFUSED_LENGTH = 32
# Number of scores in a step of generation up to which the fused kernels are faster again: they are
# one operation in place of six.
MAX_FUSED_SCORES = 4_000


def dot_product_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    causal: bool = False,
    dropout: Dropout | None = None,
    need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Scaled dot-product attention, with the softmax in single precision or better.

    Args:
        query: B x h x T x E, for h heads.
        keys: B x h x S x E, or B x g x S x E for a divisor g of h: h / g consecutive heads of
            queries then share a head (Ainslie et al. 2023).
        values: B x h x S x E', or B x g x S x E'.
        mask: broadcastable to B x h x T x S, True at positions that may be attended to; or numbers
            in the dtype of ``query`` to add to the scaled scores, -inf at other positions; None
            for all.
        scale: factor of the dot products (1).
        causal: whether position t attends only to positions up to t; T must equal S, and mask must
            be None (False).
        dropout: drops attention weights; None for no dropout.
        need_weights: whether to return attention weights (True). If not, torch's fused kernels
            compute the attention, except for short sequences of several sentences on a CPU.
    Returns:
        The attention context B x h x T x E', and the attention weights B x h x T x S before
        dropout, or None if they are not needed.
    """
    # Other programs that read a graph have kernels of their own for the plain formula.
    may_fuse = not (need_weights or torch.compiler.is_compiling())
    if may_fuse and (has_few_scores(query, keys) or not _is_short(query, keys)):
        p = dropout.p if dropout is not None and dropout.active else 0.0
        if (shares := query.size(-3) // keys.size(-3)) > 1:
            keys, values = (x.repeat_interleave(shares, dim=1) for x in (keys, values))
        context = F.scaled_dot_product_attention(
            query, keys, values, mask, p, is_causal=causal, scale=scale
        )
        return context, None
    scores = _shared_matmul(query, keys.transpose(-1, -2))
    if causal:
        mask = causal_mask(scores)
    weights = masked_softmax(scores, mask, scale)
    dropped = weights if dropout is None else dropout(weights)
    context = _shared_matmul(dropped.to(values.dtype), values)
    return context, weights if need_weights else None


def _shared_matmul(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right``, where consecutive heads of ``left`` may share a head of ``right``.

    Args:
        left: B x h x T x K.
        right: B x g x K x N.
    Returns:
        B x h x T x N.
    """
    shares = left.size(-3) // right.size(-3)
    if shares == 1:
        return left @ right
    # The rows of all heads that share one become one matrix.
    rows = left.unflatten(1, (-1, shares)).flatten(2, 3)
    return (rows @ right).unflatten(2, (shares, -1)).flatten(1, 2)


class Alignment(NamedTuple):
    """The attention that is the alignment of a model.

    Attributes:
        layer: number of the layer, counted from 0 among the layers that attend to the source;
            None for the mean of all.
        heads: how many heads, the first ones of each layer; None for all.
    """

    layer: int | None = None
    heads: int | None = None

    def replaced_by(self, layer: int | None, heads: int | None) -> "Alignment":
        """The same with another layer or number of heads; None keeps that of this alignment."""
        return Alignment(
            self.layer if layer is None else layer, self.heads if heads is None else heads
        )

    def of(self, layers: list[Tensor]) -> Tensor | None:
        """The mean over the heads, then over the layers.

        Args:
            layers: the attention weights of each layer, R x h x T x S.
        Returns:
            R x T x S, or None if there are no layers.
        """
        if not layers:
            return None
        if self.layer is not None:
            layers = [layers[self.layer]]
        return torch.stack([layer[:, : self.heads].mean(dim=1) for layer in layers]).mean(dim=0)


MEAN_ALIGNMENT = Alignment()


def _is_short(query: Tensor, keys: Tensor) -> bool:
    return (
        query.device.type == "cpu"
        and query.dtype in (torch.bfloat16, torch.float32, torch.float64)
        and query.size(-2) * keys.size(-2) <= MAX_UNFUSED_LENGTH**2
    )


def has_few_scores(query: Tensor, keys: Tensor) -> bool:
    """Whether a step of generation has so few scores that fused kernels are the fastest.

    Args:
        query: B x h x T x E.
        keys: B x g x S x E.
    """
    if torch.is_grad_enabled() or not is_eager_cpu(query):
        return False
    return query.size(0) * query.size(1) * query.size(2) * keys.size(2) <= MAX_FUSED_SCORES


def source_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    padding_mask: Tensor | None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """One head's dot-product attention of hypotheses to the source sentences that they share.

    Args:
        query: R x T x E. R is a multiple of B: consecutive hypotheses share a sentence.
        keys: B x S x E.
        values: B x S x E.
        padding_mask: B x S, True at padding, or None if there is no padding.
        need_weights: whether to return the attention weights (False).
    Returns:
        The context R x T x E, and the weights R x T x S (None if they are not needed).
    """
    rows, steps, embed_dim = query.shape
    mask = None if padding_mask is None else ~padding_mask[:, None]
    # All hypotheses of a sentence become queries of one matrix multiplication.
    query = query.reshape(keys.size(0), -1, embed_dim)
    context, weights = dot_product_attention(query, keys, values, mask, need_weights=need_weights)
    if weights is not None:
        weights = weights.reshape(rows, steps, -1)
    return context.reshape(rows, steps, -1), weights


# The kinds of maps: queries and keys.
SOURCE = "source"  # target positions attend to source positions
ENCODER = "encoder"  # source positions attend to source positions
DECODER = "decoder"  # target positions attend to target positions
CONTRIBUTIONS = "contributions"  # terms of a target token's logit, one for each source position
KINDS = (SOURCE, CONTRIBUTIONS, DECODER, ENCODER)
MEAN = "mean"


class AttentionMap(NamedTuple):
    """The weights of one layer.

    Attributes:
        kind: one of KINDS.
        layer: the layer, such as "3" or "max"; unique for the kind.
        weights: B x h x Q x K for h heads, Q queries and K keys. Each row is a distribution over
            the keys; those of CONTRIBUTIONS are signed, and add up to a logit without its bias.
        description: the layer in words, such as "decoder layer 3".
    """

    kind: str
    layer: str
    weights: Tensor
    description: str

    @property
    def name(self) -> str:
        """Kind and layer, such as "source.3"."""
        return f"{self.kind}.{self.layer}"


class AttentionMaps(list[AttentionMap]):
    """The maps of one forward pass, from the first layer to the last; see ``record_attention``."""

    def add(self, kind: str, weights: Tensor, description: str, layer: str | None = None) -> None:
        """Append the map of a layer.

        Args:
            kind: one of KINDS.
            weights: B x h x Q x K.
            description: the layer in words.
            layer: the layer; None for the number of the layer among those of its kind, from 1.
        """
        if layer is None:
            layer = str(1 + len(self.of_kind(kind)))
        self.append(AttentionMap(kind, layer, weights, description))

    def of_kind(self, kind: str) -> list[AttentionMap]:
        """The maps of one kind."""
        return [found for found in self if found.kind == kind]

    def mean(self) -> Tensor | None:
        """The attention to the source averaged over heads, then over layers.

        Returns:
            B x T x S, or None if no layer attends to the source.
        """
        return MEAN_ALIGNMENT.of([found.weights for found in self.of_kind(SOURCE)])


_recorded: ContextVar[AttentionMaps | None] = ContextVar("attention_maps", default=None)


@contextmanager
def record_attention() -> Iterator[AttentionMaps]:
    """Let all networks that this thread runs in the body add the weights of each layer to maps.

    Self-attention is recorded where whole sentences are computed, not in incremental decoding.
    """
    maps = AttentionMaps()
    token = _recorded.set(maps)
    try:
        yield maps
    finally:
        _recorded.reset(token)


def recorded_maps() -> AttentionMaps | None:
    """The maps to which layers add their weights; None if they are not recorded.

    A graph that ``torch.export`` or ``torch.compile`` makes records nothing.
    """
    return None if torch.compiler.is_compiling() else _recorded.get()
