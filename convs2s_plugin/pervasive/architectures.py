"""The named architectures of pervasive attention: one table of options, with their sources."""

from typing import Any, NamedTuple

MODEL = "pervasive"

BASE = {
    "encoder_embed_dim": 128,
    "decoder_embed_dim": 128,
    "num_layers": 24,
    "growth_rate": 32,
    "kernel_size": 5,
    "bottleneck": 4,
    "aggregator": "max",
    "gated": False,
    "dropout": 0.2,
    "adl_dialect": "paper",
    "attention_heads": 8,
}


class Architecture(NamedTuple):
    """Options that differ from BASE, and their source."""

    options: dict[str, Any]
    source: str


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
