"""Training: options of small models, and the progress of fairseq-train."""

from __future__ import annotations

import time

import torch

from convs2s.common.logs import read_stats

from .runner import Runner

# Updates between two lines in the log of fairseq-train.
LOG_INTERVAL = 20


def device_options() -> list[object]:
    """fairseq's options for one GPU, or for the CPU if torch finds no GPU."""
    return ["--distributed-world-size", 1] if torch.cuda.is_available() else ["--cpu"]


def small_model(
    channels: int, encoder_layers: int, decoder_layers: int, decoder_kernel: int = 3
) -> list[object]:
    """fairseq's options for a small ConvS2S model; the kernels of the encoder have 3 tokens."""
    encoder = f"[({channels}, 3)] * {encoder_layers}"
    decoder = f"[({channels}, {decoder_kernel})] * {decoder_layers}"
    return (
        ["--task", "convs2s_translation", "--criterion", "convs2s_cross_entropy"]
        + ["--arch", "convs2s_iwslt_de_en", "--dropout", 0.1, "--label-smoothing", 0.1]
        + ["--encoder-embed-dim", channels, "--encoder-layers", encoder]
        + ["--decoder-embed-dim", channels, "--decoder-layers", decoder]
        + ["--decoder-out-embed-dim", channels]
    )


def optimization(updates: int, lr: float, max_tokens: int, seed: int) -> list[object]:
    """fairseq's options for a training run of this length with Adam.

    The learning rate rises for a tenth of the updates, and then falls to 0.
    """
    return (
        ["--optimizer", "adam", "--lr", lr, "--clip-norm", 1.0]
        + ["--lr-scheduler", "polynomial_decay", "--warmup-updates", max(1, updates // 10)]
        + ["--total-num-update", updates, "--max-tokens", max_tokens, "--seed", seed]
        + ["--no-epoch-checkpoints", "--num-workers", 0]
    )


def run_training(runner: Runner, title: str, command: list[object], updates: int) -> None:
    """Run a command of fairseq-train and print its progress.

    Args:
        runner: runs the command.
        title: the model's name, for the progress.
        command: the command, without options for the device and the log.
        updates: number of updates.
    """
    runner.step(f"Training {title}")
    runner.run(
        "train",
        [*command, *device_options(), "--log-format", "json", "--log-interval", LOG_INTERVAL],
        watch=TrainingProgress(runner, title, updates),
    )


class TrainingProgress:
    """Turns the JSON log of fairseq-train into lines of progress.

    Args:
        runner: prints the lines.
        title: the model's name.
        updates: number of updates of the whole training run.
    """

    def __init__(self, runner: Runner, title: str, updates: int):
        self.runner = runner
        self.title = title
        self.updates = updates
        self.start = time.monotonic()

    def __call__(self, line: str) -> None:
        stats = read_stats(line)
        if stats is None:
            return
        kind, values = stats
        if kind == "updates":
            seconds = int(time.monotonic() - self.start)
            self.runner.progress(
                f"  {self.title}  epoch {values['epoch']:.0f}"
                f"  update {values['num_updates']:.0f}/{self.updates}"
                f"  loss {values['loss']:g}  ppl {values['ppl']:g}"
                f"  {values['wps']:,.0f} tokens/s  {seconds // 60}:{seconds % 60:02}"
            )
        elif kind == "valid":
            self.runner.progress(
                f"  {self.title}  epoch {values['epoch']:.0f} done:"
                f" validation loss {values['loss']:g}  ppl {values['ppl']:g}"
            )
            if not self.runner.at_line_start:
                self.runner.say()
