"""The named architectures: layers as in the papers, numbers of parameters as in fairseq."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, build_model
from omegaconf import OmegaConf

from convs2s.models.convs2s.architectures import ARCHITECTURES
from convs2s.models.convs2s.layer_lists import parse_layers
from convs2s.models.convs2s.options import ConvS2SOptions
from convs2s_plugin.models import ConvS2SModel
from convs2s_plugin.models.options import network_options
from tests.support.adapters import translation_task


def options_of(name):
    args = Namespace()
    ARCH_CONFIG_REGISTRY[name](args)
    return network_options(ConvS2SOptions, args)


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


@pytest.mark.parametrize("name", ["wmt_en_de", "wmt_en_fr", "iwslt_de_en"])
def test_fconv_networks_have_the_parameters_of_fairseq(name):
    ours = f"convs2s_fconv_{name}" if name.startswith("wmt") else f"convs2s_{name}"
    sizes = []
    for arch in (ours, f"fconv_{name}"):
        args = Namespace(max_source_positions=64, max_target_positions=64, dropout=0.1)
        ARCH_CONFIG_REGISTRY[arch](args)
        with torch.device("meta"):
            model = ARCH_MODEL_REGISTRY[arch].build_model(args, translation_task())
        sizes.append(sum(p.numel() for p in model.parameters()))
        width = args.encoder_embed_dim
    # The two position embedding matrices of this package have one row more than those of fconv.
    assert sizes[0] == sizes[1] + 2 * width


def test_every_architecture_is_registered_and_tested():
    registered = {n for n, m in ARCH_MODEL_REGISTRY.items() if m is ConvS2SModel}
    assert registered == set(ARCHITECTURES)
    assert set(EXPECTED) | {"convs2s_fconv_wmt_en_de", "convs2s_fconv_wmt_en_fr"} == registered


def test_given_options_win_and_missing_ones_in_yaml_are_filled():
    args = Namespace(encoder_layers="[(8, 3)]", dropout=0.0)
    ARCH_CONFIG_REGISTRY["convs2s_wmt_en_de"](args)
    assert args.encoder_layers == "[(8, 3)]" and args.dropout == 0.0
    node = OmegaConf.create({"_name": "convs2s_iwslt_de_en", "dropout": 0.3})
    ARCH_CONFIG_REGISTRY["convs2s_iwslt_de_en"](node)
    assert node.encoder_layers == "[(256, 3)] * 4" and node.dropout == 0.3
    assert node.share_input_output_embed is False


def test_yaml_can_name_an_architecture():
    node = OmegaConf.create(
        {
            "task": {"max_source_positions": 77, "max_target_positions": 1024},
            "model": {"_name": "convs2s_iwslt_de_en", "dropout": 0.3},
        }
    )
    model = build_model(node.model, translation_task())
    assert len(model.encoder.blocks.convolutions) == 4
    assert model.encoder.blocks.convolutions[0].dropout.p == 0.3
    assert model.max_positions() == (77, 1024)
