"""ONNX files of a network: the encoder and a decoding step, with any batch size and lengths."""

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ...common.errors import UserError
from ...common.output_files import atomic_folder
from ...common.quiet import quiet
from ...models.interface import EOS, Network
from ..folders import ENCODER_GRAPH, STEP_GRAPH
from ..networks import Checkpoint
from .graphs import trace

NEEDED = ("onnx", "onnxscript")


def check_exportable(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint has a model of this package, and that the packages are there.

    Raises:
        UserError: if it does not, or if they are missing.
    """
    if checkpoint.family is None:
        raise UserError(
            f"{checkpoint.path} has a model of --arch {checkpoint.architecture}, but only models "
            "of ConvS2S, pervasive attention and ADL can be exported to ONNX."
        )
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"The export to ONNX needs {' and '.join(missing)}: run `pip install "
            '"convs2s-plugin[export]"`.'
        )


def export_onnx(network: Network, folder: str, dictionaries: Sequence[Path]) -> None:
    """Write the encoder, the decoding step and the dictionaries of a network to a new folder.

    Args:
        network: ready for generation, on the CPU.
        folder: the folder to write.
        dictionaries: the files of the source and of the target language.
    Raises:
        UserError: if the folder cannot be written, or if a layer cannot be exported.
    """
    facts = {
        "eos": EOS,
        "pad": network.decoder.pad,
        "max_source_positions": network.max_source_length,
        "max_target_positions": network.max_target_length,
        "source_dictionary": dictionaries[0].name,
        "target_dictionary": dictionaries[1].name,
    }
    with atomic_folder(folder) as partial:
        write_graphs(network, Path(partial), facts)
        for file in dictionaries:
            shutil.copy(file, partial)


@quiet()
def write_graphs(
    network: Network, folder: Path, facts: Mapping[str, object], output: bool = True
) -> None:
    """Write the encoder and the decoding step of a network to a folder.

    Args:
        network: ready for generation, on the CPU.
        folder: the folder, which exists.
        facts: the metadata of both files.
        output: whether the step computes logits and attention (True), or the input of the output
            layer.
    Raises:
        UserError: if a layer cannot be exported.
    """
    graphs = trace(network, EOS, output)
    predictions = ["logits" if output else "features", *(["attention"] if graphs.attends else [])]
    source = [f"source{i}" for i in range(graphs.sources)]
    state = [f"state{i}" for i in range(graphs.states)]
    later = [f"new_{name}" for name in state]
    encoder = _convert(graphs.first, ["src_tokens"], [*predictions, *source, *state])
    step = _convert(graphs.later, ["prefix", *source, *state], [*predictions, *later])
    _remove_unread(encoder, step, source)
    for name, model in ((ENCODER_GRAPH, encoder), (STEP_GRAPH, step)):
        model.metadata_props.update({key: str(value) for key, value in facts.items()})
        _save(model, folder / name)


def _convert(graph: ExportedProgram, inputs: list[str], outputs: list[str]) -> Any:
    """The model in ONNX, with names of its inputs and outputs."""
    program = torch.onnx.export(
        graph, (), input_names=inputs, output_names=outputs, dynamo=True, verbose=False
    )
    assert program is not None
    return program.model


def _remove_unread(encoder: Any, step: Any, names: list[str]) -> None:
    """Remove what no step reads, such as an encoder output whose projections are in the state."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    unread = {each.name for each in step.graph.inputs if each.name in names and not each.uses()}
    for model, values in ((encoder, encoder.graph.outputs), (step, step.graph.inputs)):
        kept = [each for each in values if each.name not in unread]
        values.clear()
        values.extend(kept)
        RemoveUnusedNodesPass()(model)


def _save(model: Any, path: Path) -> None:
    import onnx_ir

    onnx_ir.save(model, str(path))
