"""The loss of a batch, from features to gradients: time, and memory beyond what it is given."""

from argparse import Namespace
from typing import Callable, Dict

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.nn import functional as F

from convs2s_plugin.modules.cross_entropy import linear_cross_entropy

from .measure import alternate, peak_memory

LABEL_SMOOTHING = 0.1


def inputs(tokens: int, words: int, channels: int):
    """Features, weight, bias and target of so many target words."""
    torch.manual_seed(1)
    features = torch.randn(tokens, channels, requires_grad=True)
    weight = (torch.randn(words, channels) * channels**-0.5).requires_grad_()
    bias = torch.zeros(words, requires_grad=True)
    return features, weight, bias, torch.randint(words, (tokens,))


def ours(features, weight, bias, target) -> None:
    """This package's loss and its gradients."""
    linear_cross_entropy(features, weight, bias, target, LABEL_SMOOTHING).loss.backward()


def fairseqs(features, weight, bias, target) -> None:
    """The projection, softmax and loss of fairseq's label_smoothed_cross_entropy."""
    scores = F.linear(features, weight, bias)
    log_probabilities = F.log_softmax(scores, dim=-1, dtype=torch.float32)
    label_smoothed_nll_loss(log_probabilities, target, LABEL_SMOOTHING)[0].backward()


def prepare(work: Callable, sizes):
    """A small step, and one on inputs of these sizes that have gradients already."""
    given = inputs(*sizes)
    for tensor in given[:3]:
        tensor.grad = torch.zeros_like(tensor)
    return lambda: work(*inputs(64, 64, sizes[2])), lambda: work(*given)


def run(args: Namespace) -> Dict:
    """Times of both in turn, and the memory of each."""
    sizes = (args.sentences * args.length, args.words, args.channels)
    given = inputs(*sizes)

    def step(work):
        def one():
            for tensor in given[:3]:
                tensor.grad = None
            work(*given)

        return one

    times = alternate(step(ours), step(fairseqs), args.rounds)
    return {
        "seconds": times.summary(),
        "bytes": {
            "ours": peak_memory(prepare, ours, sizes),
            "peer": peak_memory(prepare, fairseqs, sizes),
        },
    }
