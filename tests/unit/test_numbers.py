"""Numbers at their limits: NaN and overflow, sentences of one token, a batch of one sentence."""

import copy

import pytest
import torch

from convs2s.translation.precision import Precision
from tests.support.batches import PAD, random_batch
from tests.support.families import (
    MODELS,
    make,
    outputs,
    smoothed_loss,
    tiny_adl,
    tiny_convs2s,
    tiny_pervasive,
)

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (5, 2)]


@EVERY_MODEL
@pytest.mark.parametrize("side", ["encoder", "decoder"])
@torch.no_grad()
def test_a_sentence_with_nan_leaves_the_others_as_they_are(name, side):
    """In evaluation; in training, batch normalization makes sentences depend on each other."""
    model = make(name).double()
    # Without sharing, so that one side alone has the NaN.
    for part in (model.encoder, model.decoder):
        part.embed.words = copy.deepcopy(part.embed.words)
    batch = random_batch(LENGTHS)
    inputs = batch["net_input"]
    key = "src_tokens" if side == "encoder" else "prev_output_tokens"
    inputs[key][1, inputs[key][1].ne(PAD).nonzero()[0]] = 34
    others = [0, 2]
    for other in others:
        inputs[key][other][inputs[key][other] == 34] = 33
    expected, _ = outputs(model, inputs)
    getattr(model, side).embed.words.weight[34] = torch.nan
    actual, _ = outputs(model, inputs)
    real = inputs["prev_output_tokens"].ne(PAD)
    for other in others:
        torch.testing.assert_close(actual[other][real[other]], expected[other][real[other]])
    assert actual[1][real[1]].isnan().any()


@EVERY_MODEL
@pytest.mark.parametrize("lengths", [[(1, 1)], [(2, 1)], [(1, 1), (1, 4), (6, 1)]], ids=str)
def test_sentences_of_one_token_and_batches_of_one_sentence(name, lengths):
    """Loss, gradients and running statistics are finite in training, and logits after it."""
    model = make(name).train()
    batch = random_batch(lengths)
    loss = smoothed_loss(model, batch)
    loss.backward()
    assert loss.isfinite()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()
    for buffer in model.buffers():
        assert buffer.isfinite().all()
    assert outputs(model.eval(), batch["net_input"])[0].isfinite().all()


TRANSFORMER = {
    "encoder_adl": "pos -> res_nd(mh_dot_self_att) -> res_nd(ffl)",
    "decoder_adl": "pos -> res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl)",
}
LONG = {
    "convs2s": (tiny_convs2s, {}, 1000),
    "adl": (tiny_adl, TRANSFORMER, 1000),
    # Fewer target tokens: the cells of a grid are their product. Rounding changes which position
    # has the maximum, and with it the gradient; averages have no such jumps.
    "pervasive": (tiny_pervasive, {"aggregator": "avg"}, 50),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", LONG)
def test_half_precision_of_1000_tokens(family, dtype):
    """Logits, loss and gradients are finite, and close to those of single precision."""
    build, options, target_tokens = LONG[family]
    model = build(max_source_positions=1024, max_target_positions=1024, **options).train()
    batch = random_batch([(1000, target_tokens), (7, 5)])
    # The weights of models that were trained are larger than initial ones.
    with torch.no_grad():
        model.output.weight_and_bias(None)[0].mul_(10)

    def results(precision):
        model.zero_grad()
        with precision.autocast(model):
            logits, _ = outputs(model, batch["net_input"])
            loss = smoothed_loss(model, batch)
        loss.backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return logits.detach().float(), loss.detach(), torch.cat(gradients)

    expected, actual = results(Precision("none")), results(Precision(dtype))
    for single, half in zip(expected, actual):
        assert single.isfinite().all() and half.isfinite().all()
        assert (half - single).norm() < 0.05 * single.norm()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 0.02)])
@pytest.mark.parametrize("scale", [1e3, 1e5, 1e7])
def test_large_logits_do_not_overflow_the_loss(dtype, tolerance, scale):
    model, batch = make("convs2s").to(dtype), random_batch(LENGTHS)
    with torch.no_grad():
        model.output.weight_and_bias(None)[0].mul_(scale)
    loss = smoothed_loss(model, batch)
    logits = outputs(model, batch["net_input"])[0].double()
    log_probabilities = logits.log_softmax(dim=-1)
    target = batch["target"]
    real = target.ne(PAD)
    chosen = log_probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    share = 0.1 / (logits.size(-1) - 1)
    plain = -((0.9 - share) * chosen + share * log_probabilities.sum(dim=-1))[real].sum()
    torch.testing.assert_close(loss.double(), plain, rtol=tolerance, atol=0.0)
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()
