"""What a layer knows of the pass that it takes part in."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from ..decoding.state import State


@dataclass
class Source:
    """What a decoder attends to.

    Args:
        blocks: outputs of encoder blocks by number, each B x S x C.
        padding_mask: B x S, True at padding, or None.
        beam_size: how many successive hypotheses share a sentence's row.
    """

    blocks: dict[int, Tensor]
    padding_mask: Tensor | None = None
    beam_size: int = 1


@dataclass
class Context:
    """One pass through one side of a model.

    Args:
        positions: numbers of the positions from 0, T or B x T; padding has any of them.
        longest: words of the longest sentence so far, above all of ``positions``.
        padding_mask: B x T, True at padding; None where there is none, or where padding follows
            the words of a causal pass, which cannot see it.
        state: what layers remember in generation; None in a full pass.
        visible: in generation, what self-attention may see of what has been written (see
            modules/history.py); None for everything.
        source: what a decoder attends to.
        need_weights: whether layers that attend to the source leave their weights.
        attention: those weights, B x T x S each.
    """

    positions: Tensor
    longest: int
    padding_mask: Tensor | None = None
    state: State | None = None
    visible: Tensor | None = None
    source: Source | None = None
    need_weights: bool = False
    attention: list[Tensor] = field(default_factory=list)

    def layer_state(self, layer: nn.Module) -> State | None:
        """What a layer remembers between two steps; None in a full pass.

        A layer keeps tensors with one row a hypothesis in ``.rows`` and tensors with one row a
        sentence in ``.sentences``; both are reordered for it. Self-attention appends its keys and
        values to ``.kv_cache()``.
        """
        return None if self.state is None else self.state.child(layer)
