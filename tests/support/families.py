"""Small models of every family for the shared tests.

A family is added by one entry of FAMILIES. The models of a family differ in structure: each has
something that no other has.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from convs2s.models.adl.architectures import ARCHITECTURES
from tests.packages import bag_of_words  # noqa: F401  (registers a family outside the package)
from tests.support.helpers import tiny_adl, tiny_convs2s, tiny_model, tiny_pervasive

SELF = "mh_dot_self_att"
TRANSFORMER = f"pos -> repeat(2, res_nd({SELF}) -> res_nd(ffl)) -> norm"


class Family(NamedTuple):
    """A family and its models in the shared tests.

    Attributes:
        build: makes a small model in evaluation mode. It takes the options of a model and, as
            ``tests.support.helpers.tiny_model`` does, ``seed``, ``dropout`` and ``need_attn``.
        models: name -> options.
    """

    build: Callable[..., Any]
    models: dict[str, dict[str, Any]]


CONVS2S = {
    "convs2s": {},
    "convs2s-even-kernels": dict(encoder_layers="[(16, 4), (16, 2)]", decoder_layers="[(16, 4)]"),
    "convs2s-residuals": dict(
        encoder_layers="[(16, 3, 0), (24, 3, 2)]", decoder_layers="[(16, 3), (24, 3, 2), (8, 1, 0)]"
    ),
    "convs2s-some-attention": dict(decoder_attention="[True, False, True]"),
    "convs2s-no-positions": dict(no_source_positions=True, no_target_positions=True),
    "convs2s-no-source-positions": dict(no_source_positions=True),
    "convs2s-no-target-positions": dict(no_target_positions=True),
    "convs2s-shared": dict(share_all_embeddings=True),
}
ADL = {
    "adl-transformer": dict(
        encoder_adl=TRANSFORMER,
        decoder_adl=f"pos -> repeat(2, res_nd({SELF}) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) "
        "-> norm",
        share_all_embeddings=True,
    ),
    "adl-rnmt": dict(
        encoder_adl="dropout -> birnn -> repeat(2, res_d(rnn))",
        decoder_adl="dropout -> rnn -> repeat(2, res_d(rnn)) -> concat(id, mlp_att) -> ff",
        input_feeding=True,
    ),
    "adl-cnn": dict(
        encoder_adl="learn_pos -> repeat(2, res(cnn(glu) -> dropout)) -> cnn(k=4, dilation=2)",
        decoder_adl="learn_pos -> repeat(2, res_d(cnn(glu, k=4, dilation=2)) -> res(dot_att(s=1)))",
    ),
    "adl-blocks": dict(
        encoder_adl=f"repeat(2, res_nd({SELF})) -> linear(24) -> birnn(gru, d=16)",
        decoder_adl="repeat(2, res_nd(cnn(relu)) -> proj_dot_att(block=-i)) -> "
        "mh_dot_src_att(block=0, h=1) -> mlp_self_att",
    ),
    "adl-beyond": dict(
        encoder_adl="highway(qrnn -> act(gelu)) -> rnn(lngru, d=24) -> birnn(lnlstm)",
        decoder_adl="highway(rnn(lnlstm) -> rnn(gru)) -> qrnn(k=2) -> proj_dot_self_att -> "
        "rnn(lngru) -> concat(id, mh_dot_src_att) -> linear(12)",
    ),
}
PERVASIVE = {
    "pervasive": {},
    "pervasive-max-attn-gated": dict(aggregator="max+attn", gated=True, kernel_size=5),
    "pervasive-attn": dict(aggregator="attn", no_transition=True, kernel_size=7),
    "pervasive-avg": dict(aggregator="avg", no_halving=True, separate_output=True, kernel_size=1),
    "pervasive-shared": dict(share_all_embeddings=True, encoder_embed_dim=16),
    "pervasive-of-2018": dict(
        aggregator="max+attn", attention_exponent=-0.5, no_source_eos=True, target_bos=True
    ),
    "pervasive-birnn-self-attention": dict(
        encoder_adl="birnn -> linear(10)",
        decoder_adl=f"pos -> cnn(glu, k=3) -> res_nd({SELF}) -> linear(20)",
        attention_heads=4,
    ),
    "pervasive-learnt-positions-rnn": dict(
        encoder_adl=f"learn_pos -> res(cnn(glu, k=4)) -> res_nd({SELF}(h=2))",
        decoder_adl="learn_pos -> res_d(rnn(gru)) -> qrnn",
        no_halving=True,
        share_all_embeddings=True,
        encoder_embed_dim=16,
        aggregator="max+attn",
    ),
}

BAG_OF_WORDS = {
    "bag-of-words": {},
    "bag-of-words-shared": dict(share_all_embeddings=True),
}


def tiny_bag_of_words(task=None, **options):
    """A small model of the family in tests/packages."""
    return tiny_model("bag_of_words", task, **{"embed_dim": 16, **options})


FAMILIES = {
    "convs2s": Family(tiny_convs2s, CONVS2S),
    "adl": Family(tiny_adl, ADL),
    "pervasive": Family(tiny_pervasive, PERVASIVE),
    "bag_of_words": Family(tiny_bag_of_words, BAG_OF_WORDS),
}
MODELS = {name: options for family in FAMILIES.values() for name, options in family.models.items()}

# Every architecture of the tables in Domhan (2018); those of other sizes differ in widths alone.
NAMED = {
    name: dict(arch=name, ff_dim=24)
    for name in ARCHITECTURES
    if not name.endswith(("_iwslt", "_wmt"))
}


def make(name, **options):
    """The model called ``name``, in evaluation mode."""
    if name in NAMED:
        return tiny_adl(**{**NAMED[name], **options})
    (family,) = (family for family in FAMILIES.values() if name in family.models)
    return family.build(**{**family.models[name], **options})
