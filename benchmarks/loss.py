"""The loss of a batch, from features to gradients: time, and memory beyond what it is given."""

import argparse
from collections.abc import Callable

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.nn import functional as F

from convs2s_plugin.nn.cross_entropy import linear_cross_entropy

from .machine import machine
from .measure import alternate, peak_memory, ratios, summary
from .setting import DEVICES, at_least, use_device
from .work import LABEL_SMOOTHING


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``loss``."""
    add = parser.add_argument
    add("--words", type=at_least(10), default=8000, help="types (default: %(default)s)")
    add("--tokens", type=at_least(1), default=1600, help="words of a batch (default: %(default)s)")
    add("--channels", type=at_least(1), default=256, help="of features (default: %(default)s)")
    add("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
    add("--rounds", type=at_least(1), default=10, help="default: %(default)s")


def inputs(tokens: int, words: int, channels: int, device: str):
    """Features, weight, bias and target of so many target words."""
    torch.manual_seed(1)
    features = torch.randn(tokens, channels).to(device).requires_grad_()
    weight = (torch.randn(words, channels) * channels**-0.5).to(device).requires_grad_()
    bias = torch.zeros(words, device=device, requires_grad=True)
    return features, weight, bias, torch.randint(words, (tokens,)).to(device)


def ours(features, weight, bias, target) -> None:
    """This package's loss and its gradients."""
    linear_cross_entropy(features, weight, bias, target, LABEL_SMOOTHING).loss.backward()


def fairseqs(features, weight, bias, target) -> None:
    """The projection, softmax and loss of fairseq's label_smoothed_cross_entropy."""
    scores = F.linear(features, weight, bias)
    log_probabilities = F.log_softmax(scores, dim=-1, dtype=torch.float32)
    label_smoothed_nll_loss(log_probabilities, target, LABEL_SMOOTHING)[0].backward()


def prepare(work: Callable, sizes: tuple[int, int, int], device: str):
    """A small step, and one on inputs of these sizes that have gradients already."""
    given = inputs(*sizes, device)
    for tensor in given[:3]:
        tensor.grad = torch.zeros_like(tensor)
    return lambda: work(*inputs(64, 64, sizes[2], device)), lambda: work(*given)


def run(args: argparse.Namespace) -> dict:
    """Times of both in turn, and the memory of each.

    Raises:
        UserError: where there is no such device.
    """
    use_device(args.device)
    sizes = args.tokens, args.words, args.channels
    given = inputs(*sizes, args.device)

    def step(work):
        def one():
            for tensor in given[:3]:
                tensor.grad = None
            work(*given)

        return one

    pieces = {"ours": step(ours), "peer": step(fairseqs)}
    times = alternate(pieces, args.rounds, device=args.device)
    seconds = {side: summary(values) for side, values in times.items()}
    seconds["ratio"] = summary(ratios(times["peer"], times["ours"]))
    held = {
        side: peak_memory(args.device, prepare, work, sizes, args.device)
        for side, work in (("ours", ours), ("peer", fairseqs))
    }
    return {
        "what": "loss",
        "tokens": args.tokens,
        "words": args.words,
        "channels": args.channels,
        "ours": {"arch": "convs2s_cross_entropy", "dtype": "float32"},
        "peer": {"arch": "label_smoothed_cross_entropy", "dtype": "float32"},
        "machine": machine(args.device),
        "rounds": args.rounds,
        "seconds": seconds,
        "bytes": held,
    }
