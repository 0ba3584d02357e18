"""Shared by the tests of beam search: models, generators, and the comparison of hypotheses."""

from argparse import Namespace
from types import MethodType

import pytest
import torch
from fairseq import __version__ as fairseq_version
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from convs2s_plugin.models import PluginModel
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.adapters import dictionary, make, tiny_fairseq_transformer, translation_task
from tests.support.batches import random_batch
from tests.support.families import MODELS

WORDS = 300
SIDES = ("encoder", "decoder")
SYMBOLS = dictionary(WORDS)
LENGTHS = [(7, 5), (3, 9), (11, 2), (2, 3)]

TRANSFORMER = pytest.param(
    "transformer",
    marks=pytest.mark.skipif(
        fairseq_version == "0.12.2",
        reason='its transformer stops with "Mask Type should be defined" under torch >= 2',
    ),
)
SOME_MODELS = ["convs2s", "adl-transformer", "pervasive-max-attn-gated", TRANSFORMER, "fconv"]
IN_DETAIL = pytest.mark.parametrize("name", SOME_MODELS)
# Options of searches, which fairseq and the library have.
OPTIONS = {
    "greedy": dict(beam=1),
    "beam 5": dict(beam=5),
    "beam 10": dict(beam=10),
    "length penalty": dict(beam=5, lenpen=0.4),
    "unnormalized": dict(beam=5, unnormalized=True),
    "minimum length": dict(beam=4, min_len=6),
    "all are cut": dict(beam=4, max_len_b=3, min_len=3),
}


def build(name):
    """A small model in double precision, with attention."""
    task = translation_task(SYMBOLS, SYMBOLS)
    if name in MODELS:
        model = make(name, task=task)
    elif name == "transformer":
        model = tiny_fairseq_transformer(task)
    elif name == "lstm":
        torch.manual_seed(1)
        sizes = {f"{side}_{what}": 16 for side in SIDES for what in ("embed_dim", "hidden_size")}
        args = Namespace(**sizes, decoder_out_embed_dim=16, dropout=0.0, criterion="cross_entropy")
        ARCH_CONFIG_REGISTRY["lstm"](args)
        model = ARCH_MODEL_REGISTRY["lstm"].build_model(args, task)
    else:
        torch.manual_seed(1)
        layers = dict(encoder_layers="[(16, 3)]", decoder_layers="[(16, 3)]")
        sizes = dict(encoder_embed_dim=16, decoder_embed_dim=16, decoder_out_embed_dim=16)
        positions = dict(max_source_positions=64, max_target_positions=64)
        args = Namespace(**layers, **sizes, **positions, dropout=0.0)
        ARCH_CONFIG_REGISTRY["fconv_iwslt_de_en"](args)
        model = ARCH_MODEL_REGISTRY["fconv_iwslt_de_en"].build_model(args, task)
    return model.double().eval()


def change_logits(model, change):
    """Make the model apply a function to its logits."""
    owner, name = model.decoder, "output_layer"
    if isinstance(model, PluginModel):
        owner, name = model.decoder.output, "forward"
    elif type(owner).__name__ == "FConvDecoder":
        name = "forward"
    original = getattr(owner, name)

    def changed(self, *arguments, **options):
        output = original(*arguments, **options)
        return change(output) if torch.is_tensor(output) else (change(output[0]), *output[1:])

    setattr(owner, name, MethodType(changed, owner))
    return model


def pseudorandom(logits):
    """A number from -1 to 1 for each hypothesis."""
    return (1000 * logits[..., 5]).sin()


def prefer_the_end(logits):
    """Logits of hypotheses that are finished after different numbers of steps."""
    logits = 2 * logits / logits.std(dim=-1, keepdim=True)
    logits[..., SYMBOLS.eos()] = logits.amax(dim=-1) - 2 + 3 * pseudorandom(logits)
    return logits


def round_coarsely(logits):
    return logits.mul(4).round().div(4)


def batch():
    return random_batch(LENGTHS, words=WORDS)


def generators(models, extra=None, prefix_allowed_tokens_fn=None, **args):
    """The generators of fairseq's task and of ours, for the same options."""
    built = []
    for task_class, cfg in (
        (TranslationTask, TranslationConfig()),
        (ConvS2STranslationTask, ConvS2STranslationConfig()),
    ):
        task = task_class(cfg, SYMBOLS, SYMBOLS)
        built.append(
            task.build_generator(
                models,
                Namespace(**{"max_len_b": 10, **args}),
                extra_gen_cls_kwargs=dict(extra or {}),
                prefix_allowed_tokens_fn=prefix_allowed_tokens_fn,
            )
        )
    for model in models:
        model.decoder.need_attn = True
    built[1].need_weights = True
    return built


def aligns_tokens(models):
    """Whether fairseq's search has the attention of other tokens than those of the hypotheses."""
    return any(getattr(model.decoder, "aligns_tokens", False) for model in models)


def assert_same(expected, found, with_attention=True):
    """Check that all hypotheses of all sentences are the same in every bit."""
    assert [len(hypotheses) for hypotheses in found] == [len(hypotheses) for hypotheses in expected]
    for same, hypotheses in zip(expected, found):
        for reference, hypothesis in zip(same, hypotheses):
            for key in ("tokens", "score", "positional_scores"):
                assert torch.equal(hypothesis[key], reference[key]), key
            if with_attention:
                assert torch.equal(hypothesis["attention"], reference["attention"])


def assert_same_search(models, is_beam_search=True, options=None, **args):
    """Check that both generators find the same, and whether ours does so with the library.

    Args:
        options: of ``generate``.
    """
    plain, ours = generators(models, **args)
    results = []
    for generator in (plain, ours):
        torch.manual_seed(3)
        results.append(generator.generate(models, batch(), **(options or {})))
    assert_same(*results, with_attention=not aligns_tokens(models))
    assert ours.is_beam_search is is_beam_search
    return results[1]
