"""The named architectures of pervasive attention: their options, and the source of each."""

from ..base import Architecture
from .network_config import DROPOUT, NetworkConfig

MODEL = "pervasive"

_NETWORK = NetworkConfig()
BASE = {
    "encoder_embed_dim": _NETWORK.source_dim,
    "decoder_embed_dim": _NETWORK.target_dim,
    "num_layers": _NETWORK.num_layers,
    "growth_rate": _NETWORK.growth_rate,
    "kernel_size": _NETWORK.kernel_size,
    "bottleneck": _NETWORK.bottleneck,
    "aggregator": _NETWORK.aggregator,
    "attention_exponent": _NETWORK.attention_exponent,
    "gated": _NETWORK.gated,
    "dropout": DROPOUT,
    "adl_dialect": "paper",
    "attention_heads": 8,
}


ARCHITECTURES = {
    "pervasive": Architecture({}, "Elbayad et al. 2018, section 4 (Max)"),
    "pervasive_iwslt_de_en": Architecture({}, "Table 1, Max"),
    "pervasive_iwslt_de_en_max_attn": Architecture(
        {"aggregator": "max+attn"}, "Table 1, [Max, Attn]"
    ),
    "pervasive_iwslt_de_en_avg": Architecture({"aggregator": "avg"}, "Table 1, Average"),
    "pervasive_iwslt_de_en_attn": Architecture({"aggregator": "attn"}, "Table 1, Attn"),
    "pervasive_iwslt_de_en_gated": Architecture({"gated": True}, "Table 1, Max, gated"),
    "pervasive_iwslt_en_de": Architecture({}, "Table 3, English to German"),
}
