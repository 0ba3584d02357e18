"""The dialect of the original implementation, translated.

It writes ``res(norm->X)`` where this package has ``res_nd(X)``, gives ``linear``, ``cnn`` and the
attentions a dropout of their own (``linear`` there is ``linear -> dropout`` here), calls the
attention to the source ``mh_dot_att``, and has other names, orders and defaults of arguments.
Translated, a definition gives the same recipe as its counterpart in the paper's language.

Knows neither torch nor fairseq.
"""

from dataclasses import replace
from typing import NamedTuple

from .arguments import Argument, Flag, Refusal, SubChain, bind, make_item
from .registry import why_refused
from .spec import Settings
from .tree import Call, Chain, Item, Number, Repeat, unknown_layer, write

# Meanings of an argument that are not just another name for it.
AFTER, CHAIN, IGNORED, NEGATED, WIDTH, WORD = "after", "chain", "ignored", "negated", "width", "v"

_WORDS = {"softrelu": "softplus", "swish1": "swish"}
_ONLY = {
    "stride": (1, "it would change the number of source positions"),
    "dropout_inputs": (0, "dropout inside a cell is not offered; write 'dropout ->' before it"),
    "dropout_states": (0, "dropout inside a cell is not offered"),
    "dropout_recurrent": (0, "dropout inside a cell is not offered"),
    "max_seq_len": (None, "--max-source-positions and --max-target-positions say it"),
}


class _Rule(NamedTuple):
    """How a layer is translated: its new name, what becomes of its arguments, defaults to add."""

    name: str
    arguments: dict[str, str]
    defaults: dict[str, int | str] = {}
    drops: bool = False


_CELL = {
    "num_hidden": "d",
    "cell_type": "cell",
    "dropout_inputs": "dropout_inputs",
    "dropout_states": "dropout_states",
    "dropout_recurrent": "dropout_recurrent",
    # These two were read but never used.
    "norm_states": IGNORED,
    "norm_first_step": IGNORED,
    "forget_bias": "forget_bias",
}
_ATTENTION = {
    "heads": "h",
    "dropout": AFTER,
    "dropout_attention": "dropout",
    "num_hidden": "d",
    "att_num_hidden": "d_p",
}
_RULES = {
    "id": _Rule("id", {}),
    "norm": _Rule("norm", {}),
    "act": _Rule("act", {"act_type": WORD}),
    "dropout": _Rule("dropout", {"dropout": "p"}),
    "pos": _Rule("pos", {"num_embed": WIDTH, "dropout": "dropout", "scale_inputs": "scale"}),
    "learn_pos": _Rule(
        "learn_pos", {"num_embed": WIDTH, "dropout": "dropout", "max_seq_len": "max_seq_len"}
    ),
    "ff": _Rule("ff", {"num_hidden": "d", "dropout": "dropout", "act_type": WORD}),
    "linear": _Rule(
        "linear", {"num_hidden": "d", "dropout": AFTER, "no_bias": NEGATED}, drops=True
    ),
    "cnn": _Rule(
        "cnn",
        {
            "num_hidden": "d",
            "kernel_width": "k",
            "act_type": WORD,
            "dropout": AFTER,
            "dilate": "dilation",
            "stride": "stride",
            "prefix": IGNORED,
        },
        {"v": "glu"},
        drops=True,
    ),
    "qrnn": _Rule("qrnn", {"num_hidden": "d", "kernel_width": "k", "act_type": WORD}),
    "rnn": _Rule("rnn", _CELL),
    "birnn": _Rule(
        "birnn", {name: how for name, how in _CELL.items() if name != "norm_first_step"}
    ),
    "mh_dot_att": _Rule("mh_dot_src_att", _ATTENTION, {"h": 8}, drops=True),
    "mh_dot_self_att": _Rule("mh_dot_self_att", _ATTENTION, {"h": 8}, drops=True),
    "res": _Rule("res", {"chain": CHAIN}),
    "highway": _Rule("highway", {"chain": CHAIN}),
}


def translate(chain: Chain, settings: Settings) -> Chain:
    """The same network in the paper's language.

    Args:
        chain: a definition as the original implementation reads it.
        settings: what the model's options say.
    Raises:
        TextError: an unknown layer or argument, or one that is not offered.
    """
    layers: list[Call | Repeat] = []
    for part in chain:
        if isinstance(part, Repeat):
            layers.append(replace(part, chain=translate(part.chain, settings)))
        else:
            layers += _translate(part, settings)
    return tuple(layers)


def _translate(call: Call, settings: Settings) -> Chain:
    rule = _RULES.get(call.name)
    if rule is None:
        raise call.place.refuse(why_refused(call.name) or unknown_layer(call.name, _RULES))
    declared = [Argument(name, SubChain(), default=None) for name in rule.arguments]
    items: list[Item] = []
    after: tuple[Item, ...] = ()
    for name, (item,) in bind(call, declared).items():
        meaning = rule.arguments[name]
        if meaning == AFTER:
            after = (replace(item, name="p"),)
        elif meaning == CHAIN:
            inner = item.value
            translated = translate(inner, settings) if isinstance(inner, tuple) else inner
            items.append(Item(None, translated, item.place))
        elif meaning == NEGATED:
            items.append(make_item("bias", not _flag(item, call, name), item.place))
        elif meaning == WIDTH:
            _check(item, call, name, settings.model_dim, "positions are as wide as --model-dim")
        elif meaning in _ONLY:
            _check(item, call, name, *_ONLY[meaning])
        elif meaning == WORD:
            word = write(item.value)
            items.append(
                make_item("v", _WORDS[word], item.place)
                if word in _WORDS
                else replace(item, name="v")
            )
        elif meaning != IGNORED:
            items.append(replace(item, name=meaning))
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


def _flag(item: Item, call: Call, name: str) -> bool:
    try:
        return Flag().read(item.value)
    except Refusal as refusal:
        raise item.place.refuse(f"'{call.name}': '{name}' {refusal.message}") from None


def _check(item: Item, call: Call, name: str, only: int | None, why: str) -> None:
    if not (isinstance(item.value, Number) and item.value.value == only):
        must = "cannot be given" if only is None else f"must be {only}"
        raise item.place.refuse(f"'{call.name}': '{name}' {must}: {why}")
