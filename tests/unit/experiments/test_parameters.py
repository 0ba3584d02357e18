"""Parameters of embedding matrices and output layers, in models of this package and of fairseq."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from convs2s.experiments.results import vocabulary_parameters
from tests.support.adapters import dictionary, make, tiny_fairseq_transformer, translation_task
from tests.support.families import MODELS

SIZE = len(dictionary())


def tiny_fconv(**options):
    """A small fconv of fairseq."""
    sizes = {f"{side}_embed_dim": 16 for side in ("encoder", "decoder", "decoder_out")}
    layers = {f"{side}_layers": "[(16, 3)]" for side in ("encoder", "decoder")}
    args = Namespace(**sizes, **layers, max_source_positions=64, max_target_positions=64, **options)
    ARCH_CONFIG_REGISTRY["fconv_iwslt_de_en"](args)
    return ARCH_MODEL_REGISTRY["fconv_iwslt_de_en"].build_model(args, translation_task())


FAIRSEQ = {
    "fconv": tiny_fconv,
    "fconv-shared": lambda: tiny_fconv(share_input_output_embed=True),
    "transformer": tiny_fairseq_transformer,
    "transformer-shared": lambda: tiny_fairseq_transformer(share_decoder_input_output_embed=True),
}


@pytest.mark.parametrize("name", [*MODELS, *FAIRSEQ])
def test_parameters_that_depend_on_the_vocabulary(name, tmp_path):
    """They are the parameters with as many rows as the vocabulary."""
    model = FAIRSEQ[name]() if name in FAIRSEQ else make(name)
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": model.state_dict()}, path)
    expected = sum(p.numel() for p in model.parameters() if len(p) == SIZE)
    assert vocabulary_parameters(path) == expected > 0
