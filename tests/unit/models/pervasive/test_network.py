"""The network on its own: memory, precision, distributed statistics, errors, alignments."""

import pytest
import torch
from torch import distributed

from convs2s.common.errors import UserError
from convs2s.models.pervasive.batch_norm import batch_stats
from convs2s.models.pervasive.densenet import DenseNet2d
from convs2s.models.pervasive.feature_buffer import FeatureBuffer
from convs2s.models.pervasive.grid import Grid
from convs2s.models.pervasive.plain import PlainPervasive
from tests.support.commands import call_at_once
from tests.support.pervasive import SMALL, network, run, sentences, small


def saved_bytes(num_layers, length=12):
    """The memory that a training step saves for the backward pass, without the weights."""
    model = network(torch.float32, num_layers=num_layers)
    batch = sentences([(length, length)] * 2, dtype=torch.float32)[:2]
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    storages = {}

    def save(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        features = run(model, *batch)
    # As long as the graph lives, no two storages share an address.
    assert features.requires_grad
    return sum(storages.values())


def test_memory_grows_linearly_with_depth_and_with_cells():
    saved = [saved_bytes(layers) for layers in (2, 4, 8, 16)]
    growth = [(more - less) / n for less, more, n in zip(saved, saved[1:], (2, 4, 8))]
    assert max(growth) < 1.02 * min(growth)
    # A layer saves g new features and 4g hidden channels per cell, and widens the transition's
    # output by g / 2 channels: 22 numbers of 4 bytes for g = 4.
    num_cells = 2 * 12 * 12
    assert growth[0] < 1.1 * num_cells * 4 * 22
    assert saved_bytes(4, 24) < 4.1 * saved_bytes(4, 12)


def test_the_plain_network_normalizes_like_torch():
    batch = sentences([(7, 8), (7, 8)])[:2]
    plain, fused = (PlainPervasive(*small(), fused) for fused in (False, True))
    fused.load_state_dict(plain.state_dict())
    for model in (plain, fused):
        model.double()
    torch.testing.assert_close(plain(*batch), fused(*batch))
    torch.testing.assert_close(dict(plain.named_buffers()), dict(fused.named_buffers()))


def test_statistics_stay_in_single_precision():
    model = network().bfloat16()
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert {b.dtype for b in model.buffers()} == {torch.float32}
    cells = torch.randn(4096, 3, generator=torch.Generator().manual_seed(1)) + 100
    stats = batch_stats(cells.bfloat16(), torch.float32)
    exact = cells.bfloat16().double()
    torch.testing.assert_close(stats.mean.double(), exact.mean(dim=0), rtol=1e-5, atol=0)
    torch.testing.assert_close(
        stats.var.double(), exact.var(dim=0, unbiased=False), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_under_autocast_are_nearly_those_of_single_precision(dtype):
    gradients = []
    for enabled in (False, True):
        model = network(torch.float32, aggregator="avg", kernel_size=5)
        batch = sentences(left_source=True, dtype=torch.float32)
        with torch.autocast("cpu", dtype, enabled=enabled):
            features = run(model, *batch)
        assert features.dtype == (dtype if enabled else torch.float32)
        features[~batch[3]].float().sin().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        assert gradients[-1].dtype == torch.float32
    single, half = gradients
    assert (single - half).norm() < 0.1 * single.norm()
    assert torch.nn.functional.cosine_similarity(single, half, dim=0) > 0.995


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_are_not_rounded_on_the_way_to_half_precision(dtype):
    model = network(torch.float32)
    for buffer in model.buffers():
        buffer.mul_(1e6).add_(1e-9)
    exact = {name: buffer.clone() for name, buffer in model.named_buffers()}
    torch.testing.assert_close(dict(model.to(dtype).named_buffers()), exact, rtol=0, atol=0)


def test_the_gradient_of_the_output_is_only_read():
    """It belongs to autograd: here it is expanded, and used for two networks."""
    models = [network(seed=seed, no_transition=seed == 2).dense for seed in (1, 2)]
    grid = Grid(1, 3, 4)
    channels = models[0].channels - SMALL["num_layers"] * SMALL["growth_rate"]
    cells = torch.randn(12, channels, dtype=torch.float64)
    for model in models:
        outputs = model(cells, grid)
        weight = model.layers[0].conv1
        (expected,) = torch.autograd.grad(
            (outputs * torch.ones_like(outputs)).sum(), weight, retain_graph=True
        )
        (found,) = torch.autograd.grad(outputs.sum(), weight, retain_graph=True)
        torch.testing.assert_close(found, expected)
        given = torch.ones_like(outputs)
        torch.autograd.grad(outputs, weight, given)
        assert torch.equal(given, torch.ones_like(outputs))


def test_gradients_of_a_single_target_token():
    model = network(aggregator="avg")
    batch = sentences([(1, 5)])

    def loss():
        return run(model, *batch).sin().sum()

    weight = model.dense.layers[0].conv1
    loss().backward()
    with torch.no_grad():
        weight[0, 0] += 1e-6
        above = loss()
        weight[0, 0] -= 2e-6
        numeric = (above - loss()) / 2e-6
    assert abs(numeric) > 1e-4
    torch.testing.assert_close(weight.grad[0, 0], numeric, rtol=1e-4, atol=0)


def test_training_with_padding_in_a_graph_is_refused():
    model = network()
    # Without fullgraph, torch may leave the graph at the error and compute without one.
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    source, *rest = sentences([(3, 4), (2, 4)])
    with pytest.raises(RuntimeError, match="cannot be trained with padding in a graph"):
        compiled(model.source(source), *rest)


def test_padding_is_not_computed():
    num_cells = []
    read = FeatureBuffer.read

    def counted(self, *arguments):
        num_cells.append(self.spans[-1].stop)
        return read(self, *arguments)

    model = network()
    FeatureBuffer.read = counted
    try:
        run(model, *sentences())
    finally:
        FeatureBuffer.read = read
    assert set(num_cells) == {13 * 12 + 9 * 16 + 16 * 5}


def _worker(rank, path, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    model = network(local_statistics=False)
    batch = [tensor[2 * rank : 2 * rank + 2] for tensor in sentences([(5, 7)] * 2 + [(9, 4)] * 2)]
    gradients, buffers = _gradients(model, batch)
    for gradient in gradients:
        distributed.all_reduce(gradient)
    if rank == 0:
        torch.save((gradients, buffers), path)
    distributed.destroy_process_group()


def _gradients(model, batch):
    features = run(model, *batch)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(features[~batch[3]].sin().sum(), parameters)
    return list(gradients), dict(model.named_buffers())


def test_two_workers_share_the_statistics_of_their_cells(tmp_path):
    path = str(tmp_path / "result")
    assert call_at_once(_worker, [(rank, path, str(tmp_path)) for rank in range(2)]) == [0, 0]
    actual = torch.load(path, weights_only=True)
    expected = _gradients(network(), sentences([(5, 7)] * 2 + [(9, 4)] * 2))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["max", "avg"])
def test_contributions_of_source_positions_add_up_to_the_logit(name):
    model = network(aggregator=name).eval()
    batch = sentences(left_source=True)
    features, last = model(model.source(batch[0]), *batch[1:])
    token_vector = torch.randn(features.size(-1), dtype=features.dtype)
    token_weights = (token_vector @ model.output.weight).expand(*features.shape[:2], -1)
    alpha = model.aggregator.contributions(last.cells, last.grid, token_weights)
    real = ~batch[3]
    logit = (features - model.output.bias) @ token_vector
    torch.testing.assert_close(alpha.sum(dim=-1)[real], logit[real])
    assert not alpha[batch[2].unsqueeze(1).expand_as(alpha)].any()
    weights = model.alignment(last, token_vector.expand_as(features))
    in_source = ~batch[2][0]
    torch.testing.assert_close(weights[0][:, in_source], alpha[0][:, in_source].softmax(dim=-1))
    assert not weights[0][:, ~in_source].any()


def test_contributions_to_the_maximum_follow_equation_7():
    """Against the sums of the equation in loops."""
    model = network(aggregator="max").eval()
    batch = sentences([(3, 4)])[:2]
    _, last = model(model.source(batch[0]), batch[1])
    grid = last.grid.unpack(last.cells)[0]
    token_weights = torch.randn(1, 3, grid.size(-1), dtype=grid.dtype)
    expected = torch.zeros(3, 4, dtype=grid.dtype)
    for i in range(3):
        for d in range(grid.size(-1)):
            j = int(grid[i, :, d].argmax())
            expected[i, j] += token_weights[0, i, d] * grid[i, j, d]
    actual = model.aggregator.contributions(last.cells, last.grid, token_weights)
    torch.testing.assert_close(actual[0], expected)


def test_the_joint_alignment_is_the_mean_of_attention_weights_and_contributions():
    model = network(aggregator="max+attn").eval()
    batch = sentences()
    features, last = model(model.source(batch[0]), *batch[1:])
    maximum, attention = model.aggregator.parts
    token_vectors = torch.randn_like(features)
    rho = attention.alignment(last.cells, last.grid, None)
    token_weights = (token_vectors @ model.output.weight)[..., : maximum.out_channels]
    of_maximum = maximum.alignment(last.cells, last.grid, token_weights)
    torch.testing.assert_close(model.alignment(last, token_vectors), (rho + of_maximum) / 2)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(encoder_embed_dim=0), "--encoder-embed-dim is 0, but must be from 1 to 65536"),
        (dict(num_layers=0), "--num-layers is 0, but must be from 1 to 1000"),
        (dict(num_layers=10**6), "--num-layers is 1000000, but must be from 1 to 1000"),
        (dict(growth_rate=-1), "--growth-rate is -1, but must be from 1 to 65536"),
        (dict(kernel_size=4), "--kernel-size is 4, but must be odd"),
        (dict(kernel_size=1025), "--kernel-size is 1025, but must be from 1 to 1023"),
        (dict(bottleneck=0), "--bottleneck is 0, but must be from 1 to 64"),
        (dict(decoder_embed_dim=0), "--decoder-embed-dim is 0, but must be from 1 to 65536"),
        (
            dict(aggregator="sum"),
            "--aggregator is 'sum', but must be one of max, avg, attn, max.attn",
        ),
    ],
)
def test_invalid_sizes_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        small(**options)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_features_under_autocast_are_nearly_those_of_single_precision(dtype):
    model = network(torch.float32, kernel_size=5, num_layers=6).eval()
    batch = sentences(left_source=True, dtype=torch.float32)
    single = run(model, *batch)[~batch[3]]
    with torch.autocast("cpu", dtype):
        half = run(model, *batch)[~batch[3]]
    assert half.dtype == dtype
    allowed = {torch.bfloat16: 0.03, torch.float16: 0.003}[dtype]
    assert (single - half.float()).norm() < allowed * single.norm()


def test_a_grid_without_cells():
    model = DenseNet2d(small()[0], channels=7).eval()
    grid = Grid(1, 1, 3, target_padding=torch.ones(1, 1, dtype=torch.bool))
    with torch.no_grad():
        assert model(torch.zeros(0, 7), grid).shape == (0, 9)
