"""``convs2s architectures``: the tables of named architectures, with their parameter counts."""

import argparse
from itertools import groupby

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY

from ..base.architectures import fill_defaults
from ..convs2s.architectures import ARCHITECTURES, BASE
from ..convs2s.config import ConvS2SConfig
from ..convs2s.layer_lists import parse_layers
from ..convs2s.model import ConvS2SModel
from . import pervasive_sizes

HEAD = (
    "| `--arch` | encoder | decoder | receptive field: encoder, decoder | embedding channels "
    "| parameters | with embeddings | from |\n"
    "|---|---|---|---|---|---|---|---|"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The vocabulary that the last column of numbers counts with."""
    parser.add_argument(
        "--words", type=int, default=40000, help="types on each side (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the tables of both families; ``convs2s adl list`` has that of models in ADL."""
    print(table(args.words))
    print()
    print(pervasive_sizes.table(args.words))
    return 0


def table(words: int = 40000) -> str:
    """The named architectures, one a line.

    Args:
        words: V of the source and of the target, for the column "with embeddings".

    Returns:
        A Markdown table: layers as "count x channels (kernel width)", receptive fields in
        positions, embedding channels E, and parameters without and with the embedding matrices.
    """
    return "\n".join([HEAD] + [_row(name, words) for name in ARCHITECTURES])


def _row(name: str, words: int) -> str:
    options = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[name](options)
    cfg = ConvS2SConfig.from_namespace(options)
    fill_defaults(cfg, BASE)
    total = _parameters(cfg, words)
    per_word = total - _parameters(cfg, words - 1)
    cells = (
        f"`{name}`",
        _layers(cfg.encoder_layers),
        _layers(cfg.decoder_layers),
        f"{_receptive_field(cfg.encoder_layers)}, {_receptive_field(cfg.decoder_layers)}",
        str(cfg.encoder_embed_dim),
        f"{(total - per_word * words) / 1e6:.1f}M",
        f"{total / 1e6:.1f}M",
        ARCHITECTURES[name].source,
    )
    return f"| {' | '.join(cells)} |"


def _layers(text: str) -> str:
    runs = groupby(parse_layers(text), key=lambda layer: (layer.channels, layer.kernel_size))
    return ", ".join(f"{len(list(run))} x {width} ({kernel})" for (width, kernel), run in runs)


def _receptive_field(text: str) -> int:
    return 1 + sum(layer.kernel_size - 1 for layer in parse_layers(text))


def _parameters(cfg: ConvS2SConfig, words: int) -> int:
    symbols = Dictionary()
    symbols.symbols = [str(i) for i in range(words)]
    task = argparse.Namespace(source_dictionary=symbols, target_dictionary=symbols)
    with torch.device("meta"):
        model = ConvS2SModel.build_model(cfg, task)
    return sum(parameter.numel() for parameter in model.parameters())
