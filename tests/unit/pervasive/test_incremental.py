"""Generation row by row: equal to the full pass, at a cost that no longer prefix changes."""

import pytest
import torch

from convs2s_plugin.decoding.state import State
from convs2s_plugin.pervasive import densenet_inference
from tests.pervasive import SIZES, network, run, sentences, twins

OPTIONS = {
    "max": dict(kernel_size=5),
    "joint, gated": dict(aggregator_name="max+attn", gated=True),
    "avg, wide": dict(aggregator_name="avg", kernel_size=7, halve_input=False),
    "attn, one position": dict(aggregator_name="attn", kernel_size=1, transition=False),
}


def stepwise(model, share, target, source_padding, target_padding, chunks):
    """Features of the target, so many positions at a time, and the state that is left."""
    state, seen, outputs = State(), 0, []
    for chunk in chunks:
        now = slice(seen, seen + chunk)
        padding = None if target_padding is None else target_padding[:, now]
        outputs.append(model(share, target[:, now], source_padding, padding, state)[0])
        seen += chunk
    assert seen == target.size(1)
    return torch.cat(outputs, dim=1), state


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("chunks", [(1,) * 16, (5, 1, 1, 9), (2, 14)])
@torch.no_grad()
def test_step_by_step_is_the_full_pass_and_the_plain_network(options, left, chunks):
    model, plain = (twin.eval() for twin in twins(**OPTIONS[options]))
    batch = sentences(left_source=not left, left_target=left)
    real = ~batch[3]
    expected = run(model, *batch)[real]
    torch.testing.assert_close(plain(*batch)[real], expected)
    share = model.source(batch[0])
    actual, _ = stepwise(model, share, *batch[1:], chunks)
    torch.testing.assert_close(actual[real], expected)


@torch.no_grad()
def test_hypotheses_of_a_beam_share_their_source_and_change_places():
    model = network().eval()
    source, _, padding, _ = sentences([(1, 8), (1, 5)])
    beam, steps = 3, 7
    target = torch.randn(2 * beam, steps, SIZES["target_dim"], dtype=source.dtype)
    share = model.source(source)
    state = State()
    for t in range(4):
        model(share, target[:, t : t + 1], padding, None, state)
    order = torch.tensor([2, 0, 0, 5, 4, 4])
    state.reorder_(order)
    target = target[order]
    spread = torch.arange(2).repeat_interleave(beam)
    expected = run(model, source[spread], target, padding[spread])
    for t in range(4, steps):
        actual, _ = model(share, target[:, t : t + 1], padding, None, state)
        torch.testing.assert_close(actual[:, 0], expected[:, t])


@torch.no_grad()
def test_a_step_costs_the_same_after_any_prefix(monkeypatch):
    model = network(kernel_size=5).eval()
    source, target, *_ = sentences([(40, 6)])
    share, state, cells = model.source(source), State(), []
    linear = densenet_inference.linear

    def counted(x, *arguments):
        cells.append(len(x))
        return linear(x, *arguments)

    monkeypatch.setattr(densenet_inference, "linear", counted)
    sizes = []
    for t in range(40):
        model(share, target[:, t : t + 1], state=state)
        kept = [tensor for part in state.walk() for tensor in part.rows.values()]
        sizes.append(sum(tensor.numel() for tensor in kept))
    assert set(cells) == {6}
    # g channels of each layer and source position, for each of the two rows to come.
    layers, growth = SIZES["num_layers"], SIZES["growth_rate"]
    assert set(sizes) == {layers * growth * 6 * 2}


@torch.no_grad()
def test_a_step_in_which_all_hypotheses_have_padding():
    model = network().eval()
    source, target, *_ = sentences([(4, 6)])
    padding = torch.tensor([[True, False, False, False]])
    share = model.source(source)
    expected = run(model, source, target[:, 1:])
    actual, _ = stepwise(model, share, target, None, padding, (1, 1, 1, 1))
    torch.testing.assert_close(actual[:, 1:], expected)


@torch.no_grad()
def test_weights_are_folded_once_a_search():
    model = network(torch.float32).eval()
    source, target, *_ = sentences([(3, 6)], dtype=torch.float32)
    share, state = model.source(source), State()
    expected = run(model, source, target)
    outputs, kept = [], []
    with torch.autocast("cpu", torch.bfloat16):
        for t in range(3):
            outputs.append(model(share, target[:, t : t + 1], state=state)[0])
            (weights,) = (part.constants["folded"] for part in state.walk() if part.constants)
            kept.append(weights)
    assert kept[0] is kept[1] is kept[2] and kept[0][0].conv2.dtype == torch.bfloat16
    assert (torch.cat(outputs, dim=1) - expected).abs().max() < 0.05 * expected.abs().max()
