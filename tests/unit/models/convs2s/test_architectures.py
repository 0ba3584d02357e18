"""The named architectures: layers as in the papers."""

import pytest

from convs2s.models.convs2s.architectures import ARCHITECTURES
from convs2s.models.convs2s.layer_lists import parse_layers
from convs2s.models.convs2s.options import ConvS2SOptions


def options_of(name):
    return ConvS2SOptions(**ARCHITECTURES[name].options)


def widths(text):
    return [(layer.channels, layer.kernel_size) for layer in parse_layers(text)]


EN_DE = [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2
EN_FR = [(512, 3)] * 5 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)]
EXPECTED = {
    "convs2s": ([(512, 3)] * 20, [(512, 3)] * 20, 512),
    "convs2s_wmt_en_ro": ([(512, 3)] * 20, [(512, 3)] * 20, 512),
    "convs2s_wmt_en_de": (EN_DE, EN_DE, 512),
    "convs2s_wmt_en_fr": (EN_FR, EN_FR, 512),
    "convs2s_gigaword": ([(256, 3)] * 6, [(256, 3)] * 6, 512),
    "convs2s_iwslt_de_en": ([(256, 3)] * 4, [(256, 3)] * 3, 256),
    "convs2s_iwslt_de_en_deep": ([(256, 3)] * 16, [(256, 3)] * 12, 256),
    "convs2s_ablation": ([(512, 3)] * 13, [(512, 5)] * 5, 512),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_widths_of_the_papers(name):
    options = options_of(name)
    encoder, decoder, width = EXPECTED[name]
    assert widths(options.encoder_layers) == encoder
    assert widths(options.decoder_layers) == decoder
    assert options.encoder_embed_dim == options.decoder_embed_dim == width
    assert options.decoder_out_embed_dim == width


def test_every_architecture_is_tested():
    same_as_fconv = {"convs2s_fconv_wmt_en_de", "convs2s_fconv_wmt_en_fr"}
    assert set(EXPECTED) | same_as_fconv == set(ARCHITECTURES)
