"""The kinds of operations that the time of a workload goes into."""

import time

import pytest
import torch

from benchmarks.operations import COLUMNS, ELEMENTWISE, INTERPRETER, kind_of, shares


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mkldnn::_linear_pointwise", "products"),
        ("aten::addmm", "products"),
        ("aten::convolution_backward", "products"),
        ("aten::mkldnn_rnn_layer", "products"),
        ("aten::mkldnn_rnn_layer_backward", "products"),
        ("aten::_log_softmax_backward_data", "softmax and search"),
        ("aten::topk", "softmax and search"),
        ("aten::index_select", "copies"),
        ("aten::masked_fill_", "copies"),
        ("aten::mul_", ELEMENTWISE),
        ("_WinogradConv1d", INTERPRETER),
        ("EnsembleModel: forward_decoder", INTERPRETER),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name) == kind


def test_shares_add_up_to_the_whole_time():
    left, right = torch.randn(2, 500, 500)
    small = torch.randn(8)

    def multiply():
        for _ in range(20):
            left @ right

    def wait():
        time.sleep(0.05)
        small + small

    for run, largest in ((multiply, "products"), (wait, INTERPRETER)):
        run()
        found = shares(run)
        assert tuple(found) == COLUMNS and sum(found.values()) == pytest.approx(1.0, abs=1e-6)
        assert found[largest] > 0.6
