"""The named architectures of papers other than Domhan (2018), as text. Needs neither torch nor
fairseq.
"""

from .options import AdlArchitecture

_FF = "res_d(ffl) -> norm"
_SRC_ATT = "res_d(mh_dot_src_att) -> norm"
# The kernels of the blocks of Wu et al. (2019), section 4.1.
_ENCODER_KERNELS = (3, 7, 15, 31, 31, 31, 31)
_DECODER_KERNELS = (3, 7, 15, 31, 31, 31)
_SMALL_KERNELS = (3, 7, 15, 31)


def _convolutions(layer: str, gated: bool, kernels: tuple[int, ...], attention: str = "") -> str:
    """A stack of Wu et al. (2019).

    Args:
        layer: "light_conv" or "dynamic_conv".
        gated: whether a gated linear unit is in front of each of them.
        kernels: the size of each.
        attention: what follows each of them.
    """
    first = "ff(v=glu, dropout=0)" if gated else "linear"
    blocks = (
        f"res_d({first} -> {layer}(k={k}) -> linear) -> norm -> {attention}{_FF}" for k in kernels
    )
    return f"pos -> {' -> '.join(blocks)}"


def _of_wu(
    layer: str,
    gated: bool,
    encoder: tuple[int, ...],
    decoder: tuple[int, ...],
    source: str,
    dim: int,
    ff_dim: int,
    heads: int,
) -> AdlArchitecture:
    return AdlArchitecture(
        _convolutions(layer, gated, encoder),
        _convolutions(layer, gated, decoder, f"{_SRC_ATT} -> "),
        source,
        {"model_dim": dim, "ff_dim": ff_dim, "attention_heads": heads},
    )


def _deep_encoder(encoder: int, source: str, dim: int, ff_dim: int, heads: int) -> AdlArchitecture:
    return AdlArchitecture(
        f"pos -> repeat({encoder}, res_nd(mh_dot_self_att) -> res_nd(ffl)) -> norm",
        "pos -> res_nd(ssru) -> res_nd(mh_dot_src_att) -> res_nd(ffl) -> norm",
        source,
        {"model_dim": dim, "ff_dim": ff_dim, "attention_heads": heads},
    )


def _state_space(depths: tuple[int, int], source: str, dim: int, heads: int) -> AdlArchitecture:
    """The Mamba Enc-Dec of Pitorro et al. (2024), whose encoder runs from left to right only.

    Args:
        depths: blocks of the encoder and of the decoder.
        source, dim, heads: as for other architectures.
    """
    encoder, decoder = depths
    mamba, attention, feed_forward = (
        f"res(rms_norm -> {layer} -> dropout)"
        for layer in ("mamba2", "mh_dot_src_att", "ffl(v=swiglu)")
    )
    return AdlArchitecture(
        f"repeat({encoder}, {mamba}) -> rms_norm",
        f"repeat({decoder}, {mamba} -> {attention} -> {feed_forward}) -> rms_norm",
        source,
        {"model_dim": dim, "attention_heads": heads, "share_input_output_embed": True},
    )


def _gated_attention(depth: int, source: str, dim: int, ff_dim: int) -> AdlArchitecture:
    """The translation model of Ma et al. (2023)."""
    own, attention, feed_forward = (
        f"{layer} -> norm" for layer in ("mega_self_att", "mega_src_att", "res_d(ffl(v=swish))")
    )
    return AdlArchitecture(
        f"norm -> dropout -> repeat({depth}, {own} -> {feed_forward})",
        f"norm -> dropout -> repeat({depth}, {own} -> {attention} -> {feed_forward})",
        source,
        {"model_dim": dim, "ff_dim": ff_dim},
    )


_PAPER = _ENCODER_KERNELS, _DECODER_KERNELS
_SMALL = _SMALL_KERNELS, _SMALL_KERNELS
_WU = "Wu et al. (2019), section 4.1"
_SHALLOW = "the decoder of Kim et al. (2019) below the encoder of Kasai et al. (2021), 12-1"
_MAMBA = "the Mamba Enc-Dec of Pitorro et al. (2024), in their code, with Mamba-2 for Mamba"
_MEGA = "Ma et al. (2023), WMT, in their code, with normalized embeddings"
_HERE = "for tens of thousands of sentence pairs"

HYBRIDS = {
    "adl_light_conv": _of_wu("light_conv", False, *_PAPER, f"{_WU}, IWSLT", 512, 1024, 4),
    "adl_light_conv_wmt": _of_wu("light_conv", True, *_PAPER, f"{_WU}, WMT", 1024, 4096, 16),
    "adl_light_conv_small": _of_wu("light_conv", False, *_SMALL, f"{_WU}, {_HERE}", 128, 256, 4),
    "adl_dynamic_conv": _of_wu("dynamic_conv", False, *_PAPER, f"{_WU}, IWSLT", 512, 1024, 4),
    "adl_dynamic_conv_wmt": _of_wu("dynamic_conv", True, *_PAPER, f"{_WU}, WMT", 1024, 4096, 16),
    "adl_dynamic_conv_small": _of_wu(
        "dynamic_conv", False, *_SMALL, f"{_WU}, {_HERE}", 128, 256, 4
    ),
    "adl_deep_ssru": _deep_encoder(12, _SHALLOW, 512, 2048, 8),
    "adl_deep_ssru_small": _deep_encoder(6, f"{_SHALLOW}, {_HERE}", 128, 256, 4),
    "adl_mamba2": _state_space((8, 6), _MAMBA, 512, 8),
    "adl_mamba2_small": _state_space((4, 4), f"{_MAMBA}, {_HERE}", 128, 4),
    "adl_mega": _gated_attention(6, _MEGA, 512, 1024),
    "adl_mega_small": _gated_attention(4, f"{_MEGA}, {_HERE}", 128, 256),
}
