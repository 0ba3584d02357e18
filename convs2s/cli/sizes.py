"""The parameters and the cost of architectures, counted on networks with random weights."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, NoReturn

import torch
from torch import nn

from ..common.command_line import refusal
from ..common.errors import UserError
from ..common.quiet import quiet
from ..models import FAMILIES, family_of
from ..models.interface import Vocabularies
from ..models.options import NetworkOptions, kind_of
from ..models.pervasive.network import Pervasive
from ..nn.conv1d import direct_convolution
from ..nn.flops import count_matmul_flops
from ..nn.uninitialized import without_memory
from .plugin import fairseq_models

SENTENCES = 2


def size(arch: str, changes: Sequence[str], vocabularies: tuple[int, int]) -> tuple[int, int]:
    """Count the parameters of a model.

    Args:
        arch: an architecture of this package or of fairseq.
        changes: options of fairseq-train that differ from it.
        vocabularies: sizes of the source and the target vocabulary, V and W.
    Returns:
        The parameters without the rows of embedding matrices and output layer, and all.
    Raises:
        UserError: if the architecture or an option is unknown.
    """
    source, target = vocabularies
    total = parameters(arch, changes, vocabularies)
    per_source = total - parameters(arch, changes, (source - 1, target))
    per_target = total - parameters(arch, changes, (source, target - 1))
    return total - per_source * source - per_target * target, total


def parameters(arch: str, changes: Sequence[str], vocabularies: tuple[int, int]) -> int:
    """Count all parameters; the arguments are those of ``size``.

    As in Elbayad et al. (2018), the masked half of each 2-D kernel counts.
    """
    with without_memory():
        model = build(arch, changes, vocabularies)
    masked = _masked_weights(model) if isinstance(model, Pervasive) else 0
    return masked + sum(parameter.numel() for parameter in model.parameters())


@quiet()
def flops(arch: str, changes: Sequence[str], vocabularies: tuple[int, int], length: int) -> float:
    """Count the matrix multiplications in a forward and backward pass of a sentence pair.

    It counts what the layers are defined to compute, whatever the algorithm.

    Args:
        arch, changes, vocabularies: as for ``size``.
        length: tokens of the source and of the target sentence.
    """
    model = build(arch, changes, vocabularies)
    tokens = torch.full((SENTENCES, length), 5)

    def step() -> None:
        model(tokens, tokens.clone()).float().logsumexp(-1).sum().backward()

    with direct_convolution():
        counted = count_matmul_flops(step).flops / SENTENCES
    return counted - (_discarded_flops(model, length) if isinstance(model, Pervasive) else 0)


@quiet()
def build(arch: str, changes: Sequence[str], vocabularies: tuple[int, int]) -> nn.Module:
    """Build a model in training mode; the arguments are those of ``size``.

    Returns:
        A function of source and previous target tokens, B x S and B x T, which returns logits.
    """
    family = family_of(arch)
    if family is None:
        found: nn.Module = fairseq_models().build_architecture(arch, changes, vocabularies)
        return found
    network: Any = FAMILIES[family].network()
    built: nn.Module = network(configuration(arch, changes), Vocabularies(*vocabularies))
    return built


def configuration(arch: str, changes: Sequence[str] = ()) -> NetworkOptions:
    """The options of an architecture of this package; the arguments are those of ``size``.

    Raises:
        UserError: if an option is unknown, or its value is not allowed.
    """
    family = FAMILIES[family_of(arch) or arch]
    options = family.network().options_class
    known = family.architectures().get(arch)
    parser = _Parser(arch)
    for each in fields(options):
        name, kind = f"--{each.name.replace('_', '-')}", kind_of(each.type)
        if kind is bool:
            parser.add_argument(name, action="store_const", const=True)
        else:
            parser.add_argument(name, type=kind)
    given = vars(parser.parse_args(changes))
    changed = {name: value for name, value in given.items() if value is not None}
    return options(**{**(known.options if known else {}), **changed})


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are raised."""

    def __init__(self, arch: str):
        super().__init__(add_help=False, allow_abbrev=False)
        self.arch = arch

    def error(self, message: str) -> NoReturn:
        reason = refusal(message, self._option_string_actions)
        raise UserError(f"The options are not those of --arch {self.arch}: {reason}.")


def _masked_weights(network: Pervasive) -> int:
    """The number of weights in the masked half of all kernels, which are not stored."""
    return sum(
        out * hidden * width * (width - rows) for out, hidden, rows, width in _kernels(network)
    )


def _discarded_flops(network: Pervasive, length: int) -> int:
    """Operations for the target positions beyond the last that ``causal_conv2d`` computes."""
    return sum(
        2 * out * hidden * rows * width * (rows - 1) * length
        for out, hidden, rows, width in _kernels(network)
    )


def _kernels(network: Pervasive) -> Iterator[torch.Size]:
    """The shapes of the masked kernels of a network."""
    for layer in network.decoder.network.dense.layers:  # type: ignore[union-attr]
        if layer.conv2 is not None:
            yield layer.conv2.shape
