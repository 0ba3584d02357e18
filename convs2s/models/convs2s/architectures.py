"""The named architectures of ConvS2S.

Each entry of ``ARCHITECTURES`` adds a value of ``--arch`` and a line of ``convs2s flops --named``.
"""

from typing import Any

from ..options import Architecture

WMT_EN_DE = "[(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2"
WMT_EN_FR = "[(512, 3)] * 5 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1)] + [(4096, 1)]"
FCONV_EN_DE = "[(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2"
FCONV_EN_FR = (
    "[(512, 3)] * 6 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1)] * 1 + [(4096, 1)] * 1"
)


def _options(
    encoder: str, decoder: str, embed_dim: int = 512, out_embed_dim: int = 512, **others: Any
) -> dict[str, Any]:
    """The options of an architecture from its layers and embedding channels."""
    return {
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "encoder_embed_dim": embed_dim,
        "decoder_embed_dim": embed_dim,
        "decoder_out_embed_dim": out_embed_dim,
        **others,
    }


ARCHITECTURES = {
    "convs2s": Architecture({}, "Gehring et al. 2017, section 4.2 (base)"),
    "convs2s_wmt_en_ro": Architecture({}, "Gehring et al. 2017, section 5.1"),
    "convs2s_wmt_en_de": Architecture(
        _options(WMT_EN_DE, WMT_EN_DE), "Gehring et al. 2017, section 5.1"
    ),
    "convs2s_wmt_en_fr": Architecture(
        _options(WMT_EN_FR, WMT_EN_FR),
        "Gehring et al. 2017, section 5.1 (14 layers are listed; the text counts 15)",
    ),
    "convs2s_gigaword": Architecture(
        _options("[(256, 3)] * 6", "[(256, 3)] * 6"),
        "Gehring et al. 2017, section 5.7 (the kernel size is not given there)",
    ),
    "convs2s_iwslt_de_en": Architecture(
        _options("[(256, 3)] * 4", "[(256, 3)] * 3", 256, 256), "fairseq's fconv_iwslt_de_en"
    ),
    "convs2s_iwslt_de_en_deep": Architecture(
        _options("[(256, 3)] * 16", "[(256, 3)] * 12", 256, 256, dropout=0.2),
        "Elbayad et al. 2018, section 4.1 (baseline)",
    ),
    "convs2s_ablation": Architecture(
        _options("[(512, 3)] * 13", "[(512, 5)] * 5"), "Gehring et al. 2017, section 5.4 on"
    ),
    "convs2s_fconv_wmt_en_de": Architecture(
        _options(FCONV_EN_DE, FCONV_EN_DE, 768, 512, encoder_gradient_uses=2),
        "fairseq's fconv_wmt_en_de (the released checkpoints)",
    ),
    "convs2s_fconv_wmt_en_fr": Architecture(
        _options(FCONV_EN_FR, FCONV_EN_FR, 768, 512, encoder_gradient_uses=2),
        "fairseq's fconv_wmt_en_fr (the released checkpoints)",
    ),
}
