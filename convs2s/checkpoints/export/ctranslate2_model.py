"""Models in ADL as models of CTranslate2, which runs transformers.

Weights stay as they are, because CTranslate2's modules support the epsilon, the attention without
biases and the scale of dot products that ADL uses.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...models.adl.language.spec import ModelSpec
from ...models.adl.layers.common import EPSILON
from ...text.vocabulary import Vocabulary
from .transformer_shape import (
    FEED_FORWARD,
    SELF_ATTENTION,
    SOURCE_ATTENTION,
    Layer,
    StackShape,
    SubLayer,
    Target,
    transformer_shape,
)
from .transformer_weights import position_vectors

# The names are those of ``ctranslate2.specs.Activation``.
CTRANSLATE2 = Target(
    "CTranslate2's transformer",
    "--engine ctranslate2",
    {
        "relu": "RELU",
        "gelu": "GELU",
        "swish": "SWISH",
        "tanh": "Tanh",
        "sigmoid": "Sigmoid",
        "glu": "Sigmoid",
        "swiglu": "SWISH",
        "geglu": "GELU",
    },
    norms=("norm", "rms_norm"),
    has_attention_biases=True,
    sides_alike=False,
)
# The first half of the channels is the gate, or the value.
GATE_FIRST = {"glu": False, "swiglu": True, "geglu": True}

NAMES = {SELF_ATTENTION: "self_attention", SOURCE_ATTENTION: "attention", FEED_FORWARD: "ffn"}

Weights = dict[str, Tensor]


def ctranslate2_files(
    spec: ModelSpec,
    weights: Weights,
    vocabularies: tuple[Vocabulary, Vocabulary],
    int8: bool = False,
) -> dict[str, bytes]:
    """A model of CTranslate2, whose words are token numbers in decimal.

    Args:
        spec: the model in ADL.
        weights: its weights by name, in floating-point numbers.
        vocabularies: of source and target.
        int8: whether matrices have 8 bits (False).
    Returns:
        The content of each of its files, by name.
    Raises:
        TextError: if a layer is not one of CTranslate2's transformer; the error shows its place.
        UserError: if the model has input feeding.
    """
    from ctranslate2.specs import TransformerSpec

    shape = transformer_shape(spec, CTRANSLATE2)
    # CTranslate2 quantizes in place.
    weights = {name: tensor.to(torch.float32, copy=True) for name, tensor in weights.items()}
    encoder, decoder = (_Stack(stack, weights) for stack in (shape.encoder, shape.decoder))
    model = TransformerSpec(encoder.convert(), decoder.convert())
    source, target = vocabularies
    model.register_source_vocabulary([str(number) for number in range(len(source))])
    model.register_target_vocabulary([str(number) for number in range(len(target))])
    config = model.config
    config.layer_norm_epsilon = EPSILON
    config.unk_token, config.bos_token = str(target.unk()), str(target.bos())
    config.eos_token = config.decoder_start_token = str(target.eos())
    model.validate()
    model.optimize("int8" if int8 else "float32")
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


class _Stack:
    """Fills CTranslate2's description of one stack."""

    def __init__(self, shape: StackShape, weights: Weights):
        self.shape, self.weights = shape, weights

    def convert(self) -> Any:
        """The description of the stack, with all weights."""
        from ctranslate2 import specs

        shape = self.shape
        is_decoder = shape.side == "decoder"
        make = specs.TransformerDecoderSpec if is_decoder else specs.TransformerEncoderSpec
        activation = CTRANSLATE2.activations[shape.activation]
        stack: Any = make(
            len(shape.blocks),
            shape.heads,
            pre_norm=shape.pre_norm,
            activation=getattr(specs.Activation, activation),
            ffn_glu=shape.activation in GATE_FIRST,
            rms_norm=shape.norm_name == "rms_norm",
        )
        embeddings = stack.embeddings if is_decoder else stack.embeddings[0]
        embeddings.weight = self.weights[f"{shape.side}.embed.words.weight"]
        stack.scale_embeddings = math.sqrt(shape.width) if shape.scales_embeddings else 1.0
        stack.position_encodings.encodings = position_vectors(shape, self.weights).float()
        for layer, block in zip(stack.layer, shape.blocks):
            for part in block:
                fill = self.feed_forward if part.kind == FEED_FORWARD else self.attention
                fill(getattr(layer, NAMES[part.kind]), part)
        if shape.final_norm is not None:
            self.norm(stack.layer_norm, shape.final_norm)
        if is_decoder:
            tied, own = "decoder.output.words.weight", "decoder.output.weight"
            stack.projection.weight = self.weights[tied if tied in self.weights else own]
            stack.projection.bias = self.weights["decoder.output.bias"]
        return stack

    def attention(self, into: Any, part: SubLayer) -> None:
        """Fill an attention layer."""
        path, spec = part.layers[0]
        into.queries_scale = spec["s"] ** -0.5
        names = ["queries_keys_values", "output"]
        if part.kind == SOURCE_ATTENTION:
            names = ["queries", "keys_values", "output"]
        for linear, name in zip(into.linear, names):
            self.linear(linear, f"{path}.{name}")
        self.norm(into.layer_norm, part.norm)

    def feed_forward(self, into: Any, part: SubLayer) -> None:
        """Fill a feed-forward network."""
        (first, spec), (second, _) = part.layers
        if (gate_first := GATE_FIRST.get(spec["v"])) is None:
            self.linear(into.linear_0, f"{first}.linear")
        else:
            halves = (into.linear_0, into.linear_0_noact)
            for number, half in enumerate(halves if gate_first else halves[::-1]):
                self.linear(half, f"{first}.linear", number)
        self.linear(into.linear_1, f"{second}.linear")
        self.norm(into.layer_norm, part.norm)

    def linear(self, into: Any, path: str, half: int | None = None) -> None:
        """Fill a linear map with that of a path, or with the first or second half of its rows."""
        for kind in ("weight", "bias"):
            if (tensor := self.weights.get(f"{path}.{kind}")) is not None:
                setattr(into, kind, tensor if half is None else tensor.chunk(2)[half])

    def norm(self, into: Any, layer: Layer) -> None:
        """Fill a normalization layer."""
        into.gamma = self.weights[f"{layer.path}.norm.weight"]
        if layer.spec.name == "norm":
            into.beta = self.weights[f"{layer.path}.norm.bias"]
