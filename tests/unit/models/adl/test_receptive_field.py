"""The receptive field that a definition declares is the one that gradients show."""

from dataclasses import replace

import pytest
import torch

from convs2s.models.adl import resolve
from convs2s.models.adl.context import Context, Source
from convs2s.models.adl.language.registry import receptive_field
from convs2s.models.adl.layers.chains import LayerChain
from tests.support.adl_random import random_definition

LENGTH, SOURCE_LENGTH = 20, 5
# Random weights and inputs of a definition: with some, rectifiers shut off all channels of a layer.
TRIES = 5
# Outputs whose gradients are computed.
POSITIONS = (0, 1, 2, LENGTH // 2, LENGTH - 3, LENGTH - 2, LENGTH - 1)


def random_stacks(seed):
    """The layers, the input width and the source of a random encoder and a random decoder."""
    drawn = random_definition(seed)
    settings = replace(drawn.settings, max_source_positions=64, max_target_positions=64)
    spec = resolve(drawn.encoder, drawn.decoder, settings, input_feeding=drawn.input_feeding)
    yield spec.encoder, Source({})
    if not drawn.input_feeding:
        widths = [spec.encoder.block_width(block) for block in range(spec.encoder.blocks + 1)]
        blocks = {
            block: torch.randn(1, SOURCE_LENGTH, width, dtype=torch.float64)
            for block, width in enumerate(widths)
        }
        yield spec.decoder, Source(blocks, torch.zeros(1, SOURCE_LENGTH, dtype=torch.bool))


def measured_reach(stack, source):
    """How many positions to the left and to the right of an output have a gradient, at most."""
    chain = LayerChain(stack.layers).double().eval()
    x = torch.randn(1, LENGTH, stack.input_width, dtype=torch.float64, requires_grad=True)
    y = chain(x, Context(torch.arange(LENGTH), LENGTH, source=source))
    outputs = y[0] @ torch.randn(y.size(-1), dtype=torch.float64)
    left = right = 0
    for t in POSITIONS:
        (gradient,) = torch.autograd.grad(outputs[t], x, retain_graph=True)
        seen = gradient[0].abs().sum(dim=-1).nonzero().flatten().tolist()
        left = max([left, *(t - position for position in seen)])
        right = max([right, *(position - t for position in seen)])
    return left, right


@pytest.mark.parametrize("seeds", [range(first, 100, 10) for first in range(10)], ids=str)
def test_gradients_reach_as_far_as_declared_and_no_further(seeds):
    for seed in seeds:
        torch.manual_seed(seed)
        for stack, source in random_stacks(seed):
            declared = receptive_field(stack.layers)
            # A rectifier may shut off an outermost position of an unbounded field.
            least = [limit if limit < LENGTH else LENGTH - 2 for limit in declared]
            reached = [0, 0]
            for _ in range(TRIES):
                found = measured_reach(stack, source)
                assert all(each <= limit for each, limit in zip(found, declared)), (seed, stack)
                reached = [max(pair) for pair in zip(reached, found)]
                if all(each >= limit for each, limit in zip(reached, least)):
                    break
            else:
                raise AssertionError((seed, reached, declared, stack.layers))
