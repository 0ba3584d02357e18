"""Random valid definitions, drawn from the grammar and all registered layers.

The rules of widths are written here a second time. An error about a definition shows a difference
between the two.
"""

import random
from typing import Any, NamedTuple

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.language.arguments import Choice, Flag
from convs2s.models.adl.language.registry import entries

WIDTHS = (4, 8, 12, 16)
HEADS = (1, 2, 4)
WRAPPERS = ("res", "res_d", "res_nd", "highway")
TO_SOURCE = tuple(
    name for name in sorted(entries()) if name.endswith("_att") and not name.endswith("_self_att")
)

TO_ENCODER = ("bi", "birnn")


class Definition(NamedTuple):
    """The arguments of ``resolve``."""

    encoder: str
    decoder: str
    settings: Settings
    input_feeding: bool

    def options(self) -> dict[str, Any]:
        """The options of a network."""
        return {
            "encoder_adl": self.encoder,
            "decoder_adl": self.decoder,
            "model_dim": self.settings.model_dim,
            "ff_dim": self.settings.ff_dim,
            "attention_heads": self.settings.attention_heads,
            "input_feeding": self.input_feeding,
        }


def random_definition(seed: int) -> Definition:
    """A valid definition; the same for the same seed."""
    rng = random.Random(seed)
    settings = Settings(
        model_dim=rng.choice(WIDTHS),
        ff_dim=rng.choice((None, *WIDTHS)),
        attention_heads=rng.choice(HEADS),
    )
    dim = settings.model_dim
    encoder, _ = _Generator(rng, settings, []).definition(dim)
    side = resolve(encoder, "id", settings).encoder
    widths = [side.block_width(block) for block in range(side.blocks + 1)]
    input_feeding = rng.random() < 0.15
    # With input feeding, the width of the output must not depend on the input.
    decoder, _ = _Generator(rng, settings, widths).definition(dim, "linear -> ")
    return Definition(encoder, decoder, settings, input_feeding)


class _Let(NamedTuple):
    """A name for a chain, and the channels of its input and output."""

    name: str
    chain: str
    width: int
    out: int


class _Generator:
    """Generates chains of one side.

    Args:
        rng: the source of randomness.
        settings: the model's options.
        widths: channels of each encoder block, for a decoder; empty for an encoder.
    """

    def __init__(self, rng: random.Random, settings: Settings, widths: list[int]):
        self.rng, self.settings, self.widths = rng, settings, widths
        self.names = [
            name
            for name in sorted(entries())
            if (name not in TO_ENCODER if widths else name not in TO_SOURCE) and name in KNOWN
        ]
        self.lets: list[_Let] = []

    def definition(self, width: int, start: str = "") -> tuple[str, int]:
        chain, out = self.chain(width, 0, True)
        lets = [f"let {let.name} = {let.chain};" for let in self.lets]
        return self.rng.choice((" ", "\n")).join([*lets, start + chain]), out

    def let(self, width: int, depth: int) -> "_Let":
        """A name for a chain: a new one, or one that there is."""
        known = [let for let in self.lets if let.width == width]
        if known and (depth > 2 or self.rng.random() < 0.7):
            return self.rng.choice(known)
        chain, out = ("id", width) if depth > 2 else self.chain(width, depth + 1)
        self.lets.append(_Let(f"chain_{len(self.lets) + 1}", chain, width, out))
        return self.lets[-1]

    def chain(self, width: int, depth: int, top: bool = False) -> tuple[str, int]:
        texts = []
        for _ in range(self.rng.randint(1, 4 if top else 3)):
            if depth < 2 and self.rng.random() < (0.3 if top else 0.1):
                text, width = self.repetition(width, depth)
            elif self.rng.random() < 0.05:
                let = self.let(width, depth)
                text, width = let.name, let.out
            else:
                text, width = self.layer(width, depth)
            texts.append(text)
        return self.rng.choice((" -> ", "->", " ->\n ")).join(texts), width

    def repetition(self, width: int, depth: int) -> tuple[str, int]:
        text, out = self.chain(width, depth + 1)
        if out != width:
            text, out = f"{text} -> linear({width})", width
        if self.rng.random() < 0.3:
            other, out = self.chain(width, depth + 1)
            if out != width:
                other = f"{other} -> linear({width})"
            return f"cycle({self.rng.randint(2, 2 if depth else 5)}, {text}, {other})", width
        blocks = len(self.widths) - 1
        count = self.rng.randint(1, 2 if depth else 3)
        if 1 < blocks and len(set(self.widths)) == 1:
            count = min(count, blocks)
            sign = self.rng.choice(("", "-"))
            text += f" -> mh_dot_src_att(d={width}, block={sign}i)"
        return f"repeat({count}, {text})", width

    def layer(self, width: int, depth: int) -> tuple[str, int]:
        name = self.rng.choice(self.names)
        if name in (*WRAPPERS, "concat", "sum", "bi") and depth > 2:
            name = "id"
        if name in WRAPPERS:
            text, out = self.chain(width, depth + 1)
            if out != width:
                text = f"{text} -> linear({width})"
            return f"{name}({text})", width
        if name == "share":
            let = self.let(width, depth)
            return f"share({let.name})", let.out
        if name == "bi":
            text, out = self.chain(width, depth + 1)
            return (f"bi({text}) -> linear(8)", 8) if out > 12 else (f"bi({text})", 2 * out)
        if name == "sum":
            chains = [self.chain(width, depth + 1) for _ in range(self.rng.randint(1, 3))]
            out = chains[0][1]
            texts = (t if o == out else f"{t} -> linear({out})" for t, o in chains)
            return f"sum({', '.join(texts)})", out
        if name == "concat":
            chains = [self.chain(width, depth + 1) for _ in range(self.rng.randint(1, 3))]
            total = sum(out for _, out in chains)
            text = f"concat({', '.join(text for text, _ in chains)})"
            # Widths must not grow without end.
            return f"{text} -> linear(8)" if total > 24 else text, 8 if total > 24 else total
        given = self.arguments(name)
        before = ""
        if name == "dot_att" and self.source_width(given) != width:
            before = f"linear({self.source_width(given)}) -> "
        if name in MIXERS:
            before = "norm -> "
        items = [f"{key}={self.shown(value)}" for key, value in given.items()]
        text = f"{name}({', '.join(items)})" if items or self.rng.random() < 0.2 else name
        return before + text, self.width_of(name, given, width)

    def arguments(self, name: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if name in ("retention", "gla"):
            # Divides the default widths too, and leaves retention pairs of channels.
            given["h"] = self.rng.choice((1, 2))
        for argument in entries()[name].arguments:
            if argument.name not in given and self.rng.random() < 0.5:
                value = self.value(name, argument, given)
                if value is not None:
                    given[argument.name] = value
        return given

    def value(self, name: str, argument: Any, given: dict[str, Any]) -> Any | None:
        rng, key = self.rng, argument.name
        if key in ("d", "d_p"):
            return rng.choice(WIDTHS)
        if key in ("d_k", "d_v"):
            return rng.choice(WIDTHS)
        if key == "h":
            return rng.choice(HEADS)
        if key in ("n", "expand"):
            return rng.randint(1, 3)
        if key == "s":
            return rng.choice((0.25, 1, 1.5, 64))
        if key == "k":
            return rng.randint(1, 4)
        if key == "dilation":
            return rng.randint(1, 3)
        if key in ("dropout", "hidden_dropout", "p"):
            return rng.choice((0, 0.1, 0.5))
        if key == "eps":
            return rng.choice((0.000001, 0.01))
        if key == "forget_bias":
            return rng.choice((0, 1)) if given.get("cell", "lstm").endswith("lstm") else None
        if key == "window":
            return rng.choice((1, 2, 3, 7))
        if key == "kv_heads":
            heads = given.get("h", self.settings.attention_heads)
            return rng.choice([count for count in HEADS if heads % count == 0])
        if key == "pos" and self.head_size(name, given) % 2:
            return rng.choice([name for name in argument.kind.names if name != "rope"])
        if key == "block":
            top = len(self.widths) - 1
            return rng.choice([block for block in range(-top, top + 1)])
        if key == "padding":
            return "causal" if self.widths else rng.choice(argument.kind.names)
        if isinstance(argument.kind, Choice):
            return rng.choice(argument.kind.names)
        assert isinstance(argument.kind, Flag), f"{name}: {key}"
        return rng.random() < 0.5

    @staticmethod
    def shown(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def head_size(self, name: str, given: dict[str, Any]) -> int:
        """Channels of each head of multi-head attention."""
        heads = 1 if name.startswith("dot_") else given.get("h", self.settings.attention_heads)
        return given.get("d_p", given.get("d", self.settings.model_dim)) // heads

    def source_width(self, given: dict[str, Any]) -> int:
        block = given.get("block", len(self.widths) - 1)
        return self.widths[block if block >= 0 else len(self.widths) + block]

    def width_of(self, name: str, given: dict[str, Any], width: int) -> int:
        if name in ("mlp_att", "mlp_src_att", "dot_att"):
            return self.source_width(given)
        if name.startswith("proj_dot"):
            return given.get("d_p", self.settings.model_dim)
        if name in ("linear", "ff", "cnn", "qrnn", "rnn", "birnn", *RECURRENCES) or name.endswith(
            ("dot_att", "dot_src_att", "dot_self_att")
        ):
            return given.get("d", self.settings.model_dim)
        return width


# Their outputs are products of four projections of the input: without normalization, numbers are
# soon too small for double precision.
MIXERS = ("retention", "gla", "mamba2")
# Gated linear recurrences of any width.
RECURRENCES = ("ssru", "min_gru", "min_lstm")
# Without layers that a test registers.
KNOWN = frozenset(entries())
