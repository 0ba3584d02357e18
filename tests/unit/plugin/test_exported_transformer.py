"""fairseq's transformer computes the logits of the models in ADL that are exported to it."""

from argparse import Namespace

import pytest
import torch
from fairseq import modules, utils
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch.nn import functional as F

from convs2s.checkpoints.export.transformer import export_transformer
from tests.support.adapters import translation_task
from tests.support.batches import PAD, random_batch
from tests.support.families import outputs
from tests.support.transformers import MODELS, model_and_checkpoint

LENGTHS = [(7, 5), (3, 9), (11, 2), (1, 1)]


def fairseq_model(exported):
    """fairseq's transformer with the options and weights of an exported checkpoint."""
    options = Namespace(**exported["cfg"]["model"])
    ARCH_CONFIG_REGISTRY["transformer"](options)
    model = ARCH_MODEL_REGISTRY["transformer"].build_model(options, translation_task())
    model.double().load_state_dict(exported["model"], strict=True)
    return model.eval()


@pytest.fixture
def exact_functions(monkeypatch):
    """fairseq's softmax and GELU in double precision; it computes them in single precision."""
    monkeypatch.setattr(utils, "softmax", lambda x, dim, onnx_trace=False: x.softmax(dim))
    monkeypatch.setattr(modules, "gelu", F.gelu)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_logits(name, bias, exact_functions):
    model, checkpoint = model_and_checkpoint(*MODELS[name], bias=bias)
    theirs = fairseq_model(export_transformer(checkpoint))
    for left_pad_source in (True, False):
        batch = random_batch(LENGTHS, left_pad_source)["net_input"]
        real = batch["prev_output_tokens"].ne(PAD)
        with torch.no_grad():
            expected, actual = outputs(model, batch)[0][real], theirs(**batch)[0][real]
        torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)
