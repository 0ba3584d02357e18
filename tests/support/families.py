"""Small models of every family for the shared tests.

A family is added by one entry of FAMILIES. The models of a family differ in structure: each has
something that no other has.
"""

from functools import partial
from typing import Any, NamedTuple

import torch

from convs2s import models
from convs2s.common.installation import missing_fairseq
from convs2s.models.adl.architectures import ARCHITECTURES
from convs2s.models.interface import Vocabularies
from convs2s.nn.cross_entropy import linear_cross_entropy
from tests.support.batches import PAD, SYMBOLS

SELF = "mh_dot_self_att"
TRANSFORMER = f"pos -> repeat(2, res_nd({SELF}) -> res_nd(ffl)) -> norm"


class Family(NamedTuple):
    """A family and its models in the shared tests.

    Attributes:
        sizes: the named architecture of small networks, and the options that make them small.
        models: name -> options.
    """

    sizes: dict[str, Any]
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
        encoder_adl="learn_pos -> repeat(2, res(cnn(glu) -> dropout)) -> cnn(k=4, dilation=2) -> "
        "res(sum(light_conv(k=4, h=2), linear)) -> res(ema(4))",
        decoder_adl="learn_pos -> repeat(2, res_d(cnn(glu, k=4, dilation=2)) -> "
        "res(dot_att(s=1))) -> res(dynamic_conv(h=4)) -> res(ema(3))",
    ),
    "adl-blocks": dict(
        encoder_adl=f"repeat(2, res_nd({SELF})) -> linear(24) -> birnn(gru, d=16)",
        decoder_adl="repeat(2, res_nd(cnn(relu)) -> proj_dot_att(block=-i)) -> "
        "mh_dot_src_att(block=0, h=1) -> mlp_self_att",
    ),
    "adl-attention": dict(
        encoder_adl=f"repeat(2, res_nd({SELF}(window=2, pos=rope, qk_norm=true))) -> "
        f"res_nd({SELF}(pos=alibi, kv_heads=1))",
        decoder_adl=f"res_nd({SELF}(window=3, pos=alibi, kv_heads=2)) -> "
        f"res_nd({SELF}(pos=rope, kv_heads=1)) -> res_nd({SELF}(window=2)) -> "
        "res_nd(mh_dot_src_att(kv_heads=2, qk_norm=true, pos=rope))",
    ),
    "adl-attention-fed": dict(
        encoder_adl=f"{SELF}(pos=alibi, window=1, h=2)",
        decoder_adl=f"linear -> res({SELF}(pos=rope, window=2, h=2, qk_norm=true)) -> "
        "mh_dot_src_att(kv_heads=1)",
        input_feeding=True,
    ),
    "adl-mixers": dict(
        encoder_adl="res_nd(mamba2(n=4, k=2)) -> res_nd(gla(h=2)) -> res_nd(retention) -> norm",
        decoder_adl="pos -> res_nd(retention) -> res_nd(mh_dot_src_att) -> res_nd(gla(h=2, d_v=8)) "
        "-> res_nd(mamba2(n=3)) -> res_nd(ema(2)) -> norm",
    ),
    "adl-gated-attention": dict(
        encoder_adl="norm -> repeat(2, mega_self_att(n=3) -> norm)",
        decoder_adl="norm -> repeat(2, mega_self_att(n=2, d_v=8) -> norm -> mega_src_att(d_k=6) -> "
        "norm -> res_d(ffl(v=swish)) -> norm)",
    ),
    "adl-beyond": dict(
        encoder_adl="highway(qrnn -> act(gelu)) -> min_gru(d=24) -> rms_norm -> "
        "rnn(lngru, d=24) -> birnn(lnlstm)",
        decoder_adl="highway(rnn(lnlstm) -> rnn(gru)) -> qrnn(k=2) -> ssru -> "
        "proj_dot_self_att -> res(rg_lru) -> res(ffl(v=swiglu)) -> min_lstm -> rnn(lngru) -> "
        "concat(id, mh_dot_src_att) -> linear(12)",
    ),
    "adl-names": dict(
        encoder_adl=f"let cell = res_nd({SELF}) -> res_nd(cnn(glu)); let both = bi(rnn(d=8) -> "
        f"res({SELF}(d=8))); pos -> cycle(3, share(cell), both) -> share(cell)",
        decoder_adl=f"let part = res_nd({SELF}) -> res_nd(ssru); let block = share(part) -> "
        "res_nd(mh_dot_src_att(block=2)); repeat(2, share(block)) -> share(part) -> norm",
        share_all_embeddings=True,
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


FAMILIES = {
    "convs2s": Family(
        dict(
            arch="convs2s_iwslt_de_en",
            encoder_embed_dim=16,
            decoder_embed_dim=16,
            decoder_out_embed_dim=16,
            encoder_layers="[(16, 3)] * 2 + [(24, 3)]",
            decoder_layers="[(16, 3)] * 2 + [(24, 3)]",
        ),
        CONVS2S,
    ),
    "adl": Family(dict(arch="adl_transformer", model_dim=16, attention_heads=4), ADL),
    "pervasive": Family(
        dict(
            arch="pervasive_iwslt_de_en",
            encoder_embed_dim=12,
            decoder_embed_dim=16,
            num_layers=3,
            growth_rate=4,
            kernel_size=3,
        ),
        PERVASIVE,
    ),
}
if missing_fairseq() is None:
    # A family outside the package, which the plugin registers.
    from tests.packages import bag_of_words  # noqa: F401

    FAMILIES["bag_of_words"] = Family(dict(arch="bag_of_words", embed_dim=16), BAG_OF_WORDS)
MODELS = {
    name: {**family.sizes, **options}
    for family in FAMILIES.values()
    for name, options in family.models.items()
}

# Every architecture of the tables in Domhan (2018); those of other sizes differ in widths alone.
NAMED = {
    name: {**FAMILIES["adl"].sizes, "arch": name, "ff_dim": 24}
    for name in ARCHITECTURES
    if not name.endswith(("_iwslt", "_wmt"))
}


# No dropout, and 64 positions.
COMMON = dict(dropout=0.0, max_source_positions=64, max_target_positions=64)


def build(arch, seed=1, vocabularies=None, **options):
    """A network with random weights and biases, in evaluation mode.

    Args:
        arch: name of the architecture.
        seed: of the weights.
        vocabularies: those of ``tests.support.batches`` by default.
        options: differ from those of the architecture, and from COMMON.
    """
    torch.manual_seed(seed)
    family = models.FAMILIES[models.family_of(arch)]
    known = family.architectures().get(arch)
    given = {**COMMON, **(known.options if known else {}), **options}
    network = family.network()
    size = len(SYMBOLS)
    built = network(network.options_class(**given), vocabularies or Vocabularies(size, size))
    randomize_biases_(built)
    return built.eval()


def randomize_biases_(model):
    """Give every bias random values, so that none can be forgotten unseen."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)


tiny_convs2s, tiny_adl, tiny_pervasive = (
    partial(build, **FAMILIES[name].sizes) for name in ("convs2s", "adl", "pervasive")
)


def make(name, **options):
    """The network called ``name``, in evaluation mode; see ``build``."""
    return build(**{**MODELS, **NAMED}[name], **options)


def outputs(network, batch, need_weights=True, **options):
    """Logits B x T x V and attention B x T x S or None, for the inputs of a batch."""
    encoded = network.encode(batch["src_tokens"])
    features, attention = network.decode(
        batch["prev_output_tokens"], encoded, need_weights=need_weights, **options
    )
    return network.logits(features), attention


def smoothed_loss(network, batch, label_smoothing=0.1):
    """The label-smoothed cross-entropy, summed over the tokens of a batch."""
    inputs, real = batch["net_input"], batch["target"].ne(PAD)
    features, _ = network.decode(inputs["prev_output_tokens"], network.encode(inputs["src_tokens"]))
    weight, bias = network.output.weight_and_bias(None)
    target = batch["target"][real]
    return linear_cross_entropy(features[real], weight, bias, target, label_smoothing).loss


def count_calls(module):
    """A list to which each forward pass of a module adds the shape of its input."""
    calls = []
    module.register_forward_pre_hook(lambda _, inputs: calls.append(tuple(inputs[0].shape)))
    return calls
