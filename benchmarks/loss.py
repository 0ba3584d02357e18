"""``loss``: time and memory of the loss of one batch, from features to gradients."""

import argparse
from collections.abc import Callable

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import Tensor
from torch.nn import functional as F

from convs2s.nn.cross_entropy import linear_cross_entropy

from .machine import machine
from .measure import alternate, peak_memory, ratios, summary
from .options import add_device, add_numbers
from .setting import use_device
from .workloads import LABEL_SMOOTHING


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``loss``."""
    add_numbers(parser, words=8000, tokens=1600, channels=256, rounds=10)
    add_device(parser)


def random_inputs(
    tokens: int, vocab_size: int, channels: int, device: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random features (tokens x C), weight (V x C), bias (V) and target (tokens)."""
    torch.manual_seed(1)
    features = torch.randn(tokens, channels).to(device).requires_grad_()
    weight = (torch.randn(vocab_size, channels) * channels**-0.5).to(device).requires_grad_()
    bias = torch.zeros(vocab_size, device=device, requires_grad=True)
    return features, weight, bias, torch.randint(vocab_size, (tokens,)).to(device)


def plugin_loss(features: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> None:
    """Compute this package's loss and its gradients."""
    linear_cross_entropy(features, weight, bias, target, LABEL_SMOOTHING).loss.backward()


def fairseq_loss(features: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> None:
    """Compute the output projection, fairseq's label_smoothed_cross_entropy and the gradients."""
    logits = F.linear(features, weight, bias)
    log_probabilities = F.log_softmax(logits, dim=-1, dtype=torch.float32)
    label_smoothed_nll_loss(log_probabilities, target, LABEL_SMOOTHING)[0].backward()


LOSSES = {"ours": plugin_loss, "peer": fairseq_loss}


def prepare(
    loss: Callable, sizes: tuple[int, int, int], device: str
) -> tuple[Callable[[], object], Callable[[], object]]:
    """A warm-up on small inputs, and one computation of the loss for ``peak_memory``.

    Gradients exist beforehand, so that they do not count.

    Args:
        loss: ``plugin_loss`` or ``fairseq_loss``.
        sizes: target tokens, vocabulary size and channels.
        device: one of setting.DEVICES.
    """
    inputs = random_inputs(*sizes, device)
    for tensor in inputs[:3]:
        tensor.grad = torch.zeros_like(tensor)
    return lambda: loss(*random_inputs(64, 64, sizes[2], device)), lambda: loss(*inputs)


def run(args: argparse.Namespace) -> dict:
    """Measure the times of both losses in turn, and the peak memory of each.

    Raises:
        UserError: if torch has no such device.
    """
    use_device(args.device)
    sizes = args.tokens, args.words, args.channels
    inputs = random_inputs(*sizes, args.device)

    def step(loss: Callable) -> Callable[[], None]:
        def run_step() -> None:
            for tensor in inputs[:3]:
                tensor.grad = None
            loss(*inputs)

        return run_step

    timed = {side: step(loss) for side, loss in LOSSES.items()}
    times = alternate(timed, args.rounds, device=args.device)
    seconds = {side: summary(values) for side, values in times.items()}
    seconds["ratio"] = summary(ratios(times["peer"], times["ours"]))
    peaks = {
        side: peak_memory(args.device, prepare, loss, sizes, args.device)
        for side, loss in LOSSES.items()
    }
    return {
        "work": "loss",
        "tokens": args.tokens,
        "words": args.words,
        "channels": args.channels,
        "ours": {"arch": "convs2s_cross_entropy", "dtype": "float32"},
        "peer": {"arch": "label_smoothed_cross_entropy", "dtype": "float32"},
        "machine": machine(args.device),
        "rounds": args.rounds,
        "seconds": seconds,
        "bytes": peaks,
    }
