"""Weight normalization: W is kept between passes of evaluation, and never that of other weights."""

import copy
import pickle

import pytest
import torch

from convs2s.nn.linear import WeightNormLinear
from convs2s.translation.decoding import NetworkModel
from tests.support.batches import random_batch
from tests.support.families import tiny_convs2s


def update_in_place(layer):
    layer.weight_v.mul_(-1)


def update_by_data(layer):
    """As optimizers of fairseq do between training and evaluation mode."""
    layer.train()
    layer.weight_g.data.add_(1)
    layer.eval()


def update_after_gradients(layer):
    with torch.enable_grad():
        layer(torch.ones(6))
    layer.weight_g.data.add_(1)


def replace(layer):
    layer.weight_v = torch.nn.Parameter(torch.randn(4, 6))


def round_and_back(layer):
    """The memory of the old weights is free in between."""
    layer.half()
    layer.float()


def load(layer):
    layer.load_state_dict(WeightNormLinear(6, 4).state_dict())


CHANGES = [update_in_place, update_by_data, update_after_gradients, replace, round_and_back, load]


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_w_is_that_of_the_current_weights(change):
    torch.manual_seed(1)
    layer = WeightNormLinear(6, 4).eval()
    before = layer.effective_weight()
    assert layer.effective_weight() is before
    change(layer)
    after = layer.effective_weight()
    assert torch.equal(after, torch._weight_norm(layer.weight_v, layer.weight_g, 0))
    assert not torch.equal(after, before)


def test_w_has_a_graph_and_is_not_kept_in_training_or_with_gradients():
    layer = WeightNormLinear(6, 4)
    for mode in (True, False):
        with torch.set_grad_enabled(not mode):
            layer.train(mode)
            weight = layer.effective_weight()
            assert weight is not layer.effective_weight() and weight.requires_grad is not mode
    with torch.inference_mode():
        inside = WeightNormLinear(6, 4).eval()
        assert inside.effective_weight() is not inside.effective_weight()


@torch.no_grad()
def test_copies_do_not_contain_the_kept_w():
    layer = WeightNormLinear(6, 4).eval()
    weight = layer.effective_weight()
    for same in (copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert same._kept is None and torch.equal(same.effective_weight(), weight)
    layer.fold_()
    assert layer._kept is None and torch.equal(layer.weight, weight)


def test_folding_after_inference_mode_leaves_an_ordinary_weight():
    """One that gradients of the input flow through, as attributions need."""
    layer, x = WeightNormLinear(6, 4).eval(), torch.randn(3, 6, requires_grad=True)
    with torch.inference_mode():
        expected = layer(x).clone()
    layer.fold_()
    found = layer(x)
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, layer.weight.sum(dim=0).expand(3, 6))


def test_training_after_generation_sees_new_weights():
    model = tiny_convs2s().eval()
    batch = random_batch([(6, 5), (4, 3)])
    source, prefix = (batch["net_input"][key] for key in ("src_tokens", "prev_output_tokens"))

    @torch.no_grad()
    def generate(model):
        network = NetworkModel(model.eval())
        return network.start(network.encode(source)).step(prefix[:, :1])[0]

    before = generate(model)
    assert torch.equal(generate(model), before)
    model.train()
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    for update in (
        torch.optim.SGD(model.parameters(), 0.1).step,
        lambda: [parameter.data.add_(parameter.grad) for parameter in model.parameters()],
    ):
        model.train()
        update()
        after = generate(model)
        fresh = tiny_convs2s()
        fresh.load_state_dict(model.state_dict())
        assert torch.equal(after, generate(fresh)) and not torch.equal(after, before)
        before = after
