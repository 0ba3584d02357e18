"""SimCut and R-Drop in convs2s_cross_entropy, against two passes and the plain formulas."""

import pytest
import torch
from torch.nn import functional as F

from convs2s.common.errors import UserError
from convs2s.nn.embedding import cut_tokens
from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.models.adapters import embedding_matrices
from tests.support.adapters import make, tiny_convs2s, tiny_fairseq_transformer
from tests.support.batches import PAD, random_batch
from tests.unit.plugin.criterions.test_cross_entropy import BATCH, MAKERS, criterion, step

# Batch normalization makes the sentences of a batch depend on each other.
WITHOUT_BATCH_NORM = [name for name in MAKERS if not name.startswith("pervasive")]


def doubled(batch):
    """Each sentence twice, one after the other."""
    inputs = {name: each.repeat_interleave(2, 0) for name, each in batch["net_input"].items()}
    return {**batch, "net_input": inputs, "target": batch["target"].repeat_interleave(2, 0)}


def plain_loss(model, batch, cut, simcut=0.0, rdrop=0.0, eps=0.1):
    """From the logits of the whole doubled batch, whose second sentences are cut."""
    with cut_tokens(embedding_matrices(model) if cut else [], cut):
        logits, _ = model(**doubled(batch)["net_input"])
    real = batch["target"] != PAD
    target = batch["target"][real].unsqueeze(1)
    log_p, log_q = (logits[i::2][real].log_softmax(-1) for i in (0, 1))
    share = eps / (logits.size(-1) - 1)

    def smoothed(logs):
        return -(1 - eps - share) * logs.gather(1, target).sum() - share * logs.sum()

    forward = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    backward = F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    if rdrop:
        return smoothed(log_p) + smoothed(log_q) + rdrop / 2 * (forward + backward)
    return smoothed(log_p) + simcut * forward


@pytest.mark.parametrize("kind", ["simcut", "rdrop"])
@pytest.mark.parametrize("name", MAKERS)
def test_loss_and_gradients_of_every_model(name, kind):
    model, batch = MAKERS[name](), random_batch(BATCH)
    weight = {f"{kind}_weight": 3.0}
    cut = {"simcut_p": 0.3} if kind == "simcut" else {}
    loss = criterion(ConvS2SCrossEntropy, **weight, **cut)
    torch.manual_seed(5)
    value, _, log, gradients = step(model, loss, batch)
    model.zero_grad()
    torch.manual_seed(5)
    expected = plain_loss(model, batch, 0.3 if kind == "simcut" else 0.0, **{kind: 3.0})
    expected.backward()
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for key, parameter in model.named_parameters():
        if key in gradients:
            torch.testing.assert_close(
                gradients[key], parameter.grad, rtol=1e-4, atol=2e-5 * max(1.0, largest), msg=key
            )
    assert (log["divergence"] > 1e-5) == (kind == "simcut")


def test_the_passes_of_rdrop_differ_in_dropout():
    model, batch = tiny_convs2s(dropout=0.3), random_batch(BATCH)
    torch.manual_seed(5)
    value, _, log, _ = step(model, criterion(ConvS2SCrossEntropy, rdrop_weight=3.0), batch)
    torch.manual_seed(5)
    torch.testing.assert_close(value, plain_loss(model, batch, 0.0, rdrop=3.0))
    assert log["divergence"] > 0.01


@pytest.mark.parametrize("name", WITHOUT_BATCH_NORM)
def test_without_cut_tokens_and_dropout_nothing_changes(name):
    model, batch = MAKERS[name](), random_batch(BATCH)
    loss = criterion(ConvS2SCrossEntropy, simcut_weight=3.0, simcut_p=1e-12)
    value, size, log, gradients = step(model, loss, batch)
    expected = step(model, criterion(ConvS2SCrossEntropy), batch)
    torch.testing.assert_close(value, expected[0], rtol=1e-5, atol=1e-5)
    assert size == expected[1] and log["divergence"].abs() < 1e-4
    for key, gradient in expected[3].items():
        torch.testing.assert_close(gradients[key], gradient, rtol=1e-4, atol=1e-4, msg=key)


def test_a_share_of_the_tokens_is_cut_in_every_second_sentence():
    model = make("convs2s")
    (matrix,) = {id(each): each for each in embedding_matrices(model)[:1]}.values()
    tokens = torch.randint(4, 30, (2000, 10))
    before = matrix(tokens)
    torch.manual_seed(1)
    with cut_tokens([matrix], 0.05):
        found = matrix(tokens)
    assert matrix(tokens).equal(before) and found[0::2].equal(before[0::2])
    is_cut = ~found[1::2].any(dim=-1)
    assert 0.04 < is_cut.double().mean() < 0.06
    assert found[1::2][~is_cut].equal(before[1::2][~is_cut])


@pytest.mark.parametrize("kind", ["simcut", "rdrop"])
def test_a_batch_without_tokens_that_count_has_the_same_log(kind):
    """Workers add up their logs, which need the same entries."""
    model, batch = make("convs2s"), random_batch([(3, 1), (5, 1)])
    loss = criterion(ConvS2SCrossEntropy, ignore_prefix_size=1, **{f"{kind}_weight": 3.0})
    value, _, log, _ = step(model, loss, batch)
    assert value == log["divergence"] == 0.0
    assert log.keys() == step(model, loss, random_batch(BATCH))[2].keys()


def test_validation_is_one_plain_pass():
    model, batch = make("convs2s"), random_batch(BATCH)
    loss = criterion(ConvS2SCrossEntropy, simcut_weight=3.0)
    expected, _, log = criterion(ConvS2SCrossEntropy)(model.eval(), batch)
    actual, _, own = loss(model, batch)
    assert actual.equal(expected) and "divergence" not in own and own.keys() == log.keys()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"simcut_weight": -1.0}, "--simcut-weight is -1.0"),
        ({"rdrop_weight": float("nan")}, "--rdrop-weight is nan"),
        ({"simcut_weight": 1.0, "simcut_p": 1.0}, "--simcut-p is 1.0"),
        ({"simcut_p": 0.1}, "needs --simcut-weight"),
        ({"simcut_weight": 1.0, "rdrop_weight": 1.0}, "give one of them"),
    ],
)
def test_options_that_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        criterion(ConvS2SCrossEntropy, **options)


def test_a_model_without_an_encoder_is_refused():
    model = tiny_fairseq_transformer()
    del model.encoder
    with pytest.raises(UserError, match="TransformerModel has no matrix of embeddings"):
        embedding_matrices(model)


def test_a_model_without_embeddings_is_refused():
    model = make("convs2s")
    model.encoder.embed.words = torch.nn.Identity()
    with pytest.raises(UserError, match="no matrix of embeddings"):
        criterion(ConvS2SCrossEntropy, simcut_weight=1.0)(model.train(), random_batch(BATCH))
