"""convs2s_cross_entropy against fairseq's criterions, on every model."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from convs2s.common.errors import UserError
from convs2s.nn import cross_entropy
from convs2s_plugin.criterions import ConvS2SCrossEntropy
from tests.support.adapters import (
    WORDS,
    dictionary,
    make,
    tiny_fairseq_transformer,
    translation_task,
)
from tests.support.batches import random_batch
from tests.support.families import MODELS

BATCH = [(5, 7), (3, 4), (6, 2)]


MAKERS = {name: lambda name=name: make(name) for name in MODELS}
MAKERS["transformer"] = tiny_fairseq_transformer
MAKERS["transformer-tied"] = lambda: tiny_fairseq_transformer(share_decoder_input_output_embed=True)


def criterion(kind, label_smoothing=0.1, sentence_avg=False, **options):
    task = Namespace(target_dictionary=dictionary())
    if kind is CrossEntropyCriterion:
        return kind(task, sentence_avg)
    return kind(task, sentence_avg, label_smoothing, **options)


def step(model, loss, batch):
    """Loss, sample size, logging output and gradients, in training mode without dropout."""
    model.train()
    model.zero_grad()
    value, sample_size, log = loss(model, batch)
    value.backward()
    return value, sample_size, log, gradients(model)


def gradients(model):
    """Gradients by name; some of fairseq's transformers have unused parameters."""
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("left_pad_target", [False, True], ids=["right", "left"])
def test_loss_and_gradients_equal_fairseqs(name, left_pad_target, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", 5 * WORDS)
    model, batch = MAKERS[name](), random_batch(BATCH, left_pad_target=left_pad_target)
    ours = step(model, criterion(ConvS2SCrossEntropy, report_accuracy=True), batch)
    theirs = step(model, criterion(LabelSmoothedCrossEntropyCriterion, report_accuracy=True), batch)
    assert ours[1] == theirs[1]
    assert ours[2].keys() == theirs[2].keys()
    for key in theirs[2]:
        torch.testing.assert_close(
            torch.as_tensor(ours[2][key]), torch.as_tensor(theirs[2][key]), rtol=1e-5, atol=1e-5
        )
    assert ours[3].keys() == theirs[3].keys()
    # Gradients that are zero but for rounding, such as those before a batch normalization, are as
    # far from zero as the largest ones are wrong.
    largest = max(float(gradient.abs().max()) for gradient in theirs[3].values())
    for key, gradient in theirs[3].items():
        atol = 1e-5 * max(1.0, largest)
        torch.testing.assert_close(ours[3][key], gradient, rtol=1e-5, atol=atol, msg=key)


def test_without_smoothing_it_is_cross_entropy():
    model, batch = make("convs2s"), random_batch(BATCH)
    ours = step(model, criterion(ConvS2SCrossEntropy, 0.0), batch)
    theirs = step(model, criterion(CrossEntropyCriterion), batch)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    for key, gradient in theirs[3].items():
        torch.testing.assert_close(ours[3][key], gradient, rtol=1e-5, atol=1e-5, msg=key)


def test_ignored_prefixes():
    model, batch = make("convs2s"), random_batch(BATCH)
    ours = step(model, criterion(ConvS2SCrossEntropy, ignore_prefix_size=2), batch)
    theirs = step(model, criterion(LabelSmoothedCrossEntropyCriterion, ignore_prefix_size=2), batch)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)


def test_sentence_average():
    model, batch = make("convs2s"), random_batch(BATCH)
    assert step(model, criterion(ConvS2SCrossEntropy, sentence_avg=True), batch)[1] == len(BATCH)
    assert step(model, criterion(ConvS2SCrossEntropy), batch)[1] == sum(t for _, t in BATCH)


@pytest.mark.parametrize("name", MAKERS)
def test_softmax_over_candidates(name):
    """Loss and gradients against a softmax over the logits of the candidates."""
    model, batch = MAKERS[name]().double(), random_batch(BATCH)
    words = torch.cat([batch["target"].flatten(), torch.arange(8)]).unique()
    assert len(words) < len(dictionary())
    ours = step(model, criterion(ConvS2SCrossEntropy, 0.1), {**batch, "candidates": words})

    model.zero_grad()
    logits = model(**batch["net_input"])[0][..., words]
    real = batch["target"] != dictionary().pad()
    scores = logits.log_softmax(-1)[real]
    target = (words == batch["target"][real].unsqueeze(1)).double()
    others = 0.1 / (len(words) - 1)
    loss = -(scores * (target * (1 - 0.1 - others) + others)).sum()
    loss.backward()
    torch.testing.assert_close(ours[0], loss, rtol=1e-10, atol=0)
    for key, gradient in gradients(model).items():
        torch.testing.assert_close(ours[3][key], gradient, rtol=1e-8, atol=1e-10, msg=key)
    assert ours[2]["candidates"] == len(words)


def under_autocast(kind):
    """A criterion under autocast."""

    def loss(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return criterion(kind)(model, batch)

    return loss


@pytest.mark.parametrize("name", MAKERS)
def test_autocast_approximates_single_precision(name):
    model, batch = MAKERS[name](), random_batch(BATCH)
    exact = step(model, criterion(ConvS2SCrossEntropy), batch)
    rough = step(model, under_autocast(ConvS2SCrossEntropy), batch)
    torch.testing.assert_close(rough[0], exact[0], rtol=1e-2, atol=0)
    if name.startswith("pervasive"):
        # The gradient of a maximum over the source jumps where rounding changes which is largest,
        # so that the same pass is compared, with the criterion of fairseq.
        exact = step(model, under_autocast(LabelSmoothedCrossEntropyCriterion), batch)
    largest = max(float(gradient.abs().max()) for gradient in exact[3].values())
    for key, gradient in exact[3].items():
        assert rough[3][key].dtype == torch.float32
        assert (rough[3][key] - gradient).abs().max() < 0.05 * largest, key


def test_a_model_without_a_linear_output_layer_is_refused():
    args = Namespace(max_source_positions=64, max_target_positions=64, criterion="")
    ARCH_CONFIG_REGISTRY["lstm"](args)
    model = ARCH_MODEL_REGISTRY["lstm"].build_model(args, translation_task())
    with pytest.raises(UserError, match="LSTMDecoder does not compute logits with one linear"):
        criterion(ConvS2SCrossEntropy)(model, random_batch(BATCH))


def test_refused_options():
    with pytest.raises(UserError, match="--label-smoothing is 1.0"):
        criterion(ConvS2SCrossEntropy, 1.0)
    with pytest.raises(UserError, match="only computes the sum over a batch"):
        criterion(ConvS2SCrossEntropy)(make("convs2s"), random_batch(BATCH), reduce=False)
