"""``convs2s flops``: parameters and training cost of architectures."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, build_model

from convs2s_plugin.compat.training_options import refuse
from convs2s_plugin.models import PervasiveModel

from ..common.errors import UserError
from ..common.quiet import quiet
from ..common.tables import Table, number
from ..nn.flops import count_matmul_flops
from .made_up import dictionary_of_size
from .pervasive_sizes import PAPER_VOCABULARY, masked_weights

SENTENCES = 2


class Published(NamedTuple):
    """A model in Tables 1 to 3 of Elbayad et al. (2018).

    Attributes:
        arch: the architecture.
        options: options of fairseq-train that differ from it.
        table: the table.
        parameters: the published number.
        cost: the published training cost, without its power of ten.
    """

    arch: str
    options: tuple[str, ...]
    table: str
    parameters: str
    cost: str


def _size(kernel_size: int, layers: int, parameters: str, cost: str) -> Published:
    options = "--kernel-size", str(kernel_size), "--num-layers", str(layers)
    return Published("pervasive_iwslt_de_en", options, "2", parameters, cost)


PUBLISHED = (
    Published("pervasive_iwslt_de_en_avg", (), "1", "7.18M", "3.63"),
    Published("pervasive_iwslt_de_en", (), "1, 2", "7.18M", "3.44"),
    Published("pervasive_iwslt_de_en_attn", (), "1", "7.24M", "3.61"),
    Published("pervasive_iwslt_de_en_gated", (), "1", "9.64M", "3.49"),
    Published("pervasive_iwslt_de_en_max_attn", (), "1, 3", "7.24M", "3.51"),
    _size(3, 16, "4.32M", "2.47"),
    _size(3, 20, "4.92M", "3.03"),
    _size(5, 8, "3.88M", "0.63"),
    _size(5, 12, "4.59M", "2.61"),
    _size(5, 16, "5.37M", "3.55"),
    _size(5, 20, "6.23M", "3.01"),
    _size(5, 28, "8.21M", "5.35"),
    _size(7, 12, "5.76M", "2.76"),
    Published("adl_rnnsearch", (), "3", "6M", "1.79"),
    Published("transformer", (), "3", "59M", "3.53"),
    Published("convs2s_iwslt_de_en_deep", (), "3", "21M", "1.35"),
)


class Cost(NamedTuple):
    """The size and cost of a model.

    Attributes:
        network: parameters without the rows of embedding matrices and output layer.
        parameters: all parameters.
        flops: of the matrix multiplications in a forward and backward pass of a sentence pair.
    """

    network: int
    parameters: int
    flops: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--arch",
        metavar="NAME",
        help="an architecture of this package or of fairseq; options of fairseq-train that "
        "change it may follow (default: the models in Tables 1 to 3 of Elbayad et al. 2018, with "
        "their published figures)",
    )
    source, target = PAPER_VOCABULARY
    parser.add_argument(
        "--source-words",
        type=int,
        default=source,
        metavar="N",
        help="size of the source vocabulary (default: %(default)s, as in the paper)",
    )
    parser.add_argument(
        "--target-words",
        type=int,
        default=target,
        metavar="N",
        help="size of the target vocabulary (default: %(default)s, as in the paper)",
    )
    parser.add_argument(
        "--length",
        type=int,
        default=25,
        metavar="N",
        help="tokens in each source and target sentence (default: %(default)s)",
    )
    parser.add_argument(
        "--sentence-pairs",
        type=int,
        default=160_000,
        metavar="N",
        help="sentence pairs that an epoch of the training has (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=int, default=40, metavar="N", help="epochs (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print a table."""
    for name in ("source_words", "target_words", "length", "sentence_pairs", "epochs"):
        least = 10 if name.endswith("words") else 1
        if getattr(args, name) < least:
            option = name.replace("_", "-")
            raise UserError(f"--{option} is {getattr(args, name)}: it must be at least {least}.")
    passes = args.sentence_pairs * args.epochs
    if args.arch is None:
        if args.forwarded:
            raise UserError(f"{args.forwarded[0]} changes a model: give one with --arch.")
        rows = [
            [
                f"{published.arch} {' '.join(published.options)}".strip(),
                *_cells(_cost(args, published.arch, published.options), passes),
                *(published.parameters, published.cost, published.table),
            ]
            for published in PUBLISHED
        ]
        headers = [*HEADERS, "published parameters", "published cost", "table"]
    else:
        rows = [
            [
                f"{args.arch} {' '.join(args.forwarded)}".strip(),
                *_cells(_cost(args, args.arch, args.forwarded), passes),
            ]
        ]
        headers = [*HEADERS]
    print(Table(headers, rows).markdown())
    print(
        f"Vocabulary of {args.source_words:,} and {args.target_words:,} tokens; sentences of "
        f"{args.length} tokens; a training is {args.epochs} epochs of {args.sentence_pairs:,} "
        "sentence pairs. Counted are matrix multiplications and convolutions, forward and backward."
    )
    if args.arch is None:
        print(
            "The published cost is the duration of the training times the peak of the GPU, in a "
            "unit of its own, so only ratios compare."
        )
    return 0


HEADERS = ("model", "parameters", "with embeddings", "GFLOP a sentence pair", "PFLOP a training")


def _cells(cost: Cost, passes: int) -> list[str]:
    return [
        f"{cost.network / 1e6:.2f}M",
        f"{cost.parameters / 1e6:.2f}M",
        number(cost.flops / 1e9),
        number(cost.flops * passes / 1e15, 1),
    ]


def _cost(args: argparse.Namespace, arch: str, changes: Sequence[str]) -> Cost:
    """Build a model and count; the weights are random."""
    with quiet():
        return _count(args, arch, changes)


def _count(args: argparse.Namespace, arch: str, changes: Sequence[str]) -> Cost:
    source, target = args.source_words, args.target_words
    model = _build(arch, changes, (source, target), args.length)
    parameters = _parameters(model)
    per_source = parameters - _size_of(args, arch, changes, (source - 1, target))
    per_target = parameters - _size_of(args, arch, changes, (source, target - 1))
    tokens = torch.full((SENTENCES, args.length), 5)

    def step() -> None:
        logits = model(
            src_tokens=tokens,
            src_lengths=torch.full((SENTENCES,), args.length),
            prev_output_tokens=tokens.clone(),
        )[0]
        logits.float().logsumexp(-1).sum().backward()

    counted = count_matmul_flops(step)
    network = parameters - per_source * source - per_target * target
    return Cost(network, parameters, counted.flops / SENTENCES)


def _size_of(
    args: argparse.Namespace, arch: str, changes: Sequence[str], sizes: tuple[int, int]
) -> int:
    """The number of parameters with other vocabularies."""
    return _parameters(_build(arch, changes, sizes, args.length, "meta"))


def _parameters(model: torch.nn.Module) -> int:
    """The number of parameters; as in the paper, with the masked half of each 2-D kernel."""
    masked = masked_weights(model) if isinstance(model, PervasiveModel) else 0
    return masked + sum(parameter.numel() for parameter in model.parameters())


def _build(
    arch: str, changes: Sequence[str], sizes: tuple[int, int], length: int, device: str = "cpu"
) -> Any:
    """Build a model in training mode."""
    if arch not in ARCH_MODEL_REGISTRY:
        raise UserError(f"There is no architecture {arch}; `fairseq-train --help` lists all.")
    parser = options.get_training_parser()
    parser.error = refuse(parser)
    given = [*("data", "--arch", arch, "--task", "translation"), *changes]
    args = options.parse_args_and_arch(parser, input_args=given)
    cfg = convert_namespace_to_omegaconf(args)
    task = argparse.Namespace(cfg=cfg.task)
    task.source_dictionary, task.target_dictionary = map(dictionary_of_size, sizes)
    with torch.device(device):
        return build_model(cfg.model, task)
