"""Relative positions in attention: windows, biases by distance, and rotations (RoPE).

Biases are multiples of the distance (ALiBi), or learned for each distance (MEGA). Padding lies
after the tokens of a sentence, or before them in a key-value cache, so two tokens are as far apart
as their columns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ....nn.embedding import check_length
from ....nn.linear import single_precision
from ..context import Context
from .positions import SinusoidTable


def alibi_slopes(heads: int, like: Tensor) -> Tensor:
    """The slope of each head (Press et al. 2022, section 3, and their implementation).

    The slopes of h heads are 2^(-8/h), 2^(-16/h), ..., 2^-8. If h is not a power of two, the first
    heads have those of the largest power below it; the others have every other slope of twice as
    many heads.

    Args:
        heads: h.
        like: a tensor of the device and the dtype of the result.
    Returns:
        h.
    """
    power = 1 << (heads.bit_length() - 1)
    numbers = torch.arange(1, heads + 1, dtype=like.dtype, device=like.device)
    exponents = torch.where(numbers <= power, numbers, numbers - power - 0.5) / power
    return torch.exp2(-8 * exponents)


@dataclass(frozen=True)
class AlibiBiases:
    """Biases in proportion to the distance.

    Args:
        heads: h, each of which has a slope.
    """

    heads: int

    def __call__(self, distances: Tensor, query: Tensor) -> Tensor:
        """1 x h x T x S numbers to add to scores, for distances T x S."""
        # In half precision, large distances would be rounded before they are scaled.
        exact = distances.to(torch.promote_types(query.dtype, torch.float32))
        slopes = alibi_slopes(self.heads, exact)
        return (slopes[:, None, None] * -exact.abs()).to(query.dtype).unsqueeze(0)


class LearnedBiases(nn.Module):
    """A learned bias for each distance (Ma et al. 2023, "simple" in the authors' code).

    Args:
        max_positions: the largest number of positions on either side.
    """

    def __init__(self, max_positions: int):
        super().__init__()
        self.max_positions = max_positions
        # From the furthest position on the left to that on the right
        self.weight = nn.Parameter(torch.empty(2 * max_positions - 1))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, distances: Tensor, query: Tensor) -> Tensor:
        """Look up numbers to add to scores.

        Args:
            distances: ... x T x S, positions of queries less those of keys; any number at padding.
            query: a tensor of the dtype of the result.
        Returns:
            ... x 1 x T x S.
        """
        furthest = self.max_positions - 1
        found = self.weight[furthest - distances.clamp(-furthest, furthest)]
        return found.to(query.dtype).unsqueeze(-3)

    def check_length(self, longest: int) -> None:
        """Raise SequenceTooLong if a sentence has more positions than there are distances for."""
        check_length(longest, self.max_positions)


# Distances, positions of queries less those of keys, and queries -> numbers to add to scores.
Biases = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class DistanceMask:
    """What distances allow and add to the scores of self-attention.

    Args:
        causal: whether positions attend to the past only.
        window: how many positions on either side a position attends to, or if causal, how many of
            the last ones, its own included; None for all.
        biases: what is added; None to add nothing.
    """

    causal: bool
    window: int | None
    biases: Biases | None

    def in_sentence(self, query: Tensor, context: Context) -> Tensor:
        """The mask of whole sentences, for ``dot_product_attention``; layers share it.

        Args:
            query: B x h x T x E.
            context: the context of the forward pass.
        """

        def make() -> Tensor:
            positions = torch.arange(query.size(2), device=query.device)
            distances = positions.unsqueeze(1) - positions
            allowed = self._allowed(distances)
            if context.padding_mask is not None:
                tokens = ~context.padding_mask[:, None, None]
                # A position may always attend to itself, so that no softmax is over an empty set.
                allowed = allowed & (tokens | (distances == 0))
            return self._biased(allowed, distances, query)

        return context.shared((self, query.dtype), make)

    def first_in_cache(self, steps: int, length: int) -> int:
        """The first position of the past that the last ``steps`` of ``length`` positions see."""
        if self.window is None or torch.compiler.is_compiling():
            return 0
        return max(0, length - steps - self.window + 1)

    def in_cache(self, query: Tensor, steps: int, length: int, context: Context) -> Tensor | None:
        """The mask of new positions, for columns of the key-value cache from the first they see.

        Args:
            query: B x h x (beam_size * n) x E, ordered by hypothesis, then by position.
            steps: n.
            length: T, the positions in the cache, the new ones included.
            context: the context of the forward pass.
        Returns:
            As for ``dot_product_attention``; None if every query may attend to every column.
        """

        def make() -> Tensor | None:
            allowed = context.cache_mask
            first, beam_size = self.first_in_cache(steps, length), context.beam_size
            if allowed is not None:
                allowed = allowed[..., first * beam_size :]
            # Columns before the window are omitted, except in graphs, of which there is one for all
            # steps.
            only_window = self.window is None or not torch.compiler.is_compiling()
            if steps == 1 and self.biases is None and only_window:
                return allowed
            positions = torch.arange(first, length, device=query.device)
            distances = positions[-steps:].unsqueeze(1) - positions
            distances = distances.repeat(beam_size, 1).repeat_interleave(beam_size, dim=1)
            if allowed is None and self.biases is not None and only_window:
                return self.biases(distances, query)
            seen = self._allowed(distances)
            return self._biased(seen if allowed is None else allowed & seen, distances, query)

        return context.shared((self, query.dtype), make)

    def _allowed(self, distances: Tensor) -> Tensor:
        """Whether a query may attend to a key."""
        allowed = distances >= 0 if self.causal else torch.ones_like(distances, dtype=torch.bool)
        if self.window is None:
            return allowed
        furthest = self.window - 1 if self.causal else self.window
        return allowed & (distances.abs() <= furthest)

    def _biased(self, allowed: Tensor, distances: Tensor, query: Tensor) -> Tensor:
        """The mask of what is allowed, with the biases if there are any."""
        if self.biases is None:
            return allowed
        return torch.where(allowed, self.biases(distances, query), float("-inf"))


class Rotation(SinusoidTable):
    """Rotates pairs of channels by angles proportional to the position (Su et al. 2021).

    Channels 2j and 2j + 1 of a head are a complex number, which is multiplied by e^(i t w) at
    position t, with w = 10000^(-2j/E).

    Args:
        channels: E of each head, an even number.
    """

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Rotate the heads of queries or keys, R x T x hE, in single precision or better."""
        channels = self.table.size(1)
        # Layers whose heads have the same number of channels share the factors.
        factors = context.shared(("rotation", channels), lambda: self._factors(context))
        pairs = x.to(factors.real.dtype).unflatten(-1, (-1, channels // 2, 2))
        if torch.compiler.is_compiling():
            # Other programs that read a graph may not have complex numbers.
            (left, right), (cosine, sine) = pairs.unbind(-1), torch.view_as_real(factors).unbind(-1)
            turned = left * cosine - right * sine, left * sine + right * cosine
            rotated = torch.stack(turned, dim=-1)
        else:
            rotated = torch.view_as_real(torch.view_as_complex(pairs) * factors)
        return rotated.flatten(2).to(x.dtype)

    def _factors(self, context: Context) -> Tensor:
        """T x 1 x E/2 or R x T x 1 x E/2 complex numbers."""
        vectors = single_precision(self.look_up(context))
        sines, cosines = vectors.unsqueeze(-2).unflatten(-1, (-1, 2)).unbind(-1)
        return torch.complex(cosines, sines)
