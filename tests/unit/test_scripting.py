"""``torch.jit.script`` refuses every family with one sentence."""

import pytest
import torch

from tests.support.families import FAMILIES, build


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripting_is_refused(family):
    model = build(**FAMILIES[family].sizes)
    for module in (model, model.encoder, model.decoder, torch.nn.ModuleList([model])):
        with pytest.raises(NotImplementedError, match="cannot be compiled .* export-onnx`"):
            torch.jit.script(module)
