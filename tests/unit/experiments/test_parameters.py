"""Parameters of embedding matrices and output layers, in models of this package and of fairseq."""

import pytest
import torch

from convs2s.experiments.results import vocabulary_parameters
from tests.support.batches import SYMBOLS
from tests.support.families import MODELS, make

SIZE = len(SYMBOLS)
FAIRSEQ = {
    "fconv": {},
    "fconv-shared": {"share_input_output_embed": True},
    "transformer": {},
    "transformer-shared": {"share_decoder_input_output_embed": True},
}


def build_of_fairseq(name):
    """A small model of fairseq."""
    pytest.importorskip("fairseq")
    from tests.support.adapters import tiny_fairseq_fconv, tiny_fairseq_transformer

    build = tiny_fairseq_fconv if name.startswith("fconv") else tiny_fairseq_transformer
    return build(**FAIRSEQ[name])


@pytest.mark.parametrize("name", [*MODELS, *FAIRSEQ])
def test_parameters_that_depend_on_the_vocabulary(name, tmp_path):
    """They are the parameters with as many rows as the vocabulary."""
    model = build_of_fairseq(name) if name in FAIRSEQ else make(name)
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": model.state_dict()}, path)
    expected = sum(p.numel() for p in model.parameters() if len(p) == SIZE)
    assert vocabulary_parameters(path) == expected > 0
