"""Linear attention with decays, whose state has one size for all positions (beyond the paper)."""

from collections.abc import Callable

from .....common.limits import MAX_KERNEL_SIZE, MAX_WIDTH
from ..arguments import Argument, Default, Integer, LayerError
from ..registry import PAST, Cost, declare
from ..spec import LayerSpec
from .attention import HEADS

# Channels between the two matrices of the gates of gla (Yang et al. 2024, section 4.4).
GATE_RANK = 16
# Most positions in a chunk: longer ones have more pairs, shorter ones more states. The first is
# that of decays for each head, the second that of decays for each channel.
HEAD_CHUNK, CHANNEL_CHUNK = 128, 32


def key_width(text: str, default: Callable[[LayerSpec], int]) -> Argument:
    """The argument d_k."""
    help = "channels of the queries or keys of all heads together"
    return Argument("d_k", Integer(1, MAX_WIDTH), Default(default, text), help)


def value_width(text: str, default: Callable[[LayerSpec], int]) -> Argument:
    """The argument d_v."""
    help = "channels of the values of all heads together"
    return Argument("d_v", Integer(1, MAX_WIDTH), Default(default, text), help)


def check_heads(spec: LayerSpec) -> None:
    for argument, what in (("d_k", "queries and keys"), ("d_v", "values")):
        if spec[argument] % spec["h"]:
            raise LayerError(
                f"the {spec['h']} heads of '{spec.name}' (h) must divide the {spec[argument]} "
                f"channels of its {what} ({argument})",
                "h",
            )


def check_rotated_heads(spec: LayerSpec) -> None:
    check_heads(spec)
    if spec["d_k"] // spec["h"] % 2:
        raise LayerError(
            f"'{spec.name}' rotates pairs of channels, but each of its {spec['h']} heads (h) has "
            f"{spec['d_k'] // spec['h']} of the {spec['d_k']} channels of its queries and keys "
            "(d_k): choose an even number of channels for each head",
            "h",
        )


def projections(spec: LayerSpec) -> int:
    """Weights of queries, keys, values, output gate and output."""
    weights: int = spec.input_width * (2 * spec["d_k"] + 3 * spec["d_v"])
    return weights


def gate_products(spec: LayerSpec) -> int:
    """Weights of the two matrices of gates."""
    weights: int = GATE_RANK * (spec.input_width + spec["d_k"])
    return weights


def inner_width(spec: LayerSpec) -> int:
    """Channels of the values of mamba2."""
    width: int = spec["expand"] * spec.input_width
    return width


def convolved_width(spec: LayerSpec) -> int:
    """Channels that the convolution of mamba2 sees: values, keys and queries."""
    width: int = inner_width(spec) + 2 * spec["n"]
    return width


def check_inner_heads(spec: LayerSpec) -> None:
    width = inner_width(spec)
    if width > MAX_WIDTH:
        raise LayerError(
            f"'{spec.name}' would have {width} inner channels, {spec['expand']} times the "
            f"{spec.input_width} of its input, but at most {MAX_WIDTH} are allowed",
            "expand",
        )
    if width % spec["h"]:
        raise LayerError(
            f"the {spec['h']} heads of '{spec.name}' (h) must divide its {width} inner channels, "
            f"{spec['expand']} times the {spec.input_width} of its input",
            "h",
        )


def mamba_projections(spec: LayerSpec) -> int:
    """Weights of the projections at the beginning and at the end."""
    width = inner_width(spec) + convolved_width(spec) + spec["h"] + inner_width(spec)
    weights: int = spec.input_width * width
    return weights


def retention_cost(spec: LayerSpec) -> Cost:
    keys, values = spec["d_k"], spec["d_v"]
    state = 2 * keys * values // spec["h"]
    return Cost(projections(spec), chunk=HEAD_CHUNK, chunk_pair=keys + values, state=state)


def gla_cost(spec: LayerSpec) -> Cost:
    keys, values = spec["d_k"], spec["d_v"]
    # Squares of the values are summed up as a matrix product.
    position = projections(spec) + gate_products(spec) + values
    state = 2 * keys * values // spec["h"]
    if keys == spec["h"]:
        # The decay of the only channel is that of the head.
        return Cost(position, chunk=HEAD_CHUNK, chunk_pair=keys + values, state=state)
    # Log decays are summed up as a matrix product.
    return Cost(position, chunk=CHANNEL_CHUNK, chunk_pair=2 * keys + values, state=state)


def mamba_cost(spec: LayerSpec) -> Cost:
    inner, keys = inner_width(spec), spec["n"]
    # The convolution treats each channel separately and has no matrix products.
    position = mamba_projections(spec) + inner
    return Cost(position, chunk=HEAD_CHUNK, chunk_pair=keys + inner, state=2 * keys * inner)


def mamba_parameters(spec: LayerSpec) -> int:
    """Projections, convolution with bias, three numbers for each head, and the normalization."""
    convolution = (spec["k"] + 1) * convolved_width(spec)
    return mamba_projections(spec) + convolution + 3 * spec["h"] + inner_width(spec)


declare(
    "retention",
    "linear attention whose heads have fixed decays, and queries and keys that are rotated by "
    "their positions (beyond the paper)",
    HEADS,
    key_width("C", lambda spec: spec.input_width),
    value_width("2 C", lambda spec: 2 * spec.input_width),
    reach=PAST,
    check=check_rotated_heads,
    cost=retention_cost,
    parameters=projections,
)
declare(
    "gla",
    "linear attention whose decays are gates for each channel of the keys (beyond the paper)",
    HEADS,
    key_width("C / 2", lambda spec: max(1, spec.input_width // 2)),
    value_width("C", lambda spec: spec.input_width),
    reach=PAST,
    check=check_heads,
    cost=gla_cost,
    # The gates have biases, and the normalization has weights that all heads share.
    parameters=lambda spec: (
        projections(spec) + gate_products(spec) + spec["d_k"] + spec["d_v"] // spec["h"]
    ),
)
declare(
    "mamba2",
    "a state space model: linear attention after a short convolution, with a gated decay for each "
    "head (beyond the paper)",
    Argument("n", Integer(1, MAX_WIDTH), 128, "channels of the queries or keys, for all heads"),
    HEADS,
    Argument("expand", Integer(1, MAX_WIDTH), 2, "inner channels for each channel of the input"),
    Argument("k", Integer(1, MAX_KERNEL_SIZE), 4, "positions that the convolution sees"),
    reach=PAST,
    check=check_inner_heads,
    cost=mamba_cost,
    parameters=mamba_parameters,
)
