"""The dialect of the original implementation (Sockeye), translated to the paper's language.

Sockeye writes ``res(norm->X)`` for ``res_nd(X)``, gives ``linear``, ``cnn`` and attention layers a
dropout of their own (its ``linear`` is ``linear -> dropout`` here), calls attention to the source
``mh_dot_att``, and has other names, orders and defaults of arguments. A translated definition
gives the same specification as its counterpart in the paper's language.

Needs neither torch nor fairseq.
"""

from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from .arguments import Argument, Flag, SubChain, bind, make_item, parse_item
from .registry import why_unsupported
from .spec import Settings
from .tree import Call, Chain, Definition, Item, Number, Repeat, unknown_layer, write


class _Special(Enum):
    """Arguments that need more than a new name."""

    DROPOUT_AFTER = auto()  # the probability of a dropout layer that follows
    INNER_CHAIN = auto()  # a chain of layers, which is also translated
    IGNORED = auto()  # Sockeye accepts it without an effect
    NO_BIAS = auto()  # the opposite of ``bias``
    EMBEDDING_WIDTH = auto()  # must be --model-dim
    ACTIVATION = auto()  # a non-linearity, some of which have other names


_ACTIVATION_NAMES = {"softrelu": "softplus", "swish1": "swish"}
# Arguments with only one allowed value (None: with no allowed value), and the reason.
FIXED = {
    "stride": (1, "it would change the number of source positions"),
    "dropout_inputs": (0, "dropout inside a cell is not offered; write 'dropout ->' before it"),
    "dropout_states": (0, "dropout inside a cell is not offered"),
    "dropout_recurrent": (0, "dropout inside a cell is not offered"),
    "max_seq_len": (None, "use --max-source-positions and --max-target-positions"),
}


class _Rule(NamedTuple):
    """The translation of one layer.

    Attributes:
        name: the name of the layer in the paper's language.
        arguments: Sockeye's arguments in order, with their new names or their treatment.
        defaults: arguments to add if they are not given.
        drops: whether a dropout layer follows.
    """

    name: str
    arguments: dict[str, str | _Special]
    defaults: dict[str, int | str] = {}
    drops: bool = False


_CELL: dict[str, str | _Special] = {
    "num_hidden": "d",
    "cell_type": "cell",
    "dropout_inputs": "dropout_inputs",
    "dropout_states": "dropout_states",
    "dropout_recurrent": "dropout_recurrent",
    "norm_states": _Special.IGNORED,
    "norm_first_step": _Special.IGNORED,
    "forget_bias": "forget_bias",
}
_ATTENTION: dict[str, str | _Special] = {
    "heads": "h",
    "dropout": _Special.DROPOUT_AFTER,
    "dropout_attention": "dropout",
    "num_hidden": "d",
    "att_num_hidden": "d_p",
}
RULES = {
    "id": _Rule("id", {}),
    "norm": _Rule("norm", {}),
    "act": _Rule("act", {"act_type": _Special.ACTIVATION}),
    "dropout": _Rule("dropout", {"dropout": "p"}),
    "pos": _Rule(
        "pos",
        {"num_embed": _Special.EMBEDDING_WIDTH, "dropout": "dropout", "scale_inputs": "scale"},
    ),
    "learn_pos": _Rule(
        "learn_pos",
        {
            "num_embed": _Special.EMBEDDING_WIDTH,
            "dropout": "dropout",
            "max_seq_len": "max_seq_len",
        },
    ),
    "ff": _Rule("ff", {"num_hidden": "d", "dropout": "dropout", "act_type": _Special.ACTIVATION}),
    "linear": _Rule(
        "linear",
        {"num_hidden": "d", "dropout": _Special.DROPOUT_AFTER, "no_bias": _Special.NO_BIAS},
        drops=True,
    ),
    "cnn": _Rule(
        "cnn",
        {
            "num_hidden": "d",
            "kernel_width": "k",
            "act_type": _Special.ACTIVATION,
            "dropout": _Special.DROPOUT_AFTER,
            "dilate": "dilation",
            "stride": "stride",
            "prefix": _Special.IGNORED,
        },
        {"v": "glu"},
        drops=True,
    ),
    "qrnn": _Rule(
        "qrnn", {"num_hidden": "d", "kernel_width": "k", "act_type": _Special.ACTIVATION}
    ),
    "rnn": _Rule("rnn", _CELL),
    "birnn": _Rule(
        "birnn", {name: how for name, how in _CELL.items() if name != "norm_first_step"}
    ),
    "mh_dot_att": _Rule("mh_dot_src_att", _ATTENTION, {"h": 8}, drops=True),
    "mh_dot_self_att": _Rule("mh_dot_self_att", _ATTENTION, {"h": 8}, drops=True),
    "res": _Rule("res", {"chain": _Special.INNER_CHAIN}),
    "highway": _Rule("highway", {"chain": _Special.INNER_CHAIN}),
}


def translate(definition: Definition, settings: Settings) -> Definition:
    """Translate a definition to the paper's language.

    Args:
        definition: the syntax tree of a definition in Sockeye's dialect.
        settings: the model's options.
    Raises:
        TextError: if a layer or an argument is unknown or is not offered.
    """
    for let in definition.lets:
        raise let.place.error("Sockeye's dialect has no 'let': write the chain out")
    return Definition((), _translate_chain(definition.chain, settings))


def _translate_chain(chain: Chain, settings: Settings) -> Chain:
    layers: list[Call | Repeat] = []
    for part in chain:
        if not isinstance(part, Repeat):
            layers += _translate_layer(part, settings)
        elif len(part.chains) > 1:
            raise part.place.error(unknown_layer("cycle", RULES))
        else:
            inner = _translate_chain(part.chains[0], settings)
            layers.append(replace(part, chains=(inner,)))
    return tuple(layers)


def _translate_layer(call: Call, settings: Settings) -> Chain:
    rule = RULES.get(call.name)
    if rule is None:
        raise call.place.error(why_unsupported(call.name) or unknown_layer(call.name, RULES))
    declared = [Argument(name, SubChain(), default=None) for name in rule.arguments]
    items: list[Item] = []
    after: tuple[Item, ...] = ()
    for name, (item,) in bind(call, declared).items():
        how = rule.arguments[name]
        if how is _Special.DROPOUT_AFTER:
            after = (replace(item, name="p"),)
        elif how is _Special.INNER_CHAIN:
            inner = item.value
            translated = _translate_chain(inner, settings) if isinstance(inner, tuple) else inner
            items.append(Item(None, translated, item.place))
        elif how is _Special.NO_BIAS:
            no_bias = parse_item(call, Argument(name, Flag()), item, declared)
            items.append(make_item("bias", not no_bias, item.place))
        elif how is _Special.EMBEDDING_WIDTH:
            why = "positions are as wide as --model-dim"
            _check_fixed(item, call, name, settings.model_dim, why)
        elif how is _Special.ACTIVATION:
            activation = write(item.value)
            if activation in _ACTIVATION_NAMES:
                items.append(make_item("v", _ACTIVATION_NAMES[activation], item.place))
            else:
                items.append(replace(item, name="v"))
        elif how in FIXED:
            _check_fixed(item, call, name, *FIXED[how])
        elif how is not _Special.IGNORED:
            items.append(replace(item, name=how))
    given = {item.name for item in items}
    if after and "dropout" not in given and "dropout_attention" in rule.arguments:
        items.append(replace(after[0], name="dropout"))
    items += [
        make_item(name, value, call.place)
        for name, value in rule.defaults.items()
        if name not in given
    ]
    layer = Call(rule.name, tuple(items), call.place)
    return (layer, Call("dropout", after, call.place)) if rule.drops else (layer,)


def _check_fixed(item: Item, call: Call, name: str, allowed: int | None, why: str) -> None:
    if not (isinstance(item.value, Number) and item.value.value == allowed):
        must = "cannot be given" if allowed is None else f"must be {allowed}"
        raise item.place.error(f"'{call.name}': '{name}' {must}: {why}")
