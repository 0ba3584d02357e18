"""ONNX files of ConvS2S: an encoder and a decoding step, with any batch size and lengths."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from ...common.errors import UserError
from ...common.output_files import atomic_folder
from ...common.quiet import quiet
from ...models.convs2s.network import ConvS2S
from ...models.interface import Vocabularies
from ..files import check_not_quantized
from ..networks import Checkpoint
from .convs2s_modules import DecoderStepModule, EncoderModule, Source

ENCODER, DECODER = "encoder.onnx", "decoder_step.onnx"
SOURCE = ("keys", "values", "padding_mask", "lengths")
NEEDED = ("onnx", "onnxscript")
# Sizes of the example that is traced; all of them are dynamic afterwards.
EXAMPLE_BATCH, EXAMPLE_LENGTH = 3, 5
EOS = Vocabularies._field_defaults["eos"]


def check_exportable(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint has a model of ConvS2S, and that the packages for ONNX are there.

    Raises:
        UserError: if it has not, if they are missing, or if the checkpoint is in int8.
    """
    if checkpoint.family != "convs2s":
        raise UserError(
            f"{checkpoint.path} has a model of --arch {checkpoint.architecture}, but only models "
            "of ConvS2S can be exported to ONNX; `convs2s export-transformer` exports transformers "
            "in ADL."
        )
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"The export to ONNX needs {' and '.join(missing)}: run `pip install "
            '"convs2s-plugin[export]"`.'
        )
    check_not_quantized(checkpoint.path, checkpoint.weights, "exported")


def export_onnx(model: ConvS2S, folder: str, dictionaries: Sequence[Path]) -> None:
    """Write the encoder, the decoding step and the dictionaries of a model to a new folder.

    Args:
        model: a model that is ready for generation, on the CPU.
        folder: the folder to write.
        dictionaries: the files of those of the model.
    Raises:
        UserError: if the folder cannot be written.
    """
    facts = {
        "eos": EOS,
        "pad": model.decoder.pad,
        "max_source_positions": model.encoder.max_length,
        "max_target_positions": model.decoder.max_length,
    }
    with atomic_folder(folder) as partial, torch.no_grad(), quiet():
        programs = {ENCODER: _encoder_program(model), DECODER: _decoder_program(model)}
        for name, program in programs.items():
            program.model.metadata_props.update({key: str(facts[key]) for key in facts})
            program.save(str(Path(partial, name)))
        for file in dictionaries:
            shutil.copy(file, partial)


def _encoder_program(model: ConvS2S) -> Any:
    length = Dim("source_length", max=model.encoder.max_length)
    return torch.onnx.export(
        EncoderModule(model.encoder).eval(),
        (_example_tokens(model),),
        input_names=["src_tokens"],
        output_names=SOURCE,
        dynamic_shapes=({0: Dim("batch"), 1: length},),
        dynamo=True,
        verbose=False,
    )


def _decoder_program(model: ConvS2S) -> Any:
    step = DecoderStepModule(model.decoder).eval()
    source = EncoderModule(model.encoder).eval()(_example_tokens(model))
    caches = [source.keys.new_zeros(EXAMPLE_BATCH, *size) for size in step.cache_sizes()]
    previous = torch.full((EXAMPLE_BATCH,), EOS)
    rows = {0: Dim("batch")}
    columns = {**rows, 1: Dim("source_length", max=model.encoder.max_length)}
    shapes = Source._make([columns, columns, columns, rows])
    numbers = range(len(caches))
    return torch.onnx.export(
        step,
        (previous, torch.tensor(0), source, caches),
        input_names=["prev_tokens", "position", *SOURCE, *(f"cache{i}" for i in numbers)],
        output_names=["logits", "attention", *(f"new_cache{i}" for i in numbers)],
        dynamic_shapes=(rows, {}, shapes, [rows] * len(caches)),
        dynamo=True,
        verbose=False,
    )


def _example_tokens(model: ConvS2S) -> torch.Tensor:
    return torch.full((EXAMPLE_BATCH, EXAMPLE_LENGTH), EOS)
