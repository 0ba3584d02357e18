"""The search for candidates in the course of a training."""

import pytest
import torch

from convs2s.nn.dropout import Dropout
from convs2s.nn.sequence_losses import SEQUENCE_LOSSES
from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.criterions.sequences.search import CandidateSearch
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.adapters import make
from tests.support.batches import random_batch
from tests.support.families import MODELS
from tests.support.sequence_training import SYMBOLS, criterion

BATCH = [(5, 4), (3, 3), (6, 2)]


def task():
    return ConvS2STranslationTask(ConvS2STranslationConfig(data=""), SYMBOLS, SYMBOLS)


@pytest.mark.parametrize("name", MODELS)
def test_candidates_are_possible_and_the_model_is_left_as_it_was(name):
    model, batch = make(name, dropout=0.2).train(), random_batch(BATCH)
    modes = {module: module.training for module in model.modules()}
    state = {key: value.clone() for key, value in model.state_dict().items()}
    search = CandidateSearch(task(), 4, sampling=False, dropout=False)
    found = search(model, batch)
    assert [len({tuple(tokens.tolist()) for tokens in each}) for each in found] == [4, 4, 4]
    assert all(tokens[-1] == SYMBOLS.eos() for each in found for tokens in each)
    assert all(len(tokens) <= 1.5 * 4 + 11 for each in found for tokens in each)
    assert {module: module.training for module in model.modules()} == modes
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key])


def test_each_model_is_searched():
    """Such as a model and the average of its weights."""
    models, batch = [make("convs2s", seed=seed) for seed in (1, 2)], random_batch(BATCH)
    expected = [as_lists(CandidateSearch(task(), 4, False, False)(x, batch)) for x in models]
    search = CandidateSearch(task(), 4, sampling=False, dropout=False)
    found = [as_lists(search(model, batch)) for model in (*models, models[0])]
    assert found == [*expected, expected[0]] and expected[0] != expected[1]


@pytest.mark.parametrize("sampling", [False, True], ids=["beam", "sampling"])
@pytest.mark.parametrize("loss", SEQUENCE_LOSSES)
def test_the_loss_of_a_model_that_diverged_is_not_a_number(loss, sampling):
    model, batch = make("convs2s").train(), random_batch(BATCH)
    with torch.no_grad():
        next(model.decoder.parameters()).fill_(float("nan"))
    made = criterion(weight=1.0, loss=loss)
    made.search = CandidateSearch(task(), 4, sampling, dropout=False)
    assert made(model, batch)[0].isnan() and model.training


def as_lists(found):
    return [[tokens.tolist() for tokens in each] for each in found]


def searches(model, batch, count=3, **options):
    """The candidates of several searches, each with random numbers of its own."""
    search = CandidateSearch(task(), 4, **{"sampling": False, "dropout": False, **options})
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        found.append(as_lists(search(model, batch)))
    return found


@pytest.mark.parametrize("options", [{"sampling": True}, {"dropout": True}], ids=str)
def test_random_candidates_in_training_but_not_in_validation(options):
    model, batch = make("convs2s", dropout=0.3).train(), random_batch(BATCH)
    plain, *others = searches(model, batch)
    assert others == [plain, plain]
    first, second, third = searches(model, batch, **options)
    assert first != second and second != third
    assert not any(module.always for module in model.modules() if isinstance(module, Dropout))
    assert searches(model, batch, **options) == [first, second, third]
    assert searches(model.eval(), batch, **options) == [plain] * 3


def test_the_risk_falls_where_likelihood_is_flat():
    """One source has three translations; the most probable one has little in common with others.

    A model that has their probabilities is the best for likelihood, but not for the risk: its
    minimum is at a translation that resembles another one.
    """
    batch = random_batch([(4, 5)] * 10)
    batch["net_input"]["src_tokens"][:] = batch["net_input"]["src_tokens"][0]
    texts = ["w1 w2 w3 w4"] * 3 + ["w1 w2 w3 w5"] * 3 + ["w6 w7 w8 w9"] * 4
    for row, text in enumerate(texts):
        batch["target"][row] = SYMBOLS.encode_line(text, add_if_not_exist=False).long()
    batch["net_input"]["prev_output_tokens"] = batch["target"].roll(1, dims=1)

    model = make("convs2s").train()
    likelihood = ConvS2SCrossEntropy(task(), False, 0.0)
    risk = criterion(weight=1.0, label_smoothing=0.0, candidates=4, temperature=0.25)
    risk.search = CandidateSearch(task(), 4, sampling=False, dropout=False)

    def train(loss, updates, lr):
        optimizer = torch.optim.Adam(model.parameters(), lr)
        for _ in range(updates):
            optimizer.zero_grad()
            loss(model, batch)[0].backward()
            optimizer.step()
        with torch.no_grad():
            log = risk(model, batch)[2]
        return float(log["risk"]) / 10, float(log["nll_loss"]) / 10

    train(likelihood, 60, 0.01)
    before, nll_before = train(likelihood, 60, 0.003)
    flat, nll_flat = train(likelihood, 20, 0.001)
    assert abs(nll_flat - nll_before) < 0.01 and abs(flat - before) < 0.01
    after, _ = train(risk, 20, 0.003)
    assert after < flat - 0.03
