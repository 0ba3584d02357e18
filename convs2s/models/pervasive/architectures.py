"""The named architectures of pervasive attention: their options, and the source of each."""

from ..options import Architecture

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
