"""The properties: what holds, how far a computation may deviate from it, and what a fault means."""

from collections.abc import Callable
from typing import NamedTuple

from ..language.spec import DECODER, ENCODER
from .comparisons import (
    Found,
    alone_and_in_a_batch,
    bfloat16,
    in_8_bits,
    padding_on_the_left,
    padding_on_the_right,
    reordering,
    several_positions,
    steps,
    steps_after_padding,
    steps_in_single_precision,
)
from .counts import multiply_adds, parameters
from .derivatives import later_tokens, numerical_gradients, receptive_fields
from .subject import Subject


class Property(NamedTuple):
    """One property.

    Attributes:
        name: name in the tables.
        claim: what holds.
        bound: the largest allowed deviation.
        measure: computes both sides, given the subject and the bound; None if this machine cannot.
        fault: what a larger deviation means, and where to look.
        sides: the sides of the layers that it says something about.
    """

    name: str
    claim: str
    bound: float
    measure: Callable[[Subject, float], Found | None]
    fault: str
    sides: tuple[str, ...] = (ENCODER, DECODER)


IN_DECODER = (DECODER,)
_STEPS_FAULT = (
    "generation does not compute what training has learned. A layer must keep what later positions "
    "need in `context.layer_state(self).rows`, and read it in the next step"
)
_PADDING_FAULT = (
    "a translation depends on how much its sentence is padded, and so on the other sentences of "
    "its batch. A layer must ignore the positions at which `context.padding_mask` is true"
)
PROPERTIES = (
    Property(
        "steps, float64",
        "decoding one position after the other gives what one pass over all positions gives",
        1e-9,
        steps,
        _STEPS_FAULT,
        IN_DECODER,
    ),
    Property(
        "steps, float32",
        "the same in single precision",
        2e-4,
        steps_in_single_precision,
        f"{_STEPS_FAULT}. If only float32 fails, rounding errors grow from step to step",
        IN_DECODER,
    ),
    Property(
        "several positions",
        "decoding several positions at once gives what one after the other gives",
        1e-9,
        several_positions,
        "positions that are decoded together, such as those of a given prefix, give other results "
        "than one after the other. A step may have several positions, and each begins with what "
        "the position before it left",
        IN_DECODER,
    ),
    Property(
        "reordering",
        "hypotheses that change places, double or end continue as if they were decoded from the "
        "start",
        1e-9,
        reordering,
        "beam search continues a hypothesis with the past of another. The search reorders the "
        "tensors in `.rows` and `.sentences` of `context.layer_state(self)`, and its key-value "
        "cache: keep nothing of a sentence in the module or in `.constants`",
        IN_DECODER,
    ),
    Property(
        "padding on the right",
        "padding after source and target changes nothing at their tokens",
        1e-9,
        padding_on_the_right,
        _PADDING_FAULT,
    ),
    Property(
        "padding on the left",
        "padding before source and target changes nothing at their tokens",
        1e-9,
        padding_on_the_left,
        _PADDING_FAULT,
    ),
    Property(
        "steps after padding",
        "nor does it if the positions are decoded one after the other",
        1e-9,
        steps_after_padding,
        "in a step, padding precedes the tokens of some hypotheses, and changes what follows. A "
        "state must stay as it is where `context.padding_mask` (R x 1) is true",
        IN_DECODER,
    ),
    Property(
        "batch",
        "a sentence alone gives what it gives in a batch",
        1e-9,
        alone_and_in_a_batch,
        "a translation depends on the other sentences of its batch. A layer must treat each row "
        "separately, and ignore padding",
    ),
    Property(
        "later tokens",
        "no output of the decoder has a gradient to a later target token",
        0.0,
        later_tokens,
        "an output depends on tokens that it must predict. Training reads them, and generation has "
        "none: look at what the layer reads to the right",
        IN_DECODER,
    ),
    Property(
        "receptive field",
        "no output has a gradient to positions outside the stated receptive field, neither in "
        "a layer nor in a side",
        0.0,
        receptive_fields,
        "an output depends on positions outside the receptive field that `convs2s adl explain` "
        "prints. Correct `reach=` of the declaration, or the layer",
    ),
    Property(
        "parameters",
        "each layer has as many parameters as `convs2s adl explain` prints",
        0.0,
        parameters,
        "`convs2s adl explain` prints a wrong number of parameters. Correct `parameters=` of the "
        "declaration",
    ),
    Property(
        "multiply-adds",
        "what `convs2s adl explain` prints has each product of matrices that a layer computes, and "
        "no product that it does not compute",
        0.0,
        multiply_adds,
        "`convs2s adl explain` prints a wrong number of multiply-adds. Correct `cost=` of the "
        "declaration",
    ),
    Property(
        "gradients",
        "the gradients of each layer's parameters and of the embeddings are the numerical ones",
        1e-6,
        numerical_gradients,
        "gradients are not those of what is computed, so training goes in a wrong direction. "
        "Look for `detach()`, `.data`, changes in place and autograd functions, in this layer and "
        "in those above it",
    ),
    Property(
        "bfloat16",
        "with `--bf16` and with `--autocast-dtype bfloat16`, results are near those of float32",
        0.3,
        bfloat16,
        "in bfloat16, results are far from those of float32. Sums over many positions, "
        "exponentials and differences of similar numbers need float32",
    ),
    Property(
        "int8",
        "with `--int8`, results are near those of float32",
        0.3,
        in_8_bits,
        "with --int8, results are far from those of float32. Weights that must not be rounded "
        "should be those of an `nn.Linear`, not of a `Linear` of this package",
    ),
)
