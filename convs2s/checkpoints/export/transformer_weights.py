"""The weights of fairseq's transformer from those of a model in ADL.

Logits stay the same although fairseq's modules differ from those of ADL:

* fairseq adds 1e-5 to the variance in layer normalization, ADL 1e-6. Layer normalization with
  epsilon c^2 e of c x is layer normalization with epsilon e of x. Therefore all that is added to
  the residual stream is multiplied by c = sqrt(10).
* fairseq's sines have other frequencies. Therefore positions are exported as learned positions.
* fairseq's attention has biases, which are zero here, and divides dot products by the square root
  of the channels of a head. Another divisor becomes a factor of the queries.
* fairseq's output projection has no bias. The channels of a normalized vector n add up to 0.
  Therefore any bias can be a part of the weight: for features n + 1, the sum of a row of the weight
  is the bias, and adding a number to all elements of a row changes nothing else.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...models.adl.layers.common import EPSILON
from ...models.adl.layers.positions import sinusoids
from .transformer_shape import (
    FEED_FORWARD,
    SELF_ATTENTION,
    SOURCE_ATTENTION,
    Layer,
    StackShape,
    SubLayer,
    TransformerShape,
)

FAIRSEQ_EPSILON = 1e-5
STREAM_SCALE = math.sqrt(FAIRSEQ_EPSILON / EPSILON)
# fairseq's learned positions begin after the index of padding, which is 1.
POSITION_OFFSET = 2
# The number by which fairseq recognizes transformers whose last layer is a normalization.
VERSION = 3.0

ATTENTION = {SELF_ATTENTION: "self_attn", SOURCE_ATTENTION: "encoder_attn"}
NORM = {
    SELF_ATTENTION: "self_attn_layer_norm",
    SOURCE_ATTENTION: "encoder_attn_layer_norm",
    FEED_FORWARD: "final_layer_norm",
}
OUTPUT = "decoder.output_projection.weight"

Weights = dict[str, Tensor]


def has_output_bias(weights: Weights) -> bool:
    """Whether the output layer of a model in ADL adds a bias other than zero."""
    return bool(weights["decoder.output.bias"].any())


def convert_weights(weights: Weights, shape: TransformerShape, tied: bool) -> Weights:
    """Convert the weights of a model in ADL to those of fairseq's transformer.

    Args:
        weights: the state dict of the model.
        shape: its parts.
        tied: whether fairseq's output projection is the target embedding matrix; the output layer
            of the model must then be tied and have no bias.
    Returns:
        fairseq's state dict, in single precision or better. Equal matrices are one tensor.
    """
    converted = {}
    for stack in (shape.encoder, shape.decoder):
        converted.update(_Stack(stack, weights).convert())
    embeddings = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if torch.equal(weights["encoder.embed.words.weight"], weights["decoder.embed.words.weight"]):
        converted[embeddings[1]] = converted[embeddings[0]]
    _convert_output(converted, weights, _last_norm(shape.decoder), tied)
    exact = torch.promote_types(weights["decoder.embed.words.weight"].dtype, torch.float32)
    of_tensor: dict[int, Tensor] = {}
    for tensor in converted.values():
        of_tensor.setdefault(id(tensor), tensor.to(exact).contiguous())
    return {name: of_tensor[id(tensor)] for name, tensor in converted.items()}


def position_vectors(shape: StackShape, weights: Weights) -> Tensor:
    """What a stack adds to embeddings: positions x C, in double precision."""
    path, spec = shape.positions
    if spec.name == "learn_pos":
        return weights[f"{path}.weight"].double()
    vectors = sinusoids(spec.max_positions, shape.width).double()
    return vectors if spec["scale"] else vectors / math.sqrt(shape.width)


def _last_norm(stack: StackShape) -> str:
    """fairseq's name of the last layer normalization of a stack."""
    if stack.pre_norm:
        return f"{stack.side}.layer_norm"
    return f"{stack.side}.layers.{len(stack.blocks) - 1}.{NORM[FEED_FORWARD]}"


class _Stack:
    """Converts the weights of one stack, from the state dict of the model."""

    def __init__(self, shape: StackShape, weights: Weights):
        self.shape = shape
        self.weights = weights
        # A pre-norm layer reads normalized vectors, a post-norm layer the residual stream.
        self.input_scale = 1.0 if shape.pre_norm else 1.0 / STREAM_SCALE

    def exact(self, name: str) -> Tensor:
        """A weight of the model in double precision."""
        return self.weights[name].double()

    def convert(self) -> Weights:
        """All weights of the stack but the output projection, under fairseq's names."""
        side = self.shape.side
        converted = {
            f"{side}.version": torch.tensor([VERSION]),
            f"{side}.embed_tokens.weight": STREAM_SCALE * self.exact(f"{side}.embed.words.weight"),
            f"{side}.embed_positions.weight": STREAM_SCALE * self.positions(),
        }
        for number, block in enumerate(self.shape.blocks):
            for part in block:
                convert: Callable[[SubLayer], Weights] = (
                    self.feed_forward if part.kind == FEED_FORWARD else self.attention
                )
                # The next layer reads the sum that a post-norm layer normalizes.
                found = {**convert(part), **self.norm(part.norm, NORM[part.kind], STREAM_SCALE)}
                converted.update({f"{side}.layers.{number}.{key}": found[key] for key in found})
        last = self.shape.final_norm or self.shape.blocks[-1][-1].norm
        converted.update(self.norm(last, _last_norm(self.shape), 1.0, final=True))
        return converted

    def positions(self) -> Tensor:
        """Position vectors, with rows of zeros before the first position."""
        vectors = position_vectors(self.shape, self.weights)
        return torch.cat([vectors.new_zeros(POSITION_OFFSET, self.shape.width), vectors])

    def attention(self, part: SubLayer) -> Weights:
        """The projections of an attention layer."""
        path, spec = part.layers[0]
        name, width = ATTENTION[part.kind], self.shape.width
        if part.kind == SELF_ATTENTION:
            queries, keys, values = (
                self.input_scale * self.exact(f"{path}.queries_keys_values.weight")
            ).chunk(3)
        else:
            queries = self.input_scale * self.exact(f"{path}.queries.weight")
            # The encoder output is not a residual stream.
            keys, values = self.exact(f"{path}.keys_values.weight").chunk(2)
        queries = queries * math.sqrt(width / spec["h"] / spec["s"])
        output = STREAM_SCALE * self.exact(f"{path}.output.weight")
        projections = {"q_proj": queries, "k_proj": keys, "v_proj": values, "out_proj": output}
        return {
            f"{name}.{projection}.{kind}": tensor
            for projection, weight in projections.items()
            for kind, tensor in (("weight", weight), ("bias", weight.new_zeros(width)))
        }

    def feed_forward(self, part: SubLayer) -> Weights:
        """The two linear maps of a feed-forward network."""
        (first, _), (second, spec) = part.layers
        weight = self.exact(f"{second}.linear.weight")
        bias = self.exact(f"{second}.linear.bias") if spec["bias"] else weight.new_zeros(spec.width)
        return {
            "fc1.weight": self.input_scale * self.exact(f"{first}.linear.weight"),
            "fc1.bias": self.exact(f"{first}.linear.bias"),
            "fc2.weight": STREAM_SCALE * weight,
            "fc2.bias": STREAM_SCALE * bias,
        }

    def norm(self, layer: Layer, name: str, stream_scale: float, final: bool = False) -> Weights:
        """Scale and shift of a layer normalization.

        Args:
            layer: the layer normalization.
            name: its name in fairseq.
            stream_scale: factor of its output if it is a part of the residual stream.
            final: whether it is the last of the stack (False).
        """
        factor = 1.0 if self.shape.pre_norm or final else stream_scale
        return {
            f"{name}.{kind}": factor * self.exact(f"{layer.path}.norm.{kind}")
            for kind in ("weight", "bias")
        }


def _convert_output(converted: Weights, weights: Weights, norm: str, tied: bool) -> None:
    """Add the output projection to converted weights, and adapt the last layer normalization."""
    scale, shift = converted[f"{norm}.weight"], converted[f"{norm}.bias"]
    if tied:
        converted[OUTPUT] = converted["decoder.embed_tokens.weight"]
        converted[f"{norm}.weight"] = scale / STREAM_SCALE
        converted[f"{norm}.bias"] = shift / STREAM_SCALE
        return
    name = "decoder.output.words.weight"
    weight = weights[name if name in weights else "decoder.output.weight"].double()
    if not has_output_bias(weights):
        converted[OUTPUT] = weight
        return
    constant = weight @ shift + weights["decoder.output.bias"].double()
    weight = weight * scale
    mean = constant / len(scale)
    converted[OUTPUT] = weight + (mean - weight.mean(dim=1)).unsqueeze(1)
    converted[f"{norm}.weight"] = torch.ones_like(scale)
    converted[f"{norm}.bias"] = torch.ones_like(shift)
