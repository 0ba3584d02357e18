"""ConvS2S computes the same as fairseq's fconv with the same weights."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models.fconv import FConvModel

from convs2s.checkpoints.legacy.fconv import convert_options, convert_weights
from convs2s_plugin.models import ConvS2SModel
from tests.support.adapters import dictionary, translation_task
from tests.support.batches import random_batch

NETWORKS = {
    "plain": dict(encoder_layers="[(24, 3)] * 2", decoder_layers="[(24, 3)] * 2"),
    "widths": dict(
        encoder_layers="[(16, 3)] * 2 + [(24, 3), (40, 1)]",
        decoder_layers="[(16, 3), (24, 5), (40, 1)]",
    ),
    "even kernels": dict(encoder_layers="[(24, 4), (24, 2)]", decoder_layers="[(24, 4), (24, 2)]"),
    "residuals": dict(
        encoder_layers="[(16, 3, 0), (24, 3, 2), (24, 3, 1)]",
        decoder_layers="[(16, 3, 1), (24, 3, 2), (24, 3, 0)]",
    ),
    "tied": dict(
        encoder_layers="[(24, 3)]",
        decoder_layers="[(24, 3)]",
        decoder_out_embed_dim=20,
        share_input_output_embed=True,
    ),
    "some attention": dict(
        encoder_layers="[(24, 3)] * 2",
        decoder_layers="[(24, 3)] * 3",
        decoder_attention="[True, False, True]",
    ),
}


def both_models(dropout=0.0, **options):
    """fconv with random weights, and ConvS2S with the same weights."""
    torch.manual_seed(1)
    task = translation_task()
    args = Namespace(
        dropout=dropout,
        encoder_embed_dim=20,
        decoder_embed_dim=20,
        encoder_embed_path=None,
        decoder_embed_path=None,
        decoder_out_embed_dim=options.pop("decoder_out_embed_dim", 12),
        decoder_attention=options.pop("decoder_attention", "True"),
        share_input_output_embed=options.pop("share_input_output_embed", False),
        max_source_positions=64,
        max_target_positions=64,
        **options,
    )
    theirs = FConvModel.build_model(args, task)
    for name, parameter in theirs.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    weights = convert_weights(theirs.state_dict())
    ours = ConvS2SModel.build_model(convert_options(args, weights), task)
    ours.load_state_dict(weights)
    return theirs.double(), ours.double()


def loss_of(model, batch, smoothing=0.1):
    logits, _ = model(**batch["net_input"])
    scores = model.get_normalized_probs((logits, None), log_probs=True)
    loss, _ = label_smoothed_nll_loss(
        scores.flatten(0, 1),
        batch["target"].flatten(),
        smoothing,
        ignore_index=dictionary().pad(),
    )
    return logits, loss


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("left_pad_source", [True, False])
def test_outputs_loss_and_gradients(name, left_pad_source):
    theirs, ours = both_models(**NETWORKS[name])
    batch = random_batch(lengths=[(7, 5), (3, 9), (11, 2)], left_pad_source=left_pad_source)
    their_logits, their_loss = loss_of(theirs.train(), batch)
    our_logits, our_loss = loss_of(ours.train(), batch)
    real = batch["target"].ne(dictionary().pad())
    torch.testing.assert_close(our_logits[real], their_logits[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(our_loss, their_loss, atol=1e-5, rtol=1e-5)

    their_loss.backward()
    our_loss.backward()
    gradients = {key: p.grad for key, p in theirs.named_parameters()}
    if theirs.decoder.fc3.weight is theirs.decoder.embed_tokens.weight:
        gradients["decoder.fc3.weight"] = gradients["decoder.embed_tokens.weight"]
    expected = convert_gradients(gradients)
    ours_by_name = dict(ours.named_parameters(remove_duplicate=False))
    assert expected.keys() == ours_by_name.keys()
    for key, gradient in expected.items():
        torch.testing.assert_close(
            ours_by_name[key].grad, gradient, atol=1e-5, rtol=1e-5, msg=lambda m, k=key: f"{k}: {m}"
        )


def convert_gradients(gradients):
    """Gradients of fconv under the names and layouts of ConvS2S."""
    weights = {key: gradient.clone() for key, gradient in gradients.items()}
    return convert_weights(weights)


@pytest.mark.parametrize("name", NETWORKS)
def test_attention_is_the_average_over_the_layers_that_attend(name):
    theirs, ours = both_models(**NETWORKS[name])
    batch = random_batch(lengths=[(7, 5), (3, 9)])
    _, their_attention = theirs.eval()(**batch["net_input"])
    _, extra = ours.eval()(**batch["net_input"], need_attn=True)
    layers = len(theirs.decoder.attention)
    attending = sum(layer is not None for layer in theirs.decoder.attention)
    expected = their_attention * layers / attending
    real = batch["target"].ne(dictionary().pad())
    torch.testing.assert_close(extra["attn"][0][real], expected[real], atol=1e-5, rtol=1e-5)
    sums = extra["attn"][0][real].sum(dim=-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_half_the_gradient_of_fconv_reaches_the_paper_encoder():
    theirs, ours = both_models(**NETWORKS["plain"])
    batch = random_batch(lengths=[(7, 5), (3, 9)])
    ours.encoder.gradient_scale *= 2
    loss_of(theirs.train(), batch)[1].backward()
    loss_of(ours.train(), batch)[1].backward()
    torch.testing.assert_close(
        ours.encoder.output.weight_g.grad, 2 * theirs.encoder.fc2.weight_g.grad
    )
