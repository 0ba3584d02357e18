"""What is worked on, and the model of it."""

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, build_model

import convs2s_plugin  # noqa: F401  (registers the architectures)
from convs2s_plugin.base.architectures import fill_defaults
from convs2s_plugin.convs2s import architectures as convs2s_architectures
from convs2s_plugin.convs2s.layer_lists import parse_layers
from convs2s_plugin.errors import UserError
from convs2s_plugin.pervasive import architectures as pervasive_architectures
from convs2s_plugin.tasks.autocast import Precision

from . import plain_model  # noqa: F401  (registers a peer)

DROPOUT = 0.1
# How a model computes: in single precision, under torch.autocast, or with all its weights in half
# precision, as fairseq's --fp16 does it.
DTYPES = ("float32", "bfloat16", "float16", "half")
DEVICES = ("cpu", "cuda")
# What architectures are that bear their model's name, which fairseq completes later.
BASES = {
    convs2s_architectures.MODEL: convs2s_architectures.BASE,
    pervasive_architectures.MODEL: pervasive_architectures.BASE,
    "plain_pervasive": pervasive_architectures.BASE,
}
# Layers of each side in all definitions of the ADL paper.
ADL_LAYERS = 6


class Setting(NamedTuple):
    """What is worked on.

    Attributes:
        arch: any registered architecture.
        words: types of both dictionaries (8,000).
        sentences: of a batch (64).
        length: words of each sentence, on both sides (25).
        layers: of each side or of the DenseNet; None for the architecture's own number.
        dtype: one of DTYPES.
        beam: hypotheses of a sentence, in generation (5).
        candidates: target words that generation scores; None for all.
        criterion: in training, one of work.CRITERIA; None for the one that the model's package has.
        device: one of DEVICES.
        data: a folder that fairseq-preprocess wrote, instead of random sentences and words.
        batches: how many batches of that data.
        options: of the model, where they are not the architecture's: (name, value).
    """

    arch: str
    words: int = 8000
    sentences: int = 64
    length: int = 25
    layers: int | None = None
    dtype: str = "float32"
    beam: int = 5
    candidates: int | None = None
    criterion: str | None = None
    device: str = "cpu"
    data: str | None = None
    batches: int = 1
    options: tuple[tuple[str, object], ...] = ()

    @property
    def precision(self) -> Precision:
        """As the task's --autocast-dtype."""
        return Precision(self.dtype if self.dtype in ("bfloat16", "float16") else "none")


def at_least(least: int) -> Callable[[str], int]:
    """What reads a number of the command line that makes no sense below ``least``."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"{text} is not a whole number, at least {least}")
        return int(text)

    return read


def use_device(device: str) -> None:
    """Refuse a device that is not there; on a GPU, let single precision be that.

    Raises:
        UserError: where torch has no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device cuda needs a GPU, and this torch ({torch.__version__}) finds none here: "
            "leave the option out to measure on the processor."
        )
    # Else convolutions would be of less precision than the matrix products of a peer.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def build(setting: Setting, source: Dictionary, target: Dictionary) -> torch.nn.Module:
    """A model with its architecture's defaults and random weights, on its device.

    Raises:
        UserError: where no such architecture is registered, or it cannot have so many layers.
    """
    arch = setting.arch
    if arch not in ARCH_MODEL_REGISTRY:
        raise UserError(f"There is no architecture {arch}; `fairseq-train --help` lists all.")
    torch.manual_seed(1)
    args = Namespace(
        arch=arch,
        _name=arch,
        # fairseq's lstm asks for it.
        criterion="label_smoothed_cross_entropy",
        dropout=DROPOUT,
        attention_dropout=0.0,
        max_source_positions=1024,
        max_target_positions=1024,
    )
    for name, value in setting.options:
        setattr(args, name, value)
    ARCH_CONFIG_REGISTRY[arch](args)
    fill_defaults(args, BASES.get(arch, {}))
    if setting.layers is not None:
        _set_depth(args, setting.layers)
    model = build_model(args, Namespace(source_dictionary=source, target_dictionary=target))
    return model.to(setting.device)


def _set_depth(args: Namespace, layers: int) -> None:
    """Let a model have so many layers, all as its architecture's first one."""
    if hasattr(args, "num_layers"):
        args.num_layers = layers
        return
    names = ("encoder_adl", "decoder_adl") if hasattr(args, "encoder_adl") else ()
    for name in names or ("encoder_layers", "decoder_layers"):
        if not hasattr(args, name):
            raise UserError(f"--layers cannot be used with {args.arch}: leave it out.")
        setattr(args, name, _deep(getattr(args, name), layers, args.arch))


def _deep(given: object, layers: int, arch: str) -> object:
    """A number of layers, a list of them or a definition in ADL, made so deep."""
    if isinstance(given, int):
        return layers
    if given.startswith("["):
        first = parse_layers(given)[0]
        return f"[({first.channels}, {first.kernel_size})] * {layers}"
    # What is not repeated six times has one layer of another kind before five that are.
    repeats = [int(number) for number in re.findall(r"repeat\((\d+),", given)]
    others = ADL_LAYERS - sum(repeats)
    if len(repeats) != 1 or others not in (0, 1) or layers <= others:
        raise UserError(f"{arch} cannot have --layers {layers}: leave it out.")
    return re.sub(r"repeat\(\d+,", f"repeat({layers - others},", given)
