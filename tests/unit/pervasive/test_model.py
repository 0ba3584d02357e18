"""Pervasive attention as a fairseq model: the paper's sizes, its options, alignments of words."""

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf

from convs2s_plugin.cli.pervasive_sizes import parameters
from convs2s_plugin.errors import UserError
from convs2s_plugin.pervasive.architectures import ARCHITECTURES, BASE
from convs2s_plugin.pervasive.model import PervasiveModel
from tests.helpers import dictionary, random_batch, tiny_convs2s, tiny_pervasive

PAD = dictionary().pad()
# 20,830 words together, as in the paper's German and English.
WORDS = 12000, 8830


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
    counted = parameters(dict(kernel_size=kernel_size, num_layers=num_layers), WORDS)
    assert counted / 1e6 == pytest.approx(millions, rel=0.005)


@pytest.mark.parametrize(
    "arch, millions, tolerance",
    [
        ("pervasive_iwslt_de_en_avg", 7.18, 0.005),
        ("pervasive_iwslt_de_en", 7.18, 0.005),
        # Equation 8 has 449 parameters; the table counts as many more as [Max, Attn] has.
        ("pervasive_iwslt_de_en_attn", 7.24, 0.01),
        ("pervasive_iwslt_de_en_gated", 9.64, 0.005),
        ("pervasive_iwslt_de_en_max_attn", 7.24, 0.005),
    ],
)
def test_parameters_of_table_1(arch, millions, tolerance):
    counted = parameters(ARCHITECTURES[arch].options, WORDS)
    assert counted / 1e6 == pytest.approx(millions, rel=tolerance)


def test_every_architecture_is_registered():
    registered = {n for n, m in ARCH_MODEL_REGISTRY.items() if m is PervasiveModel}
    assert registered == set(ARCHITECTURES)
    node = OmegaConf.create({"_name": "pervasive_iwslt_de_en_gated", "dropout": 0.3})
    ARCH_CONFIG_REGISTRY["pervasive_iwslt_de_en_gated"](node)
    assert node.gated is True and node.dropout == 0.3
    assert node.num_layers == BASE["num_layers"] and node.no_transition is False


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
        (dict(encoder_embed_dim=0), "--encoder-embed-dim is 0, but must be at least 1"),
        (dict(convolution_dropout=1.0), "--convolution-dropout is 1.0, but must be at least 0"),
        (dict(aggregator="mean"), "no aggregator 'mean'"),
        (dict(kernel_size=4), "kernel size of the DenseNet is 4; it must be odd"),
        (
            dict(share_all_embeddings=True, encoder_embed_dim=12),
            "--share-all-embeddings has one table: give both the same value",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        tiny_pervasive(**options)


def test_statistics_are_shared_unless_asked_otherwise():
    assert tiny_pervasive().decoder.network.dense.share_statistics
    assert not tiny_pervasive(local_statistics=True).decoder.network.dense.share_statistics


@pytest.mark.parametrize("separate_output", [False, True])
@torch.no_grad()
def test_the_alignment_of_a_reference_is_that_of_its_words(separate_output):
    """Equation 6: what source positions put into a word's score adds up to it."""
    model = tiny_pervasive(separate_output=separate_output).double()
    batch = random_batch([(7, 5), (4, 6)])
    reference, inputs = batch["target"], batch["net_input"]
    _, extra = model(**inputs, words=reference)
    (weights,) = extra["attn"]
    assert weights.shape == (2, 6, 7)
    logits, best = model(**inputs)
    assert not torch.equal(weights, best["attn"][0])
    _, same = model(**inputs, words=logits.argmax(dim=-1))
    torch.testing.assert_close(same["attn"][0], best["attn"][0])
    # The weights are a softmax of shares: their logarithms, up to the constant of a row, are
    # the shares, whose sum is the score.
    network, output = model.decoder.network, model.decoder.output
    scores = logits.gather(2, reference.unsqueeze(2)).squeeze(2)
    vectors, bias = output.weight_and_bias(reference.flatten())
    scores = scores - bias.view_as(scores)
    if network.output is not None:
        scores = scores - vectors.view(2, 6, -1) @ network.output.bias
    encoded = model.encoder(inputs["src_tokens"])
    prefix = inputs["prev_output_tokens"]
    _, last = network(
        encoded["encoder_out"],
        model.decoder.embed(prefix, prefix.eq(PAD)),
        encoded["encoder_padding_mask"],
        prefix.eq(PAD),
    )
    directions = vectors.view(2, 6, -1)
    if network.output is not None:
        directions = directions @ network.output.weight
    alpha = network.aggregator.contributions(last.cells, last.grid, directions)
    real = prefix.ne(PAD)
    torch.testing.assert_close(alpha.sum(dim=-1)[real], scores[real])
    words = inputs["src_tokens"].ne(PAD)
    for i in range(2):
        expected = alpha[i][real[i]][:, words[i]].softmax(dim=-1)
        torch.testing.assert_close(weights[i][real[i]][:, words[i]], expected)


@torch.no_grad()
def test_alignments_of_given_words_step_by_step():
    model = tiny_pervasive()
    inputs = random_batch([(5, 4)])["net_input"]
    words = torch.tensor([[7, 8, 9, 10]])
    _, expected = model(**inputs, words=words)
    encoded, state, rows = model.encoder(inputs["src_tokens"]), {}, []
    for seen in range(1, 5):
        _, extra = model.decoder(
            inputs["prev_output_tokens"][:, :seen],
            encoder_out=encoded,
            incremental_state=state,
            words=words[:, :seen],
        )
        rows.append(extra["attn"][0])
    torch.testing.assert_close(torch.cat(rows, dim=1), expected["attn"][0])


@torch.no_grad()
def test_an_ensemble_with_other_families_translates():
    models = [tiny_pervasive(), tiny_convs2s()]
    generator = SequenceGenerator(models, dictionary(), beam_size=3, max_len_b=8)
    found = generator.generate(models, random_batch([(5, 4), (3, 2)]))
    assert all(len(hypotheses) == 3 for hypotheses in found)
    assert found[0][0]["attention"].shape[0] == 5
