"""The gated attention of MEGA (beyond the paper)."""

from ..arguments import Argument, setting_default
from ..registry import BLOCK, PAST, POSITION, SENTENCE, Cost, declare
from ..spec import LayerSpec
from .attention import WEIGHT_DROPOUT, attended_width
from .common import PROBABILITY
from .linear_attention import key_width, value_width
from .moving_average import NUMBER, averages_cost, averages_parameters

KEY_WIDTH = key_width("C / 4", lambda spec: max(1, spec.input_width // 4))
HIDDEN_DROPOUT = Argument(
    "hidden_dropout",
    PROBABILITY,
    setting_default("dropout"),
    "probability of dropping a channel of the values",
)


def directions(spec: LayerSpec) -> int:
    """How often each channel has n averages: twice in an encoder, from either end of a sentence."""
    return 1 if spec.in_decoder else 2


def max_distance(spec: LayerSpec) -> int:
    """Positions on either side for which biases of distances are learned."""
    settings = spec.settings
    if spec.source_width is None:
        return spec.max_positions
    return max(settings.max_source_positions, settings.max_target_positions)


def gate_widths(spec: LayerSpec) -> list[int]:
    """Channels of what the averages are projected to.

    They are the update gate, queries and keys, the reset gate, and a part of the candidate.
    """
    return [spec.input_width, spec["d_k"], spec["d_v"], spec.input_width]


def sentence_cost(spec: LayerSpec) -> Cost:
    keys, values, averages = spec["d_k"], spec["d_v"], averages_cost(spec)
    projections = spec.input_width * (sum(gate_widths(spec)) + 2 * values)
    return Cost(
        projections + directions(spec) * averages.position,
        pair=keys + values,
        chunk=averages.chunk,
        chunk_pair=directions(spec) * averages.chunk_pair,
        state=directions(spec) * averages.state,
    )


def sentence_parameters(spec: LayerSpec) -> int:
    """Averages with a weight of the input, three projections, queries and keys, and distances."""
    width, keys, values, gates = spec.input_width, spec["d_k"], spec["d_v"], sum(gate_widths(spec))
    averages = directions(spec) * averages_parameters(spec) + width
    projections = (width + 1) * (values + gates) + (values + 1) * width
    return averages + projections + 4 * keys + 2 * max_distance(spec) - 1


def source_cost(spec: LayerSpec) -> Cost:
    width, keys = spec.input_width, spec["d_k"]
    return Cost(
        width * (2 * width + keys) + width * width,
        pair=keys + width,
        source=attended_width(spec) * (keys + width),
    )


def source_parameters(spec: LayerSpec) -> int:
    width, keys = spec.input_width, spec["d_k"]
    queries = (width + 1) * (2 * width + keys)
    keys_values = (attended_width(spec) + 1) * (keys + width)
    return queries + keys_values + (width + 1) * width + 2 * max_distance(spec) - 1


declare(
    "mega_src_att",
    "attention to the source with one head, and a gate for what it changes (beyond the paper)",
    KEY_WIDTH,
    BLOCK,
    WEIGHT_DROPOUT,
    HIDDEN_DROPOUT,
    reach=POSITION,
    cost=source_cost,
    parameters=source_parameters,
    attends=True,
)
declare(
    "mega_self_att",
    "attention with one head whose queries, keys and gates are made from moving averages (beyond "
    "the paper)",
    KEY_WIDTH,
    value_width("2 C", lambda spec: 2 * spec.input_width),
    NUMBER,
    WEIGHT_DROPOUT,
    HIDDEN_DROPOUT,
    reach=lambda spec: PAST if spec.in_decoder else SENTENCE,
    cost=sentence_cost,
    parameters=sentence_parameters,
)
