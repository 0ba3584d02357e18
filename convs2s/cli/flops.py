"""``convs2s flops``: parameters and training cost of architectures."""

import argparse
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.tables import Table, number, show
from .arguments import add_flag, add_number

# Source and target vocabulary sizes that give all counts of Table 2 within 0.5%. Only their sum
# follows from the counts; section 4.1 says "around 12K and 9K".
PAPER_VOCABULARY = (11_830, 9_000)
# Size of both vocabularies for the named architectures.
WORDS = 40_000
MIN_WORDS = 10
BASE = "pervasive_iwslt_de_en"


class Published(NamedTuple):
    """A model in Elbayad et al. (2018).

    Attributes:
        arch: the architecture.
        options: options of fairseq-train that differ from it, separated by spaces.
        source: the tables and figures with the model.
        parameters: the published number; empty if there is none.
        cost: the published training cost, without its power of ten; empty if there is none.
    """

    arch: str
    options: str
    source: str
    parameters: str = ""
    cost: str = ""


PUBLISHED = (
    Published("pervasive_iwslt_de_en_avg", "", "Table 1", "7.18M", "3.63"),
    Published(BASE, "", "Tables 1, 2", "7.18M", "3.44"),
    Published("pervasive_iwslt_de_en_attn", "", "Table 1", "7.24M", "3.61"),
    Published("pervasive_iwslt_de_en_gated", "", "Table 1", "9.64M", "3.49"),
    Published("pervasive_iwslt_de_en_max_attn", "", "Tables 1, 3", "7.24M", "3.51"),
    Published("pervasive_iwslt_en_de", "", "Table 3", "7M"),
    Published(BASE, "--kernel-size 3 --num-layers 16", "Table 2", "4.32M", "2.47"),
    Published(BASE, "--kernel-size 3 --num-layers 20", "Table 2", "4.92M", "3.03"),
    Published(BASE, "--num-layers 8", "Table 2, Figure 4", "3.88M", "0.63"),
    Published(BASE, "--num-layers 12", "Table 2, Figure 4", "4.59M", "2.61"),
    Published(BASE, "--num-layers 16", "Table 2, Figure 4", "5.37M", "3.55"),
    Published(BASE, "--num-layers 20", "Table 2, Figure 4", "6.23M", "3.01"),
    Published(BASE, "--num-layers 28", "Table 2, Figure 4", "8.21M", "5.35"),
    Published(BASE, "--kernel-size 7 --num-layers 12", "Table 2", "5.76M", "2.76"),
    Published(BASE, "--encoder-embed-dim 64 --decoder-embed-dim 64", "Figure 4"),
    Published(BASE, "--encoder-embed-dim 192 --decoder-embed-dim 192", "Figure 4"),
    Published(BASE, "--encoder-embed-dim 256 --decoder-embed-dim 256", "Figure 4"),
    Published(BASE, "--growth-rate 8", "Figure 4"),
    Published(BASE, "--growth-rate 16", "Figure 4"),
    Published(BASE, "--growth-rate 24", "Figure 4"),
    Published("adl_rnnsearch", "", "Table 3", "6M", "1.79"),
    Published("transformer", "", "Table 3", "59M", "3.53"),
    Published("convs2s_iwslt_de_en_deep", "", "Table 3", "21M", "1.35"),
)
HEADERS = (
    "model",
    "parameters",
    "with embeddings",
    "GFLOP per sentence pair",
    "PFLOP per training run",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = (
        "an architecture of this package or of fairseq; options of fairseq-train that "
        "change it may follow (default: the models in Tables 1 to 3 of Elbayad et al. 2018, with "
        "their published figures)"
    )
    parser.add_argument("--arch", metavar="NAME", help=text)
    text = (
        "print the tables of all named architectures of ConvS2S and pervasive attention "
        "instead; `convs2s architectures` does the same"
    )
    add_flag(parser, "--named", text)
    text = "with --named: size of each vocabulary"
    add_number(parser, "--words", text, WORDS, least=MIN_WORDS)
    for side, size in zip(("source", "target"), PAPER_VOCABULARY):
        text = f"size of the {side} vocabulary, as in the paper"
        add_number(parser, f"--{side}-words", text, size, least=MIN_WORDS)
    for option, default, text in (
        ("--length", 25, "tokens in each source and target sentence"),
        ("--sentence-pairs", 160_000, "sentence pairs in an epoch of training"),
        ("--epochs", 40, "epochs"),
    ):
        add_number(parser, option, text, default, least=1)
    add_flag(parser, "--json", "print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Print a table, or with ``--named`` two."""
    if args.arch is None and args.forwarded:
        raise UserError(f"{args.forwarded[0]} changes a model: give one with --arch.")
    if args.arch and args.named:
        raise UserError("--named prints the tables of all architectures: omit it or --arch.")
    _check_words(args)
    if args.named:
        tables = convs2s_table(args.words), pervasive_table(args.words)
        print(_as_json(*tables) if args.json else "\n".join(map(show, tables)), end="")
        return 0
    headers = [*HEADERS]
    if args.arch is None:
        headers += ["published parameters", "published cost", "from"]
        rows = [
            [*_cells(args, one.arch, one.options.split()), one.parameters, one.cost, one.source]
            for one in PUBLISHED
            if one.cost
        ]
    else:
        rows = [_cells(args, args.arch, args.forwarded)]
    table = Table(headers, rows)
    if args.json:
        print(_as_json(table), end="")
        return 0
    print(show(table))
    print(
        f"Vocabulary of {args.source_words:,} and {args.target_words:,} tokens; sentences of "
        f"{args.length} tokens; a training run is {args.epochs} epochs of {args.sentence_pairs:,} "
        "sentence pairs. The counts include matrix multiplications and convolutions, forward and "
        "backward."
    )
    if args.arch is None:
        print(
            "The published cost is the duration of training times the peak rate of the GPU, so it "
            "depends on the program and on when training ended. Compare models within each of "
            "the two columns; neither values nor ratios carry over to the other column."
        )
    return 0


def _check_words(args: argparse.Namespace) -> None:
    """Refuse sizes of vocabularies that the tables would not have."""
    if args.words != WORDS and not args.named:
        raise UserError(
            f"--words {args.words} is for --named: give --source-words and --target-words."
        )
    given = args.source_words, args.target_words
    for side, size, usual in zip(("source", "target"), given, PAPER_VOCABULARY):
        if size != usual and args.named:
            raise UserError(
                f"--{side}-words {size} is not for --named, whose models have one size for both "
                "vocabularies: give --words."
            )


def _as_json(*tables: Table) -> str:
    """The rows of tables, each with the titles of its columns."""
    rows = [dict(zip(table.headers, row)) for table in tables for row in table.rows]
    return f"{json.dumps(rows, indent=1, ensure_ascii=False)}\n"


def _cells(args: argparse.Namespace, arch: str, changes: Sequence[str]) -> list[str]:
    """The cells of a model: those of HEADERS."""
    from . import sizes

    vocabularies = args.source_words, args.target_words
    network, parameters = sizes.size(arch, changes, vocabularies)
    flops = sizes.flops(arch, changes, vocabularies, args.length)
    return [
        " ".join([arch, *changes]),
        _millions(network),
        _millions(parameters),
        number(flops / 1e9),
        number(flops * args.sentence_pairs * args.epochs / 1e15, 1),
    ]


def _millions(count: int, digits: int = 2) -> str:
    return f"{count / 1e6:.{digits}f}M"


def convs2s_table(words: int) -> Table:
    """The named architectures of ConvS2S, one per line.

    Layers are "count x channels (kernel size)", receptive fields are in positions.

    Args:
        words: size of both vocabularies, for the column "with embeddings".
    """
    from ..models.convs2s.architectures import ARCHITECTURES
    from ..models.convs2s.layer_lists import ConvSpec, parse_layers
    from . import sizes

    def shown(layers: Sequence[ConvSpec]) -> str:
        runs = groupby(layers, key=lambda layer: (layer.channels, layer.kernel_size))
        return ", ".join(f"{len(list(run))} x {width} ({size})" for (width, size), run in runs)

    def receptive_field(layers: Sequence[ConvSpec]) -> int:
        return 1 + sum(layer.kernel_size - 1 for layer in layers)

    rows = []
    for name, architecture in ARCHITECTURES.items():
        cfg: Any = sizes.configuration(name)
        network, parameters = sizes.size(name, (), (words, words))
        encoder, decoder = parse_layers(cfg.encoder_layers), parse_layers(cfg.decoder_layers)
        rows.append(
            [
                name,
                shown(encoder),
                shown(decoder),
                f"{receptive_field(encoder)}, {receptive_field(decoder)}",
                str(cfg.encoder_embed_dim),
                _millions(network, 1),
                _millions(parameters, 1),
                architecture.source,
            ]
        )
    titles = ["--arch", "encoder", "decoder", "receptive field: encoder, decoder"]
    return Table([*titles, "embedding channels", "parameters", "with embeddings", "from"], rows)


def pervasive_table(words: int) -> Table:
    """The named architectures of pervasive attention, and other sizes in its paper, one per line.

    Args:
        words: size of both vocabularies, for the column "with embeddings".
    """
    from ..models.pervasive.architectures import ARCHITECTURES
    from . import sizes

    published = {each.arch: each.parameters for each in PUBLISHED if not each.options}
    models = [
        Published(name, "", architecture.source, published.get(name, ""))
        for name, architecture in ARCHITECTURES.items()
    ]
    models += [each for each in PUBLISHED if each.options]
    rows = []
    for model in models:
        changes = model.options.split()
        network, parameters = sizes.size(model.arch, changes, (words, words))
        of_paper = sizes.parameters(model.arch, changes, PAPER_VOCABULARY)
        rows.append(
            [
                model.arch,
                model.options,
                _millions(network),
                _millions(parameters),
                _millions(of_paper),
                model.parameters,
                model.source,
            ]
        )
    titles = ["--arch", "options", "parameters", "with embeddings", "paper's vocabulary"]
    return Table([*titles, "published", "from"], rows)
