"""Pervasive attention: sizes of the paper, options, alignments."""

import pytest
import torch

from convs2s.cli.flops import PAPER_VOCABULARY
from convs2s.cli.sizes import parameters
from convs2s.common.errors import UserError
from convs2s.nn.state import State
from tests.support.batches import PAD, random_batch
from tests.support.families import count_calls, outputs, tiny_pervasive


@pytest.mark.parametrize(
    "kernel_size, num_layers, millions",
    [
        (3, 16, 4.32),
        (3, 20, 4.92),
        (5, 8, 3.88),
        (5, 12, 4.59),
        (5, 16, 5.37),
        (5, 20, 6.23),
        (5, 24, 7.18),
        (5, 28, 8.21),
        (7, 12, 5.76),
    ],
)
def test_parameters_of_table_2(kernel_size, num_layers, millions):
    changes = ["--kernel-size", str(kernel_size), "--num-layers", str(num_layers)]
    counted = parameters("pervasive", changes, PAPER_VOCABULARY)
    assert counted / 1e6 == pytest.approx(millions, rel=0.005)


@pytest.mark.parametrize(
    "arch, millions, tolerance",
    [
        ("pervasive_iwslt_de_en_avg", 7.18, 0.005),
        ("pervasive_iwslt_de_en", 7.18, 0.005),
        # Equation 8 has 449 parameters; Table 1 has as many more as for [Max, Attn].
        ("pervasive_iwslt_de_en_attn", 7.24, 0.01),
        ("pervasive_iwslt_de_en_gated", 9.64, 0.005),
        ("pervasive_iwslt_de_en_max_attn", 7.24, 0.005),
    ],
)
def test_parameters_of_table_1(arch, millions, tolerance):
    counted = parameters(arch, [], PAPER_VOCABULARY)
    assert counted / 1e6 == pytest.approx(millions, rel=tolerance)


def test_each_dropout_has_its_place():
    model = tiny_pervasive(
        dropout=0.4, embedding_dropout=0.1, convolution_dropout=0.2, prediction_dropout=0.3
    )
    embeds = (model.encoder.embed, model.decoder.embed)
    assert [embed.dropout.p for embed in embeds] == [0.1, 0.1]
    network = model.decoder.network
    assert (network.dense.dropout.p, network.dropout.p) == (0.2, 0.3)
    model = tiny_pervasive(dropout=0.4)
    assert {part.p for part in model.modules() if hasattr(part, "always")} == {0.4}


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(encoder_embed_dim=0), "--encoder-embed-dim is 0, but must be from 1 to 65536"),
        (dict(convolution_dropout=1.0), "--convolution-dropout is 1.0, but must be at least 0"),
        (dict(aggregator="mean"), "--aggregator is 'mean', but must be one of"),
        (dict(kernel_size=4), "--kernel-size is 4, but must be odd"),
        (
            dict(share_all_embeddings=True, encoder_embed_dim=12),
            "--share-all-embeddings uses one embedding matrix",
        ),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        tiny_pervasive(**options)


def test_statistics_are_shared_unless_asked_otherwise():
    assert not tiny_pervasive().decoder.network.dense.options.local_statistics
    assert tiny_pervasive(local_statistics=True).decoder.network.dense.options.local_statistics


@pytest.mark.parametrize("separate_output", [False, True])
@torch.no_grad()
def test_the_alignment_of_a_reference_is_that_of_its_tokens(separate_output):
    """The contributions of the source positions to a token's logit add up to it (equation 6)."""
    model = tiny_pervasive(separate_output=separate_output).double()
    batch = random_batch([(7, 5), (4, 6)])
    reference, inputs = batch["target"], batch["net_input"]
    _, weights = outputs(model, inputs, target_tokens=reference)
    assert weights.shape == (2, 6, 7)
    logits, most_probable = outputs(model, inputs)
    assert not torch.equal(weights, most_probable)
    _, same = outputs(model, inputs, target_tokens=logits.argmax(dim=-1))
    torch.testing.assert_close(same, most_probable)
    # The weights are a softmax of the contributions, which add up to the logit without its bias.
    network, output = model.decoder.network, model.decoder.output
    expected = logits.gather(2, reference.unsqueeze(2)).squeeze(2)
    vectors, bias = output.weight_and_bias(reference.flatten())
    expected = expected - bias.view_as(expected)
    if network.output is not None:
        expected = expected - vectors.view(2, 6, -1) @ network.output.bias
    encoded = model.encode(inputs["src_tokens"])
    prefix = inputs["prev_output_tokens"]
    _, last = network(
        encoded["encoder_out"],
        model.decoder.embed(prefix, prefix.eq(PAD)),
        encoded["encoder_padding_mask"],
        prefix.eq(PAD),
    )
    token_weights = vectors.view(2, 6, -1)
    if network.output is not None:
        token_weights = token_weights @ network.output.weight
    alpha = network.aggregator.contributions(last.cells, last.grid, token_weights)
    real = prefix.ne(PAD)
    torch.testing.assert_close(alpha.sum(dim=-1)[real], expected[real])
    real_source = inputs["src_tokens"].ne(PAD)
    for i in range(2):
        expected = alpha[i][real[i]][:, real_source[i]].softmax(dim=-1)
        torch.testing.assert_close(weights[i][real[i]][:, real_source[i]], expected)


@torch.no_grad()
def test_alignments_of_given_tokens_step_by_step():
    model = tiny_pervasive()
    inputs = random_batch([(5, 4)])["net_input"]
    tokens = torch.tensor([[7, 8, 9, 10]])
    _, expected = outputs(model, inputs, target_tokens=tokens)
    encoded, state, rows = model.encode(inputs["src_tokens"]), State(), []
    for length in range(1, 5):
        _, attention = model.decode(
            inputs["prev_output_tokens"][:, :length],
            encoded,
            state,
            need_weights=True,
            target_tokens=tokens[:, :length],
        )
        rows.append(attention)
    torch.testing.assert_close(torch.cat(rows, dim=1), expected)


@torch.no_grad()
def test_alignments_of_the_most_probable_tokens_need_one_output_projection():
    model = tiny_pervasive()
    inputs = random_batch([(7, 5), (4, 6)])["net_input"]
    logits, _ = outputs(model, inputs, need_weights=False)
    _, expected = outputs(model, inputs, target_tokens=logits.argmax(dim=-1))
    counted = count_calls(model.decoder.output)
    encoded = model.encode(inputs["src_tokens"])
    _, attention = model.decode(inputs["prev_output_tokens"], encoded, need_weights=True)
    assert len(counted) == 1
    assert torch.equal(attention, expected)


@torch.no_grad()
def test_alignments_of_given_tokens_need_no_output_projection():
    model = tiny_pervasive()
    batch = random_batch([(7, 5), (4, 6)])
    inputs = batch["net_input"]
    counted = count_calls(model.decoder.output)
    encoded = model.encode(inputs["src_tokens"])
    aligned = {"need_weights": True, "target_tokens": batch["target"]}
    model.decode(inputs["prev_output_tokens"], encoded, **aligned)
    assert not counted
