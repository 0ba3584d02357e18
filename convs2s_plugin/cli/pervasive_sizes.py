"""The table of pervasive attention's architectures and of the sizes that its paper tries."""

import argparse
from typing import Any

import torch
from fairseq.data import Dictionary

from ..base.architectures import fill_defaults
from ..pervasive.architectures import ARCHITECTURES, BASE
from ..pervasive.model import PervasiveConfig, PervasiveModel

HEAD = "| `--arch` | options | parameters | with words | from |\n|---|---|---|---|---|"

# Table 2 without its row of the base, and figure 4.
SIZES = [
    *(({"kernel_size": 3, "num_layers": layers}, "table 2") for layers in (16, 20)),
    *(({"num_layers": layers}, "table 2, figure 4") for layers in (8, 12, 16, 20, 28)),
    ({"kernel_size": 7, "num_layers": 12}, "table 2"),
    *(({"encoder_embed_dim": dim, "decoder_embed_dim": dim}, "figure 4") for dim in (64, 192, 256)),
    *(({"growth_rate": rate}, "figure 4") for rate in (8, 16, 24)),
]


def table(words: int) -> str:
    """The named architectures and the paper's other sizes, one a line.

    Args:
        words: types of the source and of the target, for the column "with words".
    Returns:
        A Markdown table: options beside ``--arch``, parameters without and with the tables of
        words, the masked half of each kernel included.
    """
    rows = [
        _row(name, "", architecture.options, architecture.source, words)
        for name, architecture in ARCHITECTURES.items()
    ]
    for options, source in SIZES:
        text = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
        rows.append(_row("pervasive_iwslt_de_en", f"`{text}`", options, source, words))
    return "\n".join([HEAD, *rows])


def _row(name: str, text: str, options: dict[str, Any], source: str, words: int) -> str:
    total = parameters(options, (words, words))
    per_word = total - parameters(options, (words - 1, words - 1))
    cells = (
        f"`{name}`",
        text,
        f"{(total - per_word * words) / 1e6:.2f}M",
        f"{total / 1e6:.2f}M",
        source,
    )
    return f"| {' | '.join(cells)} |"


def parameters(options: dict[str, Any], words: tuple[int, int]) -> int:
    """Parameters as the paper counts them: with the half of each kernel that is masked.

    Args:
        options: those that differ from the base.
        words: types of the source and of the target.
    """
    cfg = PervasiveConfig()
    for name, value in {**options, "max_source_positions": 1, "max_target_positions": 1}.items():
        setattr(cfg, name, value)
    fill_defaults(cfg, BASE)
    task = argparse.Namespace()
    task.source_dictionary, task.target_dictionary = map(_dictionary, words)
    with torch.device("meta"):
        model = PervasiveModel.build_model(cfg, task)
    masked = 0
    for layer in model.decoder.network.dense.layers:
        if layer.conv2 is not None:
            out, hidden, rows, size = layer.conv2.shape
            masked += out * hidden * size * (size - rows)
    return masked + sum(parameter.numel() for parameter in model.parameters())


def _dictionary(words: int) -> Dictionary:
    symbols = Dictionary()
    symbols.symbols = [str(i) for i in range(words)]
    return symbols
