"""convs2s_sequence_risk against a plain computation over all translations of a tiny space."""

from itertools import product

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.nn.gradient import ignored_batch
from convs2s.nn.sequence_losses import SEQUENCE_LOSSES
from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.criterions.sequences import scoring
from tests.support.adapters import make, tiny_fairseq_transformer
from tests.support.batches import random_batch
from tests.support.families import MODELS
from tests.support.sequence_training import (
    SYMBOLS,
    criterion,
    plain_costs,
    plain_loss,
    plain_scores,
)

# Translations of up to two words out of two, and three random sentences.
WORDS = (SYMBOLS.index("w1"), SYMBOLS.index("w2"))
ALL = [[*words, SYMBOLS.eos()] for length in range(3) for words in product(WORDS, repeat=length)]
BATCH = [(5, 4), (3, 3), (6, 2)]
TEMPERATURE = 0.5

MAKERS = {name: lambda name=name: make(name) for name in MODELS}
MAKERS["transformer"] = tiny_fairseq_transformer


def batch_of_words():
    """A batch whose references have words of the candidates."""
    batch = random_batch(BATCH)
    target = batch["target"]
    real = (target != SYMBOLS.pad()) & (target != SYMBOLS.eos())
    target[real] = torch.tensor([WORDS[i % 2] for i in range(int(real.sum()))])
    return batch


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(found, expected, tolerance=1e-9):
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(
            found[name],
            gradient,
            rtol=tolerance,
            atol=tolerance,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def expected_loss(model, batch, found, loss, weights, **options):
    scores = plain_scores(model, batch, found, logits_only="margin" in loss, **options)
    costs = plain_costs(found, batch)
    return sum(
        weight * plain_loss(loss, each / TEMPERATURE, cost)
        for weight, each, cost in zip(weights, scores, costs)
    )


@pytest.mark.parametrize("name", MAKERS)
def test_risk_and_gradients_equal_an_enumeration(name, monkeypatch):
    """Every model; each sentence is a part of its own, and they have different candidates."""
    monkeypatch.setattr(scoring, "MAX_LOGITS", len(SYMBOLS))
    model, batch = MAKERS[name]().double(), batch_of_words()
    found = [ALL, ALL[1:5], ALL[2:]]
    value, sample_size, log = criterion(found, weight=1.0, temperature=TEMPERATURE)(model, batch)
    lengths = [target for _, target in BATCH]
    expected = expected_loss(model, batch, found, "risk", lengths)
    assert sample_size == sum(lengths)
    torch.testing.assert_close(value, expected)
    assert_same_gradients(gradients(model, value), gradients(model, expected))
    unweighted = expected_loss(model, batch, found, "risk", [1, 1, 1])
    torch.testing.assert_close(log["risk"], unweighted.detach())


@pytest.mark.parametrize("name", MAKERS)
def test_candidates_share_the_output_of_the_encoder_in_training(name):
    """In training mode, but with the running averages of batch normalization."""
    model, batch = MAKERS[name]().double().train(), batch_of_words()
    found = [ALL, ALL, ALL]
    made = criterion(found, weight=1.0, temperature=TEMPERATURE, sentence_avg=True)
    value, sample_size, _ = made(model, batch)
    assert sample_size == 3
    norms = [module for module in model.modules() if hasattr(module, "running_mean")]
    assert all(norm.training for norm in norms)
    for norm in norms:
        norm.eval()
    expected = expected_loss(model, batch, found, "risk", [1, 1, 1])
    torch.testing.assert_close(value, expected)
    assert_same_gradients(gradients(model, value), gradients(model, expected))


@pytest.mark.parametrize("loss", SEQUENCE_LOSSES)
def test_losses_with_the_reference_and_the_loss_of_tokens(loss):
    model, batch = make("convs2s").double(), batch_of_words()
    found = [ALL[:4], ALL[1:5], [ALL[0], ALL[0], ALL[1]]]
    references = [[i for i in row.tolist() if i != SYMBOLS.pad()] for row in batch["target"]]
    distinct = [[*found[0]], [*found[1]], [ALL[0], ALL[1]]]
    for each, reference in zip(distinct, references):
        if reference not in each:
            each.append(reference)
    made = criterion(found, loss=loss, weight=0.3, temperature=TEMPERATURE, reference=True)
    value, _, log = made(model, batch)
    lengths = [target for _, target in BATCH]
    sequences = expected_loss(model, batch, distinct, loss, lengths)
    tokens, _, _ = ConvS2SCrossEntropy(made.task, False, 0.1)(model, batch)
    risk = plain_scores(model, batch, distinct)
    costs = plain_costs(distinct, batch)
    torch.testing.assert_close(value, 0.3 * sequences + 0.7 * tokens)
    assert_same_gradients(
        gradients(model, value),
        gradients(
            model,
            0.3 * expected_loss(model, batch, distinct, loss, lengths)
            + 0.7 * ConvS2SCrossEntropy(made.task, False, 0.1)(model, batch)[0],
        ),
    )
    expected_risk = sum(plain_loss("risk", s / TEMPERATURE, c) for s, c in zip(risk, costs))
    torch.testing.assert_close(log["risk"], expected_risk.detach())
    assert log["oracle_bleu"] == pytest.approx(3.0) and 0 < log["sentence_bleu"] < 3.0


def test_sentences_weigh_the_same_and_so_do_tokens():
    """As in the authors' code, which divides each loss by its own size."""
    model, batch = make("convs2s").double(), batch_of_words()
    found = [ALL, ALL[1:5], ALL[2:]]
    options = {"temperature": TEMPERATURE, "label_smoothing": 0.1}
    sentences, number, _ = criterion(found, weight=1.0, sentence_avg=True, **options)(model, batch)
    made = criterion(found, weight=0.3, sequence_sentence_avg=True, **options)
    value, sample_size, _ = made(model, batch)
    tokens, size, _ = ConvS2SCrossEntropy(made.task, False, 0.1)(model, batch)
    assert (number, sample_size) == (3, size)
    torch.testing.assert_close(value / size, 0.3 * sentences / 3 + 0.7 * tokens / size)
    with pytest.raises(UserError, match="--sequence-sentence-avg has no effect"):
        criterion(sequence_sentence_avg=True, sentence_avg=True)


@pytest.mark.parametrize("loss", SEQUENCE_LOSSES)
def test_the_risk_is_logged_where_it_was_computed(loss):
    model, batch = make("convs2s"), batch_of_words()
    made = criterion([ALL] * 3, loss=loss)
    assert "risk" in made(model, batch)[2]
    assert ("risk" in made(model.train(), batch)[2]) is ("margin" not in loss)


def test_an_ignored_batch_needs_no_candidates(tmp_path):
    """A worker without a batch repeats one, perhaps of the validation set."""
    lists = tmp_path / "train.nbest"
    lists.write_text("S-0\tw3\nH-0\t-1\tw1\nH-0\t-2\tw2\n", encoding="utf-8")
    model, batch = make("convs2s").train(), batch_of_words()
    made = criterion(candidate_file=str(lists))
    with pytest.raises(UserError, match="does not fit the training data"):
        made(model, batch)
    with ignored_batch(True):
        value, _, log = made(model, batch)
    assert value.requires_grad and float(log["risk"]) == pytest.approx(0.0, abs=1e-9)


def test_equal_costs_give_no_gradient():
    model, batch = make("convs2s").double(), batch_of_words()
    none_fits = [[[SYMBOLS.index(f"w{i}"), SYMBOLS.eos()] for i in range(5, 9)]] * 3
    value, _, log = criterion(none_fits, weight=1.0)(model, batch)
    assert float(log["risk"]) == pytest.approx(3.0)
    for name, gradient in gradients(model, value).items():
        assert float(gradient.abs().max()) < 1e-12, name


def test_a_softmax_over_a_candidate_vocabulary():
    """It is extended by the tokens of the candidates."""
    model, batch = make("adl-transformer").double(), batch_of_words()
    vocabulary = torch.cat([torch.arange(8), batch["target"].flatten()]).unique()
    found = [[ALL[1], [SYMBOLS.index("w20"), SYMBOLS.eos()], ALL[3]]] * 3
    assert SYMBOLS.index("w20") not in vocabulary
    made = criterion(found, weight=1.0, temperature=TEMPERATURE)
    value, _, log = made(model, {**batch, "candidates": vocabulary})
    extended = torch.cat([vocabulary, torch.tensor([SYMBOLS.index("w20")])]).unique()
    lengths = [target for _, target in BATCH]
    expected = expected_loss(model, batch, found, "risk", lengths, vocabulary=extended)
    torch.testing.assert_close(value, expected)
    assert_same_gradients(gradients(model, value), gradients(model, expected))
    assert log["candidates"] == len(extended)


def test_autocast_approximates_single_precision():
    """A search without gradients comes first; its casts of the weights must not be used again."""
    model, batch = make("convs2s").train(), batch_of_words()
    made = criterion([ALL] * 3)

    def search(model, sample):
        with torch.no_grad():
            model(**sample["net_input"])
        torch.clear_autocast_cache()
        return [[torch.tensor(tokens) for tokens in ALL]] * 3

    made.search = search
    value, _, _ = made(model, batch)
    exact = gradients(model, value)
    with torch.autocast("cpu", torch.bfloat16):
        rough, _, _ = made(model, batch)
    torch.testing.assert_close(rough, value, rtol=1e-2, atol=0)
    found = gradients(model, rough)
    largest = max(float(gradient.abs().max()) for gradient in exact.values())
    for name, gradient in exact.items():
        assert found[name].dtype == torch.float32
        assert (found[name] - gradient).abs().max() < 0.05 * largest, name


REFUSED = {
    "candidates": (1, "--sequence-candidates is 1, but a sentence needs at least 2"),
    "temperature": (0.0, "--sequence-temperature is 0.0, but must be above 0"),
    "weight": (0.0, "--sequence-weight is 0.0, but must be above 0"),
    "label_smoothing": (1.0, "--label-smoothing is 1.0"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_refused_options(option):
    value, message = REFUSED[option]
    with pytest.raises(UserError, match=message):
        criterion(**{option: value})


@pytest.mark.parametrize("options", [{"search": "sampling"}, {"dropout": True}], ids=str)
def test_options_of_a_search_that_a_file_replaces(options):
    with pytest.raises(UserError, match="for the search that --sequence-candidate-file replaces"):
        criterion(candidate_file="train.nbest", **options)
