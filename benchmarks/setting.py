"""The setting of a workload, and its model."""

import re
from argparse import Namespace
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, build_model

import convs2s_plugin  # noqa: F401  (registers the architectures)
from convs2s.common.errors import UserError
from convs2s.models.convs2s.layer_lists import parse_layers
from convs2s.translation.precision import Precision
from convs2s_plugin.models.options import network_options

from . import plain_model  # noqa: F401  (registers plain_pervasive)

DROPOUT = 0.1
# bfloat16 and float16 are torch.autocast; half has all weights in float16, as fairseq's --fp16;
# int8 is for generation on a CPU.
DTYPES = ("float32", "bfloat16", "float16", "half", "int8")
DEVICES = ("cpu", "cuda")
TORCH, ONNXRUNTIME, CTRANSLATE2 = "torch", "onnxruntime", "ctranslate2"
# Layers of the encoder, and of the decoder, in all definitions of the ADL paper.
ADL_LAYERS = 6


class Setting(NamedTuple):
    """Model, sizes, precision and device of a workload.

    Attributes:
        arch: any registered architecture.
        words: vocabulary size of both dictionaries, special symbols included (8,000).
        sentences: sentences in a batch (64).
        length: tokens in each source and target, the end of sentence included (25).
        layers: layers of the encoder and of the decoder, or of the DenseNet; None for the
            architecture's own number.
        engine: what computes: TORCH; in generation also ONNXRUNTIME with graphs of `convs2s
            compile`, and CTRANSLATE2 for fairseq's transformer.
        dtype: one of DTYPES.
        beam: beam size of generation (5).
        candidates: number of target tokens that generation scores; None for the whole vocabulary.
        criterion: one of workloads.CRITERIA; None for convs2s_cross_entropy with the models of
            this package and label_smoothed_cross_entropy with others.
        device: one of DEVICES.
        data: a folder written by fairseq-preprocess; None for random sentences. It overrides
            ``words`` and ``length``.
        batches: number of batches of ``data``.
        options: (name, value) of model options that differ from the architecture's.
    """

    arch: str
    words: int = 8000
    sentences: int = 64
    length: int = 25
    layers: int | None = None
    engine: str = TORCH
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
        """The precision of the task's ``--autocast-dtype`` and ``--int8``."""
        name = self.dtype if self.dtype in ("bfloat16", "float16") else "none"
        return Precision(name, self.dtype == "int8")


def use_device(device: str) -> None:
    """Check that a device exists, and compute float32 on a GPU without TF32.

    Raises:
        UserError: if torch finds no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device cuda needs a GPU, and this torch ({torch.__version__}) finds none: omit the "
            "option to measure on the CPU."
        )
    # By default, torch uses TF32 in convolutions but not in matrix multiplications.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def build(setting: Setting, source: Dictionary, target: Dictionary) -> torch.nn.Module:
    """Build a model with its architecture's defaults and random weights, on its device.

    Raises:
        UserError: if no such architecture is registered, or it cannot have ``setting.layers``.
    """
    args = model_options(setting)
    torch.manual_seed(1)
    model = build_model(args, Namespace(source_dictionary=source, target_dictionary=target))
    return model.to(setting.device)


def model_options(setting: Setting) -> Namespace:
    """The options of a model: those of its architecture, and those that differ.

    Raises:
        UserError: if no such architecture is registered, or it cannot have ``setting.layers``.
    """
    arch = setting.arch
    if arch not in ARCH_MODEL_REGISTRY:
        raise UserError(f"There is no architecture {arch}; `fairseq-train --help` lists all.")
    args = Namespace(
        arch=arch,
        _name=arch,
        # fairseq's lstm reads it.
        criterion="label_smoothed_cross_entropy",
        dropout=DROPOUT,
        attention_dropout=0.0,
        max_source_positions=1024,
        max_target_positions=1024,
    )
    for name, value in setting.options:
        setattr(args, name, value)
    ARCH_CONFIG_REGISTRY[arch](args)
    model = ARCH_MODEL_REGISTRY[arch]
    if hasattr(model, "options_class"):
        # fairseq fills in the defaults of an architecture with the name of its model only later.
        vars(args).update(vars(network_options(model.options_class, args)))
    if setting.layers is not None:
        _set_depth(args, setting.layers)
    return args


def _set_depth(args: Namespace, layers: int) -> None:
    """Set the number of layers; all become like the architecture's first layer."""
    if hasattr(args, "num_layers"):
        args.num_layers = layers
        return
    names = ("encoder_adl", "decoder_adl") if hasattr(args, "encoder_adl") else ()
    for name in names or ("encoder_layers", "decoder_layers"):
        if not hasattr(args, name):
            raise UserError(f"--layers cannot be used with {args.arch}: omit it.")
        setattr(args, name, _with_depth(getattr(args, name), layers, args.arch))


def _with_depth(option: int | str, layers: int, arch: str) -> int | str:
    """Change the depth in an option: a number, a list of layers, or a definition in ADL."""
    if isinstance(option, int):
        return layers
    if option.startswith("["):
        first = parse_layers(option)[0]
        return f"[({first.channels}, {first.kernel_size})] * {layers}"
    # A definition repeats one layer six times, or five times after a layer of another kind.
    repeats = [int(number) for number in re.findall(r"repeat\((\d+),", option)]
    others = ADL_LAYERS - sum(repeats)
    if len(repeats) != 1 or others not in (0, 1) or layers <= others:
        raise UserError(f"{arch} cannot have --layers {layers}: omit it.")
    return re.sub(r"repeat\(\d+,", f"repeat({layers - others},", option)
