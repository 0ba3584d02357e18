"""Incremental decoding: equal to the full pass, at a cost per step that does not grow."""

import pytest
import torch

from convs2s.models.pervasive import densenet_inference
from convs2s.nn.state import State
from tests.support.pervasive import SMALL, network, run, sentences, twins

OPTIONS = {
    "max": dict(kernel_size=5),
    "joint, gated": dict(aggregator="max+attn", gated=True),
    "avg, wide": dict(aggregator="avg", kernel_size=7, no_halving=True),
    "attn, one position": dict(aggregator="attn", kernel_size=1, no_transition=True),
}


def stepwise(model, projected, target, source_padding, target_padding, chunks):
    """The features of the target, computed chunk by chunk.

    Args:
        projected: the source projection.
        chunks: the number of positions in each step.
    """
    state, start, outputs = State(), 0, []
    for chunk in chunks:
        now = slice(start, start + chunk)
        padding = None if target_padding is None else target_padding[:, now]
        outputs.append(model(projected, target[:, now], source_padding, padding, state)[0])
        start += chunk
    assert start == target.size(1)
    return torch.cat(outputs, dim=1)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("chunks", [(1,) * 16, (5, 1, 1, 9), (2, 14)])
@torch.no_grad()
def test_steps_equal_the_full_pass_and_the_plain_network(options, left, chunks):
    model, plain = (twin.eval() for twin in twins(**OPTIONS[options]))
    batch = sentences(left_source=not left, left_target=left)
    real = ~batch[3]
    expected = run(model, *batch)[real]
    torch.testing.assert_close(plain(*batch)[real], expected)
    projected = model.source(batch[0])
    torch.testing.assert_close(stepwise(model, projected, *batch[1:], chunks)[real], expected)


@torch.no_grad()
def test_hypotheses_of_a_beam_share_their_source_and_are_reordered():
    model = network().eval()
    source, _, padding, _ = sentences([(1, 8), (1, 5)])
    beam_size, steps = 3, 7
    target = torch.randn(2 * beam_size, steps, SMALL["decoder_embed_dim"], dtype=source.dtype)
    projected = model.source(source)
    state = State()
    for t in range(4):
        model(projected, target[:, t : t + 1], padding, None, state)
    order = torch.tensor([2, 0, 0, 5, 4, 4])
    state.reorder_(order)
    target = target[order]
    sentence = torch.arange(2).repeat_interleave(beam_size)
    expected = run(model, source[sentence], target, padding[sentence])
    for t in range(4, steps):
        actual, _ = model(projected, target[:, t : t + 1], padding, None, state)
        torch.testing.assert_close(actual[:, 0], expected[:, t])


@torch.no_grad()
def test_the_cost_of_a_step_does_not_depend_on_the_prefix(monkeypatch):
    model = network(kernel_size=5).eval()
    source, target, *_ = sentences([(40, 6)])
    projected, state, num_cells = model.source(source), State(), []
    linear = densenet_inference.linear

    def counted(x, *arguments):
        num_cells.append(len(x))
        return linear(x, *arguments)

    monkeypatch.setattr(densenet_inference, "linear", counted)
    sizes = []
    for t in range(40):
        model(projected, target[:, t : t + 1], state=state)
        tensors = [tensor for part in state.walk() for tensor in part.rows.values()]
        sizes.append(sum(tensor.numel() for tensor in tensors))
    assert set(num_cells) == {6}
    # g channels for each layer, source position and one of the next two target positions.
    assert set(sizes) == {SMALL["num_layers"] * SMALL["growth_rate"] * 6 * 2}


@torch.no_grad()
def test_a_step_with_padding_in_all_hypotheses():
    model = network().eval()
    source, target, *_ = sentences([(4, 6)])
    padding = torch.tensor([[True, False, False, False]])
    expected = run(model, source, target[:, 1:])
    actual = stepwise(model, model.source(source), target, None, padding, (1, 1, 1, 1))
    torch.testing.assert_close(actual[:, 1:], expected)


@torch.no_grad()
def test_weights_are_folded_once_per_search():
    model = network(torch.float32).eval()
    source, target, *_ = sentences([(3, 6)], dtype=torch.float32)
    projected, state = model.source(source), State()
    expected = run(model, source, target)
    outputs, passes = [], []
    with torch.autocast("cpu", torch.bfloat16):
        for t in range(3):
            outputs.append(model(projected, target[:, t : t + 1], state=state)[0])
            passes += [p.constants["inference_pass"] for p in state.walk() if p.constants]
    assert len(passes) == 3 and passes[0] is passes[1] is passes[2]
    assert passes[0].layers[0].conv2.dtype == torch.bfloat16
    assert (torch.cat(outputs, dim=1) - expected).abs().max() < 0.05 * expected.abs().max()
