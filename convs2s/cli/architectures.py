"""``convs2s architectures``: tables of the named architectures and their numbers of parameters."""

import argparse
from itertools import groupby

import torch

from ..models.convs2s.architectures import ARCHITECTURES
from ..models.convs2s.layer_lists import parse_layers
from ..models.convs2s.network import ConvS2S
from ..models.convs2s.options import ConvS2SOptions
from ..models.interface import Vocabularies
from . import pervasive_sizes

HEAD = (
    "| `--arch` | encoder | decoder | receptive field: encoder, decoder | embedding channels "
    "| parameters | with embeddings | from |\n"
    "|---|---|---|---|---|---|---|---|"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--words",
        type=int,
        default=40000,
        help="vocabulary size of each language (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the tables of ConvS2S and of pervasive attention."""
    print(table(args.words))
    print()
    print(pervasive_sizes.table(args.words))
    return 0


def table(vocabulary_size: int = 40000) -> str:
    """The named architectures of ConvS2S in Markdown, one per line.

    Args:
        vocabulary_size: V of source and target for the column "with embeddings" (40,000).
    Returns:
        A Markdown table: layers as "count x channels (kernel size)", receptive fields in
        positions, embedding channels E, and parameters without and with the embedding matrices.
    """
    return "\n".join([HEAD] + [_row(name, vocabulary_size) for name in ARCHITECTURES])


def _row(name: str, vocabulary_size: int) -> str:
    cfg = ConvS2SOptions(**ARCHITECTURES[name].options)
    total = _count_parameters(cfg, vocabulary_size)
    per_token = total - _count_parameters(cfg, vocabulary_size - 1)
    cells = (
        f"`{name}`",
        _layers(cfg.encoder_layers),
        _layers(cfg.decoder_layers),
        f"{_receptive_field(cfg.encoder_layers)}, {_receptive_field(cfg.decoder_layers)}",
        str(cfg.encoder_embed_dim),
        f"{(total - per_token * vocabulary_size) / 1e6:.1f}M",
        f"{total / 1e6:.1f}M",
        ARCHITECTURES[name].source,
    )
    return f"| {' | '.join(cells)} |"


def _layers(text: str) -> str:
    runs = groupby(parse_layers(text), key=lambda layer: (layer.channels, layer.kernel_size))
    return ", ".join(
        f"{len(list(run))} x {channels} ({kernel_size})" for (channels, kernel_size), run in runs
    )


def _receptive_field(text: str) -> int:
    return 1 + sum(layer.kernel_size - 1 for layer in parse_layers(text))


def _count_parameters(cfg: ConvS2SOptions, vocabulary_size: int) -> int:
    with torch.device("meta"):
        model = ConvS2S(cfg, Vocabularies(vocabulary_size, vocabulary_size))
    return sum(parameter.numel() for parameter in model.parameters())
