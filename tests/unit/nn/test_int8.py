"""Products in 8 bits are those of the quantized numbers; what is replaced, saved and restored."""

import copy
import pickle

import pytest
import torch
from torch.nn import functional as F

from convs2s.nn import int8
from convs2s.nn.conv1d import conv1d
from convs2s.nn.embedding import EmbeddingMatrix
from convs2s.nn.int8 import Int8Matrix, dequantize_weights_, quantize_rows
from convs2s.nn.linear import Linear, linear
from convs2s.nn.output import TiedOutputProjection
from tests.support.families import make

needs_int8 = pytest.mark.skipif(not int8.is_supported(), reason="needs a CPU with VNNI or AMX")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def clear(*shape, seed=0):
    """Random rows whose quantized numbers do not depend on how a half is rounded."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-126, 127, shape, generator=generator)
    x = x + 0.6 * torch.rand(shape, generator=generator) - 0.3
    x[..., 0] = 127
    return x / 50


def quantized(x):
    """Each row as the nearest multiples of 1/127 of its largest absolute value, in float64."""
    step = x.double().abs().amax(dim=-1, keepdim=True).clamp(min=1e-300) / 127
    return (x.double() / step).round() * step


def test_rows_of_large_and_small_numbers_and_of_zeros():
    x = random(5, 7) * torch.tensor([1e30, 1.0, 1e-20, 0.0, 1e-35]).unsqueeze(1)
    integers, scales = quantize_rows(x)
    assert integers.dtype == torch.int8
    assert integers.abs().amax(dim=1).tolist() == [127, 127, 127, 0, 0]
    restored = integers.double() * scales.double()
    torch.testing.assert_close(restored[:3], quantized(x)[:3], rtol=1e-6, atol=0)


@needs_int8
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 130, 64), (300, 257, 2100)])
def test_a_product_is_that_of_the_quantized_numbers(shape, bias):
    rows, channels, outputs = shape
    scales = torch.rand(2, rows, 1, generator=torch.Generator().manual_seed(3)) + 0.1
    x, weight = clear(2, rows, channels) * scales, clear(outputs, channels, seed=1)
    b = random(outputs, seed=2) if bias else None
    expected = F.linear(quantized(x), quantized(weight), None if b is None else b.double())
    actual = linear(x, Int8Matrix(weight), b)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5 * channels**0.5)


@needs_int8
def test_extreme_numbers_do_not_saturate():
    x, weight = torch.ones(4, 4096), -torch.ones(16, 4096)
    torch.testing.assert_close(linear(x, Int8Matrix(weight)), torch.full((4, 16), -4096.0))


@needs_int8
def test_no_tokens_and_numbers_that_are_none():
    matrix = Int8Matrix(random(4, 3))
    assert linear(torch.zeros(0, 5, 3), matrix).shape == (0, 5, 4)
    x = random(2, 3)
    x[1, 1] = float("nan")
    assert linear(x, matrix).isnan().tolist() == [[False] * 4, [True] * 4]


@needs_int8
def test_rows_that_are_not_contiguous():
    x, matrix = random(6, 5).t(), Int8Matrix(random(4, 6))
    torch.testing.assert_close(linear(x, matrix), linear(x.contiguous(), matrix), rtol=0, atol=0)


@needs_int8
@pytest.mark.parametrize("kernel_size", [2, 3])
def test_a_convolution_quantizes_each_window(kernel_size):
    """Also where single precision takes Winograd's algorithm."""
    x, weight = clear(8, 64, 128), clear(32, kernel_size * 128, seed=1)
    bias = random(32, seed=2)
    padded = F.pad(x, (0, 0, kernel_size - 1, 0))
    windows = torch.cat([padded[:, i : i + 64] for i in range(kernel_size)], dim=-1)
    expected = quantized(windows) @ quantized(weight).t() + bias
    actual = conv1d(x, Int8Matrix(weight), bias, kernel_size, causal=True)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-4)


def test_without_the_instructions_the_rounded_weights_are_used(monkeypatch):
    monkeypatch.setattr(int8, "is_supported", lambda: False)
    x, weight, bias = random(3, 5), random(4, 5, seed=1), random(4, seed=2)
    expected = F.linear(x, quantized(weight).float(), bias)
    torch.testing.assert_close(linear(x, Int8Matrix(weight), bias), expected)


def test_rows_of_a_matrix():
    weight, index = random(9, 4), torch.tensor([[3, 3, 0], [8, 1, 3]])
    matrix = Int8Matrix(weight)
    torch.testing.assert_close(matrix.look_up(index), quantized(weight)[index].float())
    some = matrix.select(index[1])
    assert len(some) == 3
    torch.testing.assert_close(some.dense(), quantized(weight)[index[1]].float())


def test_tied_embeddings_stay_one_matrix_in_copies_and_files():
    words = EmbeddingMatrix(9, 4, 1)
    model = torch.nn.ModuleList([words, TiedOutputProjection(words), Linear(4, 4)])
    expected = quantized(words.weight.detach()).float()
    int8.quantize_weights_(model)
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other[0].weight is other[1].words.weight
        assert [name for name, p in other.named_parameters() if p.dim() > 1] == []
        torch.testing.assert_close(other[0](torch.arange(9)), expected)
    dequantize_weights_(model)
    assert isinstance(words.weight, torch.nn.Parameter)
    torch.testing.assert_close(words.weight.data, expected)


@pytest.mark.parametrize("name", ["convs2s", "adl-transformer", "pervasive"])
def test_a_network_that_is_quantized_stays_as_it_is(name):
    network = make(name)
    network.quantize_()
    expected = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    network.quantize_()
    found = network.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())
