"""Estimate time and memory of the trainings of an experiment file on one GPU.

Counts the operations of one training step of each system on this CPU. Nothing is trained.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import torch
import yaml
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.setting import Setting  # noqa: E402
from benchmarks.workloads import training  # noqa: E402
from convs2s.nn.flops import count_matmul_flops  # noqa: E402

# fairseq-preprocess counts these on the text of the published archive.
PAIRS = 160_239
TOKENS = 4_035_591
TARGET_VOCABULARY = 6_632
# Mean length of a source sentence, its end included.
LENGTH = round(TOKENS / PAIRS)
# A share of the positions of a batch is padding, and a batch is rarely full.
FILLED = 0.9
# Mean of the product of both lengths over the product of their means: an assumption, for lengths
# that vary by 0.7 of their mean and are nearly proportional.
SPREAD = 1.5
# Epochs of a training that its learning rate ends: an assumption.
EPOCHS_TO_THE_END = 30
# Shares of the peaks that a training reaches, and the time from one operation to the next:
# assumptions.
ARITHMETIC, BANDWIDTH = 0.4, 0.7
SECONDS_PER_OPERATION = 10e-6
# Bytes of a number in fp32.
BYTES = 4


class Gpu(NamedTuple):
    """Peaks of a GPU: FLOP/s in fp32, and bytes/s of its memory."""

    flops: float
    bandwidth: float


GPUS = {"A100 (80 GB)": Gpu(19.5e12, 2.04e12), "H100 (SXM)": Gpu(67e12, 3.35e12)}


class Step(NamedTuple):
    """A training step: its matrix multiplications, tensors read and written, and operations."""

    flops: int
    elements: int
    operations: int
    parameters: int


class _Counter(TorchDispatchMode):
    """Counts operations that compute, and the elements that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = self.operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not function.is_view:
            self.operations += 1
            for value in torch.utils._pytree.tree_leaves((args, kwargs, result)):
                if isinstance(value, torch.Tensor):
                    self.elements += value.numel()
        return result


def count_step(arch: str, sentences: int, length: int) -> Step:
    """Count a training step without the optimizer."""
    setting = Setting(arch, words=TARGET_VOCABULARY, sentences=sentences, length=length)
    workload = training(setting)
    workload.warm_up()
    flops = count_matmul_flops(workload.run).flops
    with _Counter() as counter:
        workload.run()
    return Step(flops, counter.elements, counter.operations, workload.parameters)


def batch(options: dict) -> tuple[int, int, float]:
    """Sentences and length of an average batch, and updates in an epoch."""
    if "batch-size" in options:
        # Pervasive attention: a longer square with the mean number of cells.
        return options["batch-size"], round(LENGTH * SPREAD**0.5), PAIRS / options["batch-size"]
    sentences = round(options["max-tokens"] * FILLED / LENGTH)
    return sentences, LENGTH, TOKENS / (sentences * LENGTH)


def seconds(step: Step, gpu: Gpu) -> float:
    """The longest of the times for arithmetic, for memory, and for starting operations."""
    return max(
        step.flops / (ARITHMETIC * gpu.flops),
        BYTES * step.elements / (BANDWIDTH * gpu.bandwidth),
        step.operations * SECONDS_PER_OPERATION,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "file", nargs="?", type=Path, default=Path(__file__).parent / "iwslt14.yaml"
    )
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="default: all")
    args = parser.parse_args()
    systems = yaml.safe_load(args.file.read_text(encoding="utf-8"))["systems"]
    columns = ["system", "updates", "GFLOP/update", "GB/update", "operations"]
    print(f"| {' | '.join([*columns, *(f'hours, {name}' for name in GPUS)])} |")
    print("|" + "---|" * (len(columns) + len(GPUS)))
    for name in args.systems or systems:
        options = systems[name]["train"]
        sentences, length, per_epoch = batch(options)
        ends_earlier = options["lr-scheduler"] == "reduce_lr_on_plateau"
        updates = per_epoch * (EPOCHS_TO_THE_END if ends_earlier else options["max-epoch"])
        step = count_step(options["arch"], sentences, length)
        cells = [
            name,
            f"{updates:,.0f}",
            f"{step.flops / 1e9:,.0f}",
            f"{BYTES * step.elements / 1e9:.1f}",
            f"{step.operations:,}",
            *(f"{updates * seconds(step, gpu) / 3600:.2f}" for gpu in GPUS.values()),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
