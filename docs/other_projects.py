"""Tables for users of other projects: fairseq's fconv, attn2d, and the Sockeye branch of ADL."""

from argparse import Namespace
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY

from convs2s.common.tables import markdown_table
from convs2s.models.adl.language import sockeye
from convs2s.models.adl.options import AdlOptions
from convs2s.models.convs2s import architectures as convs2s
from convs2s.models.convs2s.layer_lists import parse_layers
from convs2s.models.convs2s.options import ConvS2SOptions
from convs2s.models.pervasive.options import PervasiveOptions

# fairseq's architecture -> the one of this package that is nearest, and the network of the paper.
FCONV = {
    "fconv": ("convs2s", "`convs2s`"),
    "fconv_iwslt_de_en": ("convs2s_iwslt_de_en", ""),
    "fconv_wmt_en_ro": ("convs2s_wmt_en_ro", "`convs2s_wmt_en_ro`"),
    "fconv_wmt_en_de": ("convs2s_fconv_wmt_en_de", "`convs2s_wmt_en_de`"),
    "fconv_wmt_en_fr": ("convs2s_fconv_wmt_en_fr", "`convs2s_wmt_en_fr`"),
}
# Options of the 2018 code: their values in config/default.yaml and config/l24.yaml, the option here
# (None for none), and a remark. The second is the configuration of the paper.
ATTN2D: tuple[tuple[str, str, str, str | None, str], ...] = (
    ("encoder.input_dim", "128", "128", "encoder_embed_dim", ""),
    ("decoder.input_dim", "128", "128", "decoder_embed_dim", ""),
    ("network.num_layers", "20", "24", "num_layers", "one dense block; several are not here"),
    ("network.growth_rate", "32", "32", "growth_rate", ""),
    ("network.kernel", "3", "5", "kernel_size", ""),
    ("network.bn_size", "4", "4", "bottleneck", ""),
    ("network.gated", "0", "0", "gated", ""),
    ("network.half_inputs", "0", "1", "no_halving", "1 is without `--no-halving`"),
    ("network.divide_channels", "2", "", "no_halving", "later versions; 1 is `--no-halving`"),
    ("network.bias", "1", "0", None, "convolutions have no biases; conversion absorbs them"),
    (
        "network.use_st",
        "1",
        "0",
        None,
        "the channels in front of the transition are normalized, as with 0",
    ),
    ("network.conv_dropout", "0", "0.2", "convolution_dropout", ""),
    ("encoder.input_dropout", "0.2", "0.2", "embedding_dropout", "the same for both sides"),
    ("decoder.prediction_dropout", "0.2", "0.2", "prediction_dropout", ""),
    ("decoder.tie_target_weights", "1", "1", "separate_output", "0 is `--separate-output`"),
    ("decoder.copy_source_weights", "0", "0", "share_all_embeddings", ""),
    ("aggregator.mode: max", "yes", "yes", "aggregator", "also for `truncated-max`"),
    ("aggregator.mode: truncated-mean", "", "", "aggregator", "`--aggregator avg`"),
    (
        "aggregator.mode: max-attention",
        "",
        "l24_attn.yaml",
        "aggregator",
        "`--aggregator max+attn --attention-exponent -0.5`; `attn` if `first_aggregator` is "
        "`skip`, and -1 if `scale_ctx` is 0",
    ),
    ("end of the source", "left out", "left out", "no_source_eos", ""),
    ("start of the target", "`<BOS>`", "`<BOS>`", "target_bos", ""),
)
SOCKEYE = (
    ("--custom-seq-encoder A", "--encoder-adl A --adl-dialect sockeye", ""),
    ("--custom-seq-decoder A", "--decoder-adl A --adl-dialect sockeye", ""),
    ("--custom-seq-num-hidden N --num-embed N", "--model-dim N", "model_dim"),
    ("--custom-seq-dropout 0.1", "--dropout 0.1", "dropout"),
    ("--weight-tying --weight-tying-type src_trg_softmax", "--share-all-embeddings", ""),
    ("--weight-tying --weight-tying-type trg_softmax", "--share-input-output-embed", ""),
    (
        "--weight-init xavier --weight-init-scale 3 --weight-init-xavier-factor-type avg",
        "--init-gain 1",
        "init_gain",
    ),
    (
        "--label-smoothing 0.1",
        "--criterion convs2s_cross_entropy --label-smoothing 0.1",
        "",
    ),
    ("--batch-type word --batch-size 8192", "--max-tokens 8192", ""),
    ("--optimizer adam --initial-learning-rate 0.0002", "--optimizer adam --lr 0.0002", ""),
)


def fconv() -> str:
    """fairseq's architectures, and the options that give the same networks here."""
    found = []
    for name, (ours, of_the_paper) in FCONV.items():
        theirs = Namespace()
        ARCH_CONFIG_REGISTRY[name](theirs)
        here = {**vars(ConvS2SOptions()), **convs2s.ARCHITECTURES[ours].options}
        options = {
            option: value
            for option, value in vars(theirs).items()
            if option in here and _comparable(option, value) != _comparable(option, here[option])
        }
        if here["encoder_gradient_uses"] != 2:
            options["encoder_gradient_uses"] = 2
        same = " ".join([f"--arch {ours}", *map(_option, options.items())])
        found.append((f"`{name}`", f"`{same}`", of_the_paper))
    titles = ("fairseq's `--arch`", "the same network here", "the network of the paper")
    return markdown_table(titles, found)


def _comparable(option: str, value: Any) -> Any:
    return parse_layers(value) if option.endswith("_layers") else value


def _option(item: tuple[str, Any]) -> str:
    name, value = item
    return f"--{name.replace('_', '-')} {value}"


def attn2d() -> str:
    """The options of the 2018 code, and those here with their defaults."""
    found = []
    for theirs, default, published, option, remark in ATTN2D:
        here = f"`--{option.replace('_', '-')}`" if option else ""
        value = vars(PervasiveOptions()).get(option, False) if option else ""
        if option and option.endswith("_dropout"):
            value = vars(PervasiveOptions())["dropout"]
        shown = {False: "off", True: "on"}.get(value, str(value)) if option else ""
        theirs = theirs if " " in theirs and ":" not in theirs else f"`{theirs}`"
        found.append((theirs, default, published, here, shown, remark))
    titles = ("2018 code", "`default.yaml`", "`l24.yaml`", "here", "default here", "remark")
    return markdown_table(titles, found)


def sockeye_options() -> str:
    """The options of the Sockeye branch, and those here."""
    found = [
        (f"`{theirs}`", f"`{ours}`", f"{vars(AdlOptions())[option]}" if option else "")
        for theirs, ours, option in SOCKEYE
    ]
    return markdown_table(("Sockeye's branch for ADL", "here", "default here"), found)


def sockeye_layers() -> str:
    """Sockeye's layers and arguments, and the layers that they become."""
    found = []
    for name, rule in sorted(sockeye.RULES.items()):
        arguments = ", ".join(rule.arguments)
        defaults = ", ".join(f"{key}={value}" for key, value in rule.defaults.items())
        becomes = f"{rule.name}({defaults})" if defaults else rule.name
        renamed = [
            f"`{theirs}` is `{ours}`"
            for theirs, ours in rule.arguments.items()
            if isinstance(ours, str) and ours != theirs and ours not in sockeye.FIXED
        ]
        found.append(
            (
                f"`{name}({arguments})`" if arguments else f"`{name}`",
                f"`{becomes} -> dropout`" if rule.drops else f"`{becomes}`",
                "; ".join(renamed),
            )
        )
    return markdown_table(("Sockeye", "here", "arguments with other names"), found)
