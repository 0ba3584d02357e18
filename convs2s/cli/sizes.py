"""The parameters and the cost of architectures, counted on models with random weights."""

import argparse
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, NoReturn

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, build_model

from ..common.errors import UserError
from ..models.pervasive.model import PervasiveModel
from ..nn.flops import count_matmul_flops
from .made_up import dictionary_of_size

SENTENCES = 2


class Size(NamedTuple):
    """The number of parameters of a model.

    Attributes:
        network: parameters without the rows of embedding matrices and output layer.
        parameters: all parameters.
    """

    network: int
    parameters: int


def size(arch: str, changes: Sequence[str], vocabularies: tuple[int, int]) -> Size:
    """Count the parameters of a model.

    Args:
        arch: an architecture of this package or of fairseq.
        changes: options of fairseq-train that differ from it.
        vocabularies: sizes of the source and the target vocabulary, V and W.
    Raises:
        UserError: if the architecture or an option is unknown.
    """
    source, target = vocabularies
    total = parameters(arch, changes, vocabularies)
    per_source = total - parameters(arch, changes, (source - 1, target))
    per_target = total - parameters(arch, changes, (source, target - 1))
    return Size(total - per_source * source - per_target * target, total)


def parameters(arch: str, changes: Sequence[str], vocabularies: tuple[int, int]) -> int:
    """Count all parameters; the arguments are those of ``size``.

    As in Elbayad et al. (2018), the masked half of each 2-D kernel counts.
    """
    with torch.device("meta"):
        model = build(arch, changes, vocabularies)
    masked = _masked_weights(model) if isinstance(model, PervasiveModel) else 0
    return masked + sum(parameter.numel() for parameter in model.parameters())


def flops(arch: str, changes: Sequence[str], vocabularies: tuple[int, int], length: int) -> float:
    """Count the matrix multiplications in a forward and backward pass of a sentence pair.

    Args:
        arch, changes, vocabularies: as for ``size``.
        length: tokens of the source and of the target sentence.
    """
    model = build(arch, changes, vocabularies)
    tokens = torch.full((SENTENCES, length), 5)

    def step() -> None:
        logits = model(
            src_tokens=tokens,
            src_lengths=torch.full((SENTENCES,), length),
            prev_output_tokens=tokens.clone(),
        )[0]
        logits.float().logsumexp(-1).sum().backward()

    return count_matmul_flops(step).flops / SENTENCES


def build(arch: str, changes: Sequence[str], vocabularies: tuple[int, int]) -> Any:
    """Build a model in training mode; the arguments are those of ``size``."""
    cfg = configuration(arch, tuple(changes))
    task = argparse.Namespace(cfg=cfg.task)
    task.source_dictionary, task.target_dictionary = map(dictionary_of_size, vocabularies)
    return build_model(cfg.model, task)


@cache
def configuration(arch: str, changes: tuple[str, ...] = ()) -> Any:
    """fairseq's configuration of a training; the arguments are those of ``size``."""
    if arch not in ARCH_MODEL_REGISTRY:
        raise UserError(f"There is no architecture {arch}; `fairseq-train --help` lists all.")
    parser = options.get_training_parser()
    parser.error = _refuse
    given = ["data", "--arch", arch, "--task", "translation", *changes]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=given))


def _refuse(message: str) -> NoReturn:
    # Without the names of all architectures or optimizers.
    reason = message.partition(" (choose from")[0]
    raise UserError(f"The options are not those of fairseq-train: {reason}.")


def _masked_weights(model: PervasiveModel) -> int:
    """The number of weights in the masked half of all kernels, which are not stored."""
    masked = 0
    for layer in model.decoder.network.dense.layers:
        if layer.conv2 is not None:
            out, hidden, rows, width = layer.conv2.shape
            masked += out * hidden * width * (width - rows)
    return masked
