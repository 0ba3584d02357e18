"""The named architectures: every row of Tables 2 to 5 of Domhan (2018) and every definition of
section 2.4, as text, and those of ``hybrids``. Needs neither torch nor fairseq.

Names of the former follow the rows: ``adl_rnn_mh_pos`` is the row "+ pos" below "RNN" and "+ mh" of
Table 3, ``adl_self_att_rnn`` the row "self-att, RNN" of Table 5 (encoder, then decoder). A plain
name has the IWSLT size of section 4.1; one that ends in ``_iwslt``, ``_wmt`` or ``_small`` has
that size.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...common.limits import option_name
from ...common.tables import markdown_table
from .figures import figures
from .hybrids import HYBRIDS
from .options import AdlArchitecture


class Size(NamedTuple):
    """The size of a named architecture.

    Attributes:
        options: options of the model.
        depth: layers of each stack that has DEPTH in the paper.
    """

    options: dict[str, Any]
    depth: int


# Layers of a stack in the paper.
DEPTH = 6
# The sizes of section 4.1, and one for tens of thousands of sentence pairs
# (examples/multi30k).
SIZES = {
    "iwslt": Size({"model_dim": 512}, DEPTH),
    "wmt": Size({"model_dim": 256}, DEPTH),
    "small": Size({"model_dim": 128, "ff_dim": 256, "attention_heads": 4}, depth=4),
}

# Sums of layers without normalization grow from layer to layer: with initial weights of full size,
# the first loss is above 100 and training does not recover.
_SMALL_WEIGHTS = {"init_gain": 0.5}

_SELF_ATT = "res_nd(mh_dot_self_att)"
_SRC_ATT = "res_nd(mh_dot_src_att)"
_RNN = "res_nd(rnn)"
_RELU = "res_nd(cnn(relu))"
_GLU = "res_nd(cnn(glu))"
_FF = "res_nd(ffl)"

_SELF_ATT_ENCODER = f"pos -> repeat(6, {_SELF_ATT} -> {_FF}) -> norm"
_CNN_ENCODER = f"pos -> repeat(6, {_RELU} -> {_FF}) -> norm"
# The first layer is bidirectional (section 4.3).
_RNN_ENCODER = f"pos -> res_nd(birnn) -> {_FF} -> repeat(5, {_RNN} -> {_FF}) -> norm"

_SELF_ATT_DECODER = f"pos -> repeat(6, {_SELF_ATT} -> {_SRC_ATT} -> {_FF}) -> norm"
_CNN_DECODER = f"pos -> repeat(6, {_RELU} -> {_SRC_ATT} -> {_FF}) -> norm"
_RNN_DECODER = f"pos -> repeat(6, {_RNN} -> {_SRC_ATT} -> {_FF}) -> norm"

# One entry per name; `_with_sizes` adds the sizes.
NAMED: dict[str, AdlArchitecture] = {
    "adl_transformer": AdlArchitecture(
        _SELF_ATT_ENCODER, _SELF_ATT_DECODER, "section 2.4; Tables 1 to 5"
    ),
    "adl_convs2s": AdlArchitecture(
        "pos -> repeat(6, res(cnn(glu) -> dropout))",
        "pos -> repeat(6, res(dropout -> cnn(glu) -> dropout -> res(dot_src_att(s=1))))",
        "section 2.4, its decoder repeated as its encoder is",
        _SMALL_WEIGHTS,
    ),
    "adl_rnmt": AdlArchitecture(
        "dropout -> birnn -> repeat(5, res_d(rnn))",
        "dropout -> rnn -> dropout -> repeat(5, res_d(rnn)) -> concat(id, mlp_att) -> ff",
        "section 2.4; Table 3, RNMT: input feeding doubles the input, so the first layer has no "
        "residual",
        {"input_feeding": True},
    ),
    "adl_rnmt_no_input_feeding": AdlArchitecture(
        "dropout -> birnn -> repeat(5, res_d(rnn))",
        "dropout -> repeat(6, res_d(rnn)) -> concat(id, mlp_att) -> ff",
        "section 2.4; Table 3, RNMT - input feeding",
    ),
    "adl_transformer_upper": AdlArchitecture(
        _SELF_ATT_ENCODER,
        f"pos -> repeat(6, {_SELF_ATT} -> res_nd(mh_dot_src_att(block=-1)) -> {_FF}) -> norm",
        "Table 2, upper",
    ),
    "adl_transformer_increasing": AdlArchitecture(
        _SELF_ATT_ENCODER,
        f"pos -> repeat(6, {_SELF_ATT} -> res_nd(mh_dot_src_att(block=i)) -> {_FF}) -> norm",
        "Table 2, increasing",
    ),
    "adl_transformer_decreasing": AdlArchitecture(
        _SELF_ATT_ENCODER,
        f"pos -> repeat(6, {_SELF_ATT} -> res_nd(mh_dot_src_att(block=-i)) -> {_FF}) -> norm",
        "Table 2, decreasing",
    ),
    "adl_rnn": AdlArchitecture(
        "dropout -> res_d(birnn) -> repeat(5, res_d(rnn))",
        "dropout -> repeat(6, res_d(rnn)) -> res_d(dot_src_att) -> res_d(ffl)",
        "Table 3, RNN",
    ),
    "adl_rnn_mh": AdlArchitecture(
        "dropout -> res_d(birnn) -> repeat(5, res_d(rnn))",
        "dropout -> repeat(6, res_d(rnn)) -> res_d(mh_dot_src_att) -> res_d(ffl)",
        "Table 3, + mh",
    ),
    "adl_rnn_mh_pos": AdlArchitecture(
        "pos -> res_d(birnn) -> repeat(5, res_d(rnn))",
        "pos -> repeat(6, res_d(rnn)) -> res_d(mh_dot_src_att) -> res_d(ffl)",
        "Table 3, + pos",
    ),
    "adl_rnn_mh_pos_norm": AdlArchitecture(
        f"pos -> res_nd(birnn) -> repeat(5, {_RNN}) -> norm",
        f"pos -> repeat(6, {_RNN}) -> {_SRC_ATT} -> {_FF} -> norm",
        "Table 3, + norm",
    ),
    "adl_rnn_mh_pos_norm_multi_att_1h": AdlArchitecture(
        f"pos -> res_nd(birnn) -> repeat(5, {_RNN}) -> norm",
        f"pos -> repeat(6, {_RNN} -> res_nd(dot_src_att)) -> {_FF} -> norm",
        "Table 3, + multi-att-1h",
    ),
    "adl_rnn_mh_pos_norm_multi_att": AdlArchitecture(
        f"pos -> res_nd(birnn) -> repeat(5, {_RNN}) -> norm",
        f"pos -> repeat(6, {_RNN} -> {_SRC_ATT}) -> {_FF} -> norm",
        "Table 3, / multi-att",
    ),
    "adl_rnn_mh_pos_norm_multi_att_ff": AdlArchitecture(
        _RNN_ENCODER, _RNN_DECODER, "Table 3, + ff"
    ),
    "adl_cnn_glu": AdlArchitecture(
        "pos -> repeat(6, res_d(cnn(glu)))",
        "pos -> repeat(6, res_d(cnn(glu)) -> res_d(dot_src_att))",
        "Table 4, CNN GLU",
        _SMALL_WEIGHTS,
    ),
    "adl_cnn_glu_nested": AdlArchitecture(
        "pos -> repeat(6, res_d(cnn(glu)))",
        "pos -> repeat(6, res(cnn(glu) -> dropout -> res_d(dot_src_att)))",
        "Table 4, CNN GLU, as in the authors' configuration",
        _SMALL_WEIGHTS,
    ),
    "adl_cnn_glu_norm": AdlArchitecture(
        f"pos -> repeat(6, {_GLU}) -> norm",
        f"pos -> repeat(6, {_GLU} -> res_nd(dot_src_att)) -> norm",
        "Table 4, CNN GLU + norm",
    ),
    "adl_cnn_glu_norm_mh": AdlArchitecture(
        f"pos -> repeat(6, {_GLU}) -> norm",
        f"pos -> repeat(6, {_GLU} -> {_SRC_ATT}) -> norm",
        "Table 4, CNN GLU + mh",
    ),
    "adl_cnn_glu_norm_mh_ff": AdlArchitecture(
        f"pos -> repeat(6, {_GLU} -> {_FF}) -> norm",
        f"pos -> repeat(6, {_GLU} -> {_SRC_ATT} -> {_FF}) -> norm",
        "Table 4, CNN GLU + ff",
    ),
    "adl_cnn_relu": AdlArchitecture(
        "pos -> repeat(6, res_d(cnn(relu)))",
        "pos -> repeat(6, res_d(cnn(relu)) -> res_d(dot_src_att))",
        "Table 4, CNN ReLU",
        _SMALL_WEIGHTS,
    ),
    "adl_cnn_relu_norm": AdlArchitecture(
        f"pos -> repeat(6, {_RELU}) -> norm",
        f"pos -> repeat(6, {_RELU} -> res_nd(dot_src_att)) -> norm",
        "Table 4, CNN ReLU + norm",
    ),
    "adl_cnn_relu_norm_mh": AdlArchitecture(
        f"pos -> repeat(6, {_RELU}) -> norm",
        f"pos -> repeat(6, {_RELU} -> {_SRC_ATT}) -> norm",
        "Table 4, CNN ReLU + mh",
    ),
    "adl_cnn_relu_norm_mh_ff": AdlArchitecture(
        _CNN_ENCODER, _CNN_DECODER, "Table 4, CNN ReLU + ff"
    ),
    "adl_self_att_self_att": AdlArchitecture(
        _SELF_ATT_ENCODER, _SELF_ATT_DECODER, "Table 5, self-att and self-att"
    ),
    "adl_self_att_rnn": AdlArchitecture(
        _SELF_ATT_ENCODER, _RNN_DECODER, "Table 5, self-att and rnn"
    ),
    "adl_self_att_cnn": AdlArchitecture(
        _SELF_ATT_ENCODER, _CNN_DECODER, "Table 5, self-att and cnn"
    ),
    "adl_rnn_self_att": AdlArchitecture(
        _RNN_ENCODER, _SELF_ATT_DECODER, "Table 5, rnn and self-att"
    ),
    "adl_cnn_self_att": AdlArchitecture(
        _CNN_ENCODER, _SELF_ATT_DECODER, "Table 5, cnn and self-att"
    ),
    "adl_rnn_rnn": AdlArchitecture(_RNN_ENCODER, _RNN_DECODER, "Table 5, rnn and rnn"),
    "adl_cnn_cnn": AdlArchitecture(_CNN_ENCODER, _CNN_DECODER, "Table 5, cnn and cnn"),
    "adl_self_att_combined": AdlArchitecture(
        _SELF_ATT_ENCODER,
        f"pos -> repeat(2, {_SELF_ATT} -> {_SRC_ATT} -> {_FF} -> {_RNN} -> {_SRC_ATT} -> {_FF} -> "
        f"{_RELU} -> {_SRC_ATT} -> {_FF}) -> norm",
        "Table 5, self-att and combined",
    ),
    "adl_self_att_none": AdlArchitecture(
        _SELF_ATT_ENCODER,
        f"pos -> repeat(6, {_SRC_ATT} -> {_FF}) -> norm",
        "Table 5, self-att and none",
    ),
    "adl_rnnsearch": AdlArchitecture(
        "dropout -> birnn(d=256)",
        "dropout -> rnn(d=256) -> concat(id, dot_att(s=1)) -> ff(d=256, v=tanh)",
        "the baseline of Elbayad et al. (2018), section 4.1",
        {"model_dim": 128, "dropout": 0.2},
        sizes=False,
    ),
}


def _with_depth(definition: str, depth: int) -> str:
    """A definition whose stacks have DEPTH layers, with stacks of another depth."""
    return re.sub(
        r"repeat\((\d+)", lambda found: f"repeat({int(found[1]) * depth // DEPTH}", definition
    )


def _with_sizes(named: dict[str, AdlArchitecture]) -> dict[str, AdlArchitecture]:
    found: dict[str, AdlArchitecture] = {}
    for name, architecture in named.items():
        found[name] = architecture
        if architecture.sizes:
            for size, (options, depth) in SIZES.items():
                found[f"{name}_{size}"] = architecture._replace(
                    encoder=_with_depth(architecture.encoder, depth),
                    decoder=_with_depth(architecture.decoder, depth),
                    options={**architecture.options, **options},
                )
    return found


ARCHITECTURES = {**_with_sizes(NAMED), **HYBRIDS}
AS_OPTIONS = {name: architecture.as_options() for name, architecture in ARCHITECTURES.items()}


def table(named: Mapping[str, AdlArchitecture] = NAMED | HYBRIDS) -> str:
    """Named architectures as a Markdown table, without the sizes of Domhan (2018)."""
    rows = []
    for name, architecture in named.items():
        options = ", ".join(
            f"`{option_name(key)}`" if value is True else f"`{option_name(key)} {value}`"
            for key, value in architecture.options.items()
        )
        spec = architecture.resolve()
        parameters = figures((*spec.encoder.layers, *spec.decoder.layers), 1).parameters
        size = f"{parameters / 1e6:.1f}M"
        chains = f"`{architecture.encoder}`", f"`{architecture.decoder}`"
        rows.append((f"`{name}`", *chains, options, size, architecture.source))
    titles = "`--arch`", "encoder", "decoder", "options", "parameters", "from"
    return markdown_table(titles, rows)
