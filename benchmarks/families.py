"""``families``: time and memory of each family for short and for long sentences.

The models are those that ``examples/multi30k/compare.yaml`` trains. Every batch has about the same
number of tokens, so that times and memory are those of the same text in longer sentences.
"""

import argparse
from typing import NamedTuple

from .machine import machine
from .measure import alternate, peak_memory, ratios, summary
from .options import add_device, add_numbers
from .setting import Setting, use_device
from .workloads import WORKLOADS

FAMILIES = {
    "ConvS2S": Setting("convs2s_iwslt_de_en"),
    "pervasive attention": Setting(
        "pervasive_iwslt_de_en", options=(("num_layers", 12), ("kernel_size", 3))
    ),
    "ADL: Transformer": Setting("adl_transformer_small"),
    "ADL: RNN with multi-head attention": Setting("adl_rnn_mh_pos_norm_multi_att_ff_small"),
    "ADL: CNN": Setting("adl_cnn_cnn_small"),
}
LENGTHS = 25, 50, 100, 200


class Point(NamedTuple):
    """A family and a length of its sentences, in tokens."""

    family: str
    length: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``families``."""
    add_numbers(parser, tokens=2000, rounds=5)
    add_device(parser)


def run(args: argparse.Namespace) -> dict:
    """Measure every family with every length.

    Returns:
        The peak memory of training steps in bytes, and the times of training steps and of beam
        search, relative to those of the first family with the shortest sentences.
    Raises:
        UserError: if torch has no such device.
    """
    use_device(args.device)
    settings = {
        Point(family, length): setting._replace(
            sentences=max(1, args.tokens // length), length=length, device=args.device
        )
        for family, setting in FAMILIES.items()
        for length in LENGTHS
    }
    memory = {
        point: peak_memory(args.device, WORKLOADS["train"], setting)
        for point, setting in settings.items()
    }
    return {
        "machine": machine(args.device),
        "tokens": args.tokens,
        "lengths": LENGTHS,
        "settings": {name: setting._asdict() for name, setting in FAMILIES.items()},
        "relative_times": {
            work: by_family(relative_times(work, settings, args.rounds))
            for work in ("train", "generate")
        },
        "peak_bytes_of_training": by_family(memory),
    }


def relative_times(
    work: str, settings: dict[Point, Setting], rounds: int
) -> dict[Point, dict[str, float]]:
    """The time of each point over that of the first one, in the same round."""
    workloads = {point: WORKLOADS[work](setting) for point, setting in settings.items()}
    for workload in workloads.values():
        workload.warm_up()
    device = next(iter(settings.values())).device
    timed = {point: workload.run for point, workload in workloads.items()}
    times = alternate(timed, rounds, warmup=1, device=device)
    first = next(iter(times.values()))
    return {point: summary(ratios(seconds, first)) for point, seconds in times.items()}


def by_family(values: dict[Point, object]) -> dict[str, list[object]]:
    """Family -> the values of its points, in the order of lengths."""
    found: dict[str, list[object]] = {}
    for point, value in values.items():
        found.setdefault(point.family, []).append(value)
    return found
