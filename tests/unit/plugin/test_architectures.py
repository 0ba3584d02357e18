"""Named architectures under fairseq: their options, and numbers of parameters as in fairseq."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_REGISTRY,
    build_model,
)
from omegaconf import OmegaConf

from convs2s.models import FAMILIES
from convs2s.models.pervasive.options import PervasiveOptions
from convs2s_plugin.models import AdlModel, ConvS2SModel, PervasiveModel
from convs2s_plugin.models.options import network_options
from tests.support.adapters import translation_task


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


@pytest.mark.parametrize("model", [AdlModel, ConvS2SModel, PervasiveModel])
def test_every_architecture_is_registered(model):
    registered = {name for name, found in ARCH_MODEL_REGISTRY.items() if found is model}
    family = next(name for name, found in MODEL_REGISTRY.items() if found is model)
    assert registered >= {family, *FAMILIES[family].architectures()}
    for name in registered - {family}:
        args = Namespace()
        ARCH_CONFIG_REGISTRY[name](args)
        options = FAMILIES[family].architectures()[name].options
        assert network_options(model.options_class, args) == model.options_class(**options)


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


def test_options_of_an_architecture_in_yaml():
    node = OmegaConf.create({"_name": "pervasive_iwslt_de_en_gated", "dropout": 0.3})
    ARCH_CONFIG_REGISTRY["pervasive_iwslt_de_en_gated"](node)
    assert node.gated is True and node.dropout == 0.3
    assert node.num_layers == PervasiveOptions.num_layers and node.no_transition is False
