"""The named architectures: every row of Tables 2 to 5 of Domhan (2018) and every definition of
section 2.4, as text. Knows neither torch nor fairseq.

Names follow the rows: ``adl_rnn_mh_pos`` is the row "+ pos" below "RNN" and "+ mh" of Table 3,
``adl_self_att_rnn`` the row "self-att, RNN" of Table 5 (encoder, then decoder). Each name stands
for the IWSLT size of section 4.1; with ``_iwslt`` or ``_wmt`` behind it, for that size.
"""

from typing import Any, NamedTuple

from .language.resolve import resolve
from .language.spec import ModelSpec, Settings


class Architecture(NamedTuple):
    """A named pair of definitions.

    Attributes:
        encoder, decoder: ADL text.
        source: where it comes from.
        options: fields of Settings and of the model's options that differ from their defaults.
        sizes: whether it comes in the sizes of SIZES.
    """

    encoder: str
    decoder: str
    source: str
    options: dict[str, Any] = {}
    sizes: bool = True

    def recipe(self, **options: Any) -> ModelSpec:
        """The recipe of the architecture; ``options`` are fields of Settings that count more."""
        given = {**self.options, **options}
        feeding = given.pop("input_feeding", False)
        given.pop("init_gain", None)
        return resolve(self.encoder, self.decoder, Settings(**given), input_feeding=feeding)


# Sums of layers that nothing normalizes grow from layer to layer: with weights of full size, the
# first loss is above 100 and training does not recover.
_CALM = {"init_gain": 0.5}

SIZES = {"iwslt": {"model_dim": 512}, "wmt": {"model_dim": 256}}

_SELF_ATT = "res_nd(mh_dot_self_att)"
_RNN = "res_nd(rnn)"
_CNN = "res_nd(cnn(relu))"
_SOURCE = "res_nd(mh_dot_src_att)"
_FF = "res_nd(ffl)"


def _repeated(*parts: str) -> str:
    return f"pos -> repeat(6, {' -> '.join(parts)}) -> norm"


# Encoders of Table 5, where the recurrent one begins with a bidirectional layer (section 4.3).
_ENCODERS = {
    "self_att": _repeated(_SELF_ATT, _FF),
    "rnn": f"pos -> res_nd(birnn) -> {_FF} -> repeat(5, {_RNN} -> {_FF}) -> norm",
    "cnn": _repeated(_CNN, _FF),
}
_DECODERS = {
    "self_att": _repeated(_SELF_ATT, _SOURCE, _FF),
    "rnn": _repeated(_RNN, _SOURCE, _FF),
    "cnn": _repeated(_CNN, _SOURCE, _FF),
    "combined": "pos -> repeat(2, "
    + " -> ".join(f"{part} -> {_SOURCE} -> {_FF}" for part in (_SELF_ATT, _RNN, _CNN))
    + ") -> norm",
    "none": _repeated(_SOURCE, _FF),
}
_TABLE_5 = (
    ("self_att", "self_att"),
    ("self_att", "rnn"),
    ("self_att", "cnn"),
    ("rnn", "self_att"),
    ("cnn", "self_att"),
    ("rnn", "rnn"),
    ("cnn", "cnn"),
    ("self_att", "combined"),
    ("self_att", "none"),
)

_RNMT = "dropout -> birnn -> repeat(5, res_d(rnn))"
_RNN_ENCODER = "res_d(birnn) -> repeat(5, res_d(rnn))"
_RNN_NORM_ENCODER = "pos -> res_nd(birnn) -> repeat(5, res_nd(rnn)) -> norm"


def _transformer(block: str) -> tuple[str, str]:
    decoder = _repeated(_SELF_ATT, f"res_nd(mh_dot_src_att(block={block}))", _FF)
    return _ENCODERS["self_att"], decoder


def _cnn(activation: str) -> dict[str, Architecture]:
    """The four rows of Table 4 with one non-linearity."""
    name, cnn = f"adl_cnn_{activation}", f"cnn({activation})"
    title = "CNN GLU" if activation == "glu" else "CNN ReLU"
    normed, one_head = f"res_nd({cnn})", "res_nd(dot_src_att)"
    return {
        name: Architecture(
            f"pos -> repeat(6, res_d({cnn}))",
            f"pos -> repeat(6, res_d({cnn}) -> res_d(dot_src_att))",
            f"Table 4, {title}",
            _CALM,
        ),
        f"{name}_norm": Architecture(
            _repeated(normed), _repeated(normed, one_head), f"Table 4, {title} + norm"
        ),
        f"{name}_norm_mh": Architecture(
            _repeated(normed), _repeated(normed, _SOURCE), f"Table 4, {title} + mh"
        ),
        f"{name}_norm_mh_ff": Architecture(
            _repeated(normed, _FF), _repeated(normed, _SOURCE, _FF), f"Table 4, {title} + ff"
        ),
    }


_BASE: dict[str, Architecture] = {
    "adl_transformer": Architecture(
        _ENCODERS["self_att"], _DECODERS["self_att"], "section 2.4; Tables 1 to 5"
    ),
    "adl_convs2s": Architecture(
        "pos -> repeat(6, res(cnn(glu) -> dropout))",
        "pos -> repeat(6, res(dropout -> cnn(glu) -> dropout -> res(dot_src_att(s=1))))",
        "section 2.4, its decoder repeated as its encoder is",
        _CALM,
    ),
    "adl_rnmt": Architecture(
        _RNMT,
        "dropout -> rnn -> dropout -> repeat(5, res_d(rnn)) -> concat(id, mlp_att) -> ff",
        "section 2.4; Table 3, RNMT: input feeding doubles the input, so that the first layer "
        "has no residual",
        {"input_feeding": True},
    ),
    "adl_rnmt_no_input_feeding": Architecture(
        _RNMT,
        "dropout -> repeat(6, res_d(rnn)) -> concat(id, mlp_att) -> ff",
        "section 2.4; Table 3, RNMT - input feeding",
    ),
    "adl_transformer_upper": Architecture(*_transformer("-1"), "Table 2, upper"),
    "adl_transformer_increasing": Architecture(*_transformer("i"), "Table 2, increasing"),
    "adl_transformer_decreasing": Architecture(*_transformer("-i"), "Table 2, decreasing"),
    "adl_rnn": Architecture(
        f"dropout -> {_RNN_ENCODER}",
        "dropout -> repeat(6, res_d(rnn)) -> res_d(dot_src_att) -> res_d(ffl)",
        "Table 3, RNN",
    ),
    "adl_rnn_mh": Architecture(
        f"dropout -> {_RNN_ENCODER}",
        "dropout -> repeat(6, res_d(rnn)) -> res_d(mh_dot_src_att) -> res_d(ffl)",
        "Table 3, + mh",
    ),
    "adl_rnn_mh_pos": Architecture(
        f"pos -> {_RNN_ENCODER}",
        "pos -> repeat(6, res_d(rnn)) -> res_d(mh_dot_src_att) -> res_d(ffl)",
        "Table 3, + pos",
    ),
    "adl_rnn_mh_pos_norm": Architecture(
        _RNN_NORM_ENCODER,
        f"pos -> repeat(6, {_RNN}) -> {_SOURCE} -> {_FF} -> norm",
        "Table 3, + norm",
    ),
    "adl_rnn_mh_pos_norm_multi_att_1h": Architecture(
        _RNN_NORM_ENCODER,
        f"pos -> repeat(6, {_RNN} -> res_nd(dot_src_att)) -> {_FF} -> norm",
        "Table 3, + multi-att-1h",
    ),
    "adl_rnn_mh_pos_norm_multi_att": Architecture(
        _RNN_NORM_ENCODER,
        f"pos -> repeat(6, {_RNN} -> {_SOURCE}) -> {_FF} -> norm",
        "Table 3, / multi-att",
    ),
    "adl_rnn_mh_pos_norm_multi_att_ff": Architecture(
        _ENCODERS["rnn"], _DECODERS["rnn"], "Table 3, + ff"
    ),
    **_cnn("glu"),
    **_cnn("relu"),
    **{
        f"adl_{encoder}_{decoder}": Architecture(
            _ENCODERS[encoder],
            _DECODERS[decoder],
            f"Table 5, {encoder.replace('_', '-')} and {decoder.replace('_', '-')}",
        )
        for encoder, decoder in _TABLE_5
    },
    "adl_rnnsearch": Architecture(
        "dropout -> birnn(d=256)",
        "dropout -> rnn(d=256) -> concat(id, dot_att(s=1)) -> ff(v=tanh)",
        "the baseline of Elbayad et al. (2018), section 4.1",
        {"model_dim": 128, "dropout": 0.2},
        sizes=False,
    ),
}


def _sized() -> dict[str, Architecture]:
    found: dict[str, Architecture] = {}
    for name, architecture in _BASE.items():
        found[name] = architecture
        if architecture.sizes:
            for size, options in SIZES.items():
                given = {**architecture.options, **options}
                found[f"{name}_{size}"] = architecture._replace(options=given)
    return found


ARCHITECTURES = _sized()


def table() -> str:
    """The named architectures in Markdown, one a line, sizes left out."""
    rows: list[str] = [
        "| `--arch` | encoder | decoder | options | from |",
        "|---|---|---|---|---|",
    ]
    for name, architecture in _BASE.items():
        options = ", ".join(
            f"`--{key.replace('_', '-')}`"
            if value is True
            else f"`--{key.replace('_', '-')} {value}`"
            for key, value in architecture.options.items()
        )
        cells = (f"`{name}`", f"`{architecture.encoder}`", f"`{architecture.decoder}`", options,
                 architecture.source)  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
