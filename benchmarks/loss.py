"""The loss of a batch, from features to gradients: time, and memory beyond what it is given."""

import multiprocessing
import re
from argparse import Namespace
from pathlib import Path
from typing import Callable, Dict

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.nn import functional as F

from convs2s_plugin.modules.cross_entropy import linear_cross_entropy

from .measure import alternate

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


def _peak(work: Callable, sizes, threads: int, answer) -> None:
    """Send how much resident memory a first step takes beyond its inputs and their gradients."""
    torch.set_num_threads(threads)
    given = inputs(*sizes)
    for tensor in given[:3]:
        tensor.grad = torch.zeros_like(tensor)
    # A small step first, so that what libraries load once does not count.
    work(*inputs(64, 64, sizes[2]))
    before = _most_resident()
    work(*given)
    answer.send(_most_resident() - before)


def _most_resident() -> int:
    """The most bytes this process has had resident (Linux)."""
    # getrusage would count what the parent had before this process was started.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def memory(work: Callable, sizes) -> int:
    """Peak memory in bytes of one step, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_peak, args=(work, sizes, torch.get_num_threads(), send))
    process.start()
    peak = receive.recv()
    process.join()
    return peak


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
        "bytes": {"ours": memory(ours, sizes), "peer": memory(fairseqs, sizes)},
    }
