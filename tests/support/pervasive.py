"""The pervasive attention network and its plain reference, with the same weights and inputs."""

import torch

from convs2s.models.adl.language.spec import ENCODER
from convs2s.models.pervasive.grid_network import GridProjection, PervasiveAttention
from convs2s.models.pervasive.options import PervasiveOptions
from convs2s.models.pervasive.plain import PlainPervasive

SMALL = dict(
    encoder_embed_dim=6,
    decoder_embed_dim=8,
    num_layers=3,
    growth_rate=4,
    kernel_size=3,
    convolution_dropout=0.0,
    prediction_dropout=0.0,
)
# Target and source lengths of three sentences.
LENGTHS = [(13, 12), (9, 16), (16, 5)]


def small(**options):
    """The arguments of a small network without dropout, with some options changed."""
    found = PervasiveOptions(**{**SMALL, **options})
    found.check()
    return found, found.encoder_embed_dim, found.decoder_embed_dim


def network(dtype=torch.float64, seed=1, **options):
    """A small network and its source projection in training mode, with random parameters."""
    torch.manual_seed(seed)
    model = PervasiveAttention(*small(**options))
    model.source = GridProjection(ENCODER, *small(**options))
    model.to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        for name, buffer in model.named_buffers():
            buffer.copy_(torch.rand_like(buffer) + 0.5 if "var" in name else buffer.normal_())
    return model


def pairs(ours, plain):
    """Names of the plain network's tensors, each with a function that builds it from ours."""
    size = plain.layers[0].conv2.kernel_size[0]

    def conv1(layer):
        return lambda tensors: tensors[f"{layer}.conv1"][:, :, None, None]

    def conv2(layer):
        def full(tensors):
            half = tensors[f"{layer}.conv2"]
            return torch.cat([half, half.new_zeros(*half.shape[:2], size // 2, size)], dim=2)

        return full

    def same(name, channels=slice(None)):
        return lambda tensors: tensors[name][channels]

    def norms(prefix, layer, channels):
        yield from ((f"{prefix}norm1.{n}", same(f"{layer}.norm1.{n}")) for n in ("weight", "bias"))
        yield from (
            (f"{prefix}norm1.{n}", same(f"dense.features.{n}", slice(channels)))
            for n in ("running_mean", "running_var")
        )
        for n in ("weight", "bias", "running_mean", "running_var"):
            yield f"{prefix}norm2.{n}", same(f"{layer}.norm2.{n}")

    if plain.input is not None:
        yield (
            "input.weight",
            lambda tensors: torch.cat(
                [tensors[f"{side}.projection.weight"] for side in ("target", "source")], dim=1
            )[:, :, None, None],
        )
        yield "input.bias", same("target.projection.bias")
    for i, layer in enumerate(ours.dense.layers):
        name, prefix = f"dense.layers.{i}", f"layers.{i}."
        if i == len(plain.layers):
            prefix = ""
            yield "transition.weight", conv1(name)
        else:
            yield f"{prefix}conv1.weight", conv1(name)
            yield f"{prefix}conv2.weight", conv2(name)
        yield from norms(prefix, name, layer.conv1.size(1))
    if plain.scores is not None:
        joint = len(plain.parts) > 1
        prefix = f"aggregator.parts.{plain.parts.index('attn')}." if joint else "aggregator."
        for n in ("weight", "bias"):
            yield f"scores.{n}", same(f"{prefix}scores.{n}")
    for n in ("weight", "bias"):
        yield f"output.{n}", same(f"output.{n}")


def twins(dtype=torch.float64, **options):
    """Our network and the plain network with the same weights."""
    ours, plain = network(dtype, **options), PlainPervasive(*small(**options)).to(dtype)
    tensors = ours.state_dict()
    plain.load_state_dict({name: build(tensors) for name, build in pairs(ours, plain)})
    return ours, plain


def sentences(lengths=None, left_source=False, left_target=False, dtype=torch.float64, seed=2):
    """Random embeddings of source and target, and their padding masks.

    Args:
        lengths: target and source length of each sentence (LENGTHS).
        left_source, left_target: whether to pad on the left (False).
    Returns:
        source B x S x d_s, target B x T x d_t, and their masks, True at padding. The embeddings
        at padding are large, so that an error in masking changes the results.
    """
    lengths = lengths or LENGTHS
    generator = torch.Generator().manual_seed(seed)
    sides = []
    for side, channels, left in (
        (1, SMALL["encoder_embed_dim"], left_source),
        (0, SMALL["decoder_embed_dim"], left_target),
    ):
        longest = max(pair[side] for pair in lengths)
        x = torch.full((len(lengths), longest, channels), 7.0, dtype=dtype)
        mask = torch.ones(len(lengths), longest, dtype=torch.bool)
        for i, pair in enumerate(lengths):
            real = slice(longest - pair[side], None) if left else slice(pair[side])
            x[i, real] = torch.randn(pair[side], channels, dtype=dtype, generator=generator)
            mask[i, real] = False
        sides.append((x.requires_grad_(), mask))
    (source, source_padding), (target, target_padding) = sides
    return source, target, source_padding, target_padding


def run(model, source, target, source_padding=None, target_padding=None, state=None):
    """The features B x T x d_t of our network."""
    return model(model.source(source), target, source_padding, target_padding, state)[0]
