"""ONNX files of ConvS2S: an encoder and a decoding step, with any batch size and lengths."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim

from ...common.errors import UserError
from ...common.output_files import atomic_folder
from ...common.quiet import quiet
from ...models.convs2s.gated_conv1d import GatedConv1d
from ...models.convs2s.network import ConvS2S, ConvS2SDecoder, ConvS2SEncoder
from ...models.interface import Vocabularies
from ...nn.state import State
from ..files import check_not_quantized
from ..networks import Checkpoint

ENCODER, DECODER = "encoder.onnx", "decoder_step.onnx"
NEEDED = ("onnx", "onnxscript")
# Sizes of the example that is traced; all of them are dynamic afterwards.
EXAMPLE_BATCH, EXAMPLE_LENGTH = 3, 5
EOS = Vocabularies._field_defaults["eos"]


class Source(NamedTuple):
    """The encoder output that the decoder attends to; see ``ConvS2SEncoder.encode``."""

    keys: Tensor
    values: Tensor
    padding_mask: Tensor
    lengths: Tensor


class EncoderModule(nn.Module):
    """The encoder of ConvS2S.

    Args:
        encoder: the encoder of a model that is ready for generation.
    """

    def __init__(self, encoder: ConvS2SEncoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, src_tokens: Tensor) -> Source:
        """Encode a batch of sentences.

        Args:
            src_tokens: B x S token indices, padded on either side or on both.
        Returns:
            Keys B x S x E, values B x S x E, padding mask B x S (True at padding), lengths B.
        """
        padding_mask = src_tokens.eq(self.encoder.pad)
        encoded = self.encoder.encode(src_tokens, padding_mask)
        keys, values, lengths = (
            encoded[f"encoder_{name}"] for name in ("out", "values", "lengths")
        )
        return Source(keys, values, padding_mask, lengths)


class DecoderStepModule(nn.Module):
    """One step of incremental decoding, with all state in its arguments and results.

    The state is one cache for each convolution that reads earlier positions: its last k - 1 inputs,
    R x (k - 1) x C, which are zeros before the first step.

    Args:
        decoder: the decoder of a model that is ready for generation.
    """

    def __init__(self, decoder: ConvS2SDecoder):
        super().__init__()
        self.decoder = decoder
        # Index of a convolution -> k - 1 and C of its cache.
        self.cached: dict[int, tuple[int, int]] = {}
        for i, part in enumerate(decoder.blocks.convolutions):
            assert isinstance(part, GatedConv1d)
            k = part.kernel_size
            if k > 1:
                self.cached[i] = k - 1, part.linear.in_features // k

    def forward(
        self, prev_tokens: Tensor, position: Tensor, source: Source, caches: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Compute the logits of the next token of each hypothesis.

        Args:
            prev_tokens: R, the previous token of each hypothesis; the end of sentence first.
            position: its position, a number without dimensions; 0 first.
            source: the encoder output of R sentences, one for each hypothesis.
            caches: the state.
        Returns:
            Logits R x V, attention weights R x S averaged over the layers, and the new state.
        """
        embed = self.decoder.embed
        embedded = embed.words(prev_tokens.unsqueeze(1))
        if embed.positions is not None:
            # Row 0 of the position vectors is for padding.
            embedded = embedded + embed.positions.weight[position + 1]
        state = State()
        states = [state.child(f"convolution{i}") for i in self.cached]
        for of_convolution, cache in zip(states, caches):
            of_convolution.rows["inputs"] = cache
        root = State()
        root.children["blocks"] = state
        encoder_out = {
            "encoder_out": source.keys,
            "encoder_values": source.values,
            "encoder_padding_mask": source.padding_mask,
            "encoder_lengths": source.lengths,
        }
        features, attention = self.decoder.decode_embedded(embedded, None, encoder_out, root, True)
        logits = self.decoder.output(features)
        weights = sum(attention.values()) / len(attention)
        assert isinstance(weights, Tensor)
        new_caches = [of_convolution.rows["inputs"] for of_convolution in states]
        return logits.squeeze(1), weights.squeeze(1), new_caches


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
    tokens = torch.full((EXAMPLE_BATCH, EXAMPLE_LENGTH), EOS)
    rows = {0: Dim("batch")}
    columns = {**rows, 1: Dim("source_length", max=model.encoder.max_length)}
    shapes = Source(columns, columns, columns, rows)  # type: ignore[arg-type]
    encoder = EncoderModule(model.encoder).eval()
    step = DecoderStepModule(model.decoder).eval()
    caches_before = [f"cache{i}" for i in range(len(step.cached))]
    caches_after = [f"new_{name}" for name in caches_before]
    with atomic_folder(folder) as partial, torch.no_grad(), quiet():
        source = encoder(tokens)
        previous = torch.full((EXAMPLE_BATCH,), EOS)
        caches = [source.keys.new_zeros(EXAMPLE_BATCH, *size) for size in step.cached.values()]
        programs: dict[str, Any] = {
            ENCODER: torch.onnx.export(
                encoder,
                (tokens,),
                input_names=["src_tokens"],
                output_names=Source._fields,
                dynamic_shapes=(columns,),
                dynamo=True,
                verbose=False,
            ),
            DECODER: torch.onnx.export(
                step,
                (previous, torch.tensor(0), source, caches),
                input_names=["prev_tokens", "position", *Source._fields, *caches_before],
                output_names=["logits", "attention", *caches_after],
                dynamic_shapes=(rows, {}, shapes, [rows] * len(caches)),
                dynamo=True,
                verbose=False,
            ),
        }
        for name, program in programs.items():
            program.model.metadata_props.update({key: str(facts[key]) for key in facts})
            program.save(str(Path(partial, name)))
        for file in dictionaries:
            shutil.copy(file, partial)
