"""Checks for every model: padding, causality, incremental decoding, precision, checkpoints."""

import copy
import pickle

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from tests.support.batches import PAD, random_batch
from tests.support.checks import assert_state_dict_round_trip, assert_trains, dependencies
from tests.support.families import MODELS, make, outputs

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 2), (1, 1)]


def inputs_of(lengths, **padding):
    return random_batch(lengths, **padding)["net_input"]


def reorder(encoded, order):
    return reorder_encoder_output(encoded, BeamOrder(order, encoded["beam_size"]))


@EVERY_MODEL
@pytest.mark.parametrize("left_pad_source", [True, False])
@pytest.mark.parametrize("left_pad_target", [True, False])
def test_a_sentence_does_not_depend_on_its_batch_or_padding(name, left_pad_source, left_pad_target):
    model = make(name).double()
    together = inputs_of(LENGTHS, left_pad_source=left_pad_source, left_pad_target=left_pad_target)
    logits, attention = outputs(model, together)
    for i in range(len(LENGTHS)):
        real = {key: together[key][i].ne(PAD) for key in ("src_tokens", "prev_output_tokens")}
        alone = {key: together[key][i : i + 1, kept] for key, kept in real.items()}
        expected, expected_attention = outputs(model, alone)
        in_source, kept = real.values()
        torch.testing.assert_close(logits[i][kept], expected[0], atol=1e-5, rtol=1e-5)
        weights = attention[i][kept]
        torch.testing.assert_close(
            weights[:, in_source], expected_attention[0], atol=1e-5, rtol=1e-5
        )
        assert not weights[:, ~in_source].any()


@EVERY_MODEL
def test_padding_on_both_sides_of_the_source_changes_nothing(name):
    model = make(name).double()
    source = torch.tensor([[5, 6, 7, 8, 2]])
    prefix = torch.tensor([[2, 9, 10]])
    padded = torch.nn.functional.pad(source, (2, 3), value=PAD)
    torch.testing.assert_close(model(padded, prefix), model(source, prefix), atol=1e-5, rtol=1e-5)


# The sum of no words is a sum, too.
@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("bag-of-words")])
def test_a_source_sentence_without_tokens_is_refused(name):
    model = make(name)
    source = torch.tensor([[5, 6, 2], [PAD, PAD, PAD]])
    with pytest.raises(UserError, match="sentence 1 of the batch .* has only padding"):
        model.encode(source)


@EVERY_MODEL
def test_a_target_position_depends_on_its_token_and_on_no_later_one(name):
    model = make(name).double()
    for _, t, depends in dependencies(model, [(6, 8)]):
        assert not depends[0, t + 1 :].any()
        assert depends[0, t]


@EVERY_MODEL
@pytest.mark.parametrize("left_pad_target", [True, False])
@pytest.mark.parametrize("chunks", [(1,) * 9, (4, 1, 1, 3), (9,)], ids=["1", "4-1-1-3", "9"])
@torch.no_grad()
def test_incremental_decoding_is_the_full_pass(name, left_pad_target, chunks):
    model = make(name).double()
    batch = inputs_of(LENGTHS, left_pad_target=left_pad_target)
    expected = outputs(model, batch)
    tokens, encoded, state = batch["prev_output_tokens"], model.encode(batch["src_tokens"]), State()
    steps, seen = [], 0
    for chunk in chunks:
        seen += chunk
        features, attention = model.decode(tokens[:, :seen], encoded, state, need_weights=True)
        steps.append((model.logits(features), attention))
    kept = tokens.ne(PAD)
    for parts, whole in zip(zip(*steps), expected):
        actual = torch.cat(parts, dim=1)
        torch.testing.assert_close(actual[kept], whole[kept], atol=1e-5, rtol=1e-5)


# Three sentences with two hypotheses each; the row that each row continues.
ORDERS = {
    "hypotheses change places": [1, 0, 2, 3, 3, 5],
    "a hypothesis is taken twice": [0, 0, 2, 2, 4, 4],
    "a sentence is finished": [1, 1, 4, 5],
    "sentences change places": [4, 5, 0, 1, 3, 2],
    "not the same number for each sentence": [0, 2, 2, 5, 5],
}


@EVERY_MODEL
@pytest.mark.parametrize("order", ORDERS)
@torch.no_grad()
def test_reordered_hypotheses_go_on_as_if_decoded_anew(name, order):
    model = make(name).double()
    beam, new_order = 2, torch.tensor(ORDERS[order])
    batch = inputs_of([(7, 5), (3, 9), (11, 2)])
    once = model.encode(batch["src_tokens"])
    spread = torch.arange(3).repeat_interleave(beam)
    before = copy.deepcopy(once)
    encoded = reorder(once, spread)
    torch.testing.assert_close(once, before, atol=0, rtol=0)

    prefix = torch.randint(4, 20, (6, 6), generator=torch.Generator().manual_seed(3))
    state = State()
    for seen in range(1, 5):
        model.decode(prefix[:, :seen], encoded, state)
    state.reorder_(new_order)
    encoded, prefix = reorder(encoded, new_order), prefix[new_order]
    source = batch["src_tokens"][spread[new_order]]
    for seen in (5, 6):
        features, attention = model.decode(prefix[:, :seen], encoded, state, need_weights=True)
        anew = {"src_tokens": source, "prev_output_tokens": prefix[:, :seen]}
        for step, whole in zip((model.logits(features), attention), outputs(model, anew)):
            torch.testing.assert_close(step[:, -1], whole[:, -1], atol=1e-5, rtol=1e-5)


@EVERY_MODEL
@torch.no_grad()
def test_hypotheses_share_the_encoder_output(name):
    model = make(name)
    encoded = model.encode(inputs_of([(7, 5), (3, 9)])["src_tokens"])
    spread = reorder(encoded, torch.arange(2).repeat_interleave(5))
    assert spread["encoder_out"] is encoded["encoder_out"]
    assert spread["beam_size"] == 5


@EVERY_MODEL
def test_saved_weights_and_copies_give_the_same_logits(name):
    assert_state_dict_round_trip(lambda **options: make(name, **options))


@EVERY_MODEL
def test_a_training_step_reaches_every_parameter_and_lowers_the_loss(name):
    assert_trains(make(name))


@EVERY_MODEL
@torch.no_grad()
def test_prepared_for_generation_it_gives_the_same_and_cannot_train(name):
    model = make(name).double()
    expected = outputs(model, inputs_of(LENGTHS))
    model.prepare_for_generation_()
    actual = outputs(model, inputs_of(LENGTHS))
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="cannot train"):
        model.train()


@EVERY_MODEL
def test_float64_agrees_with_float32(name):
    model = make(name)
    single, _ = outputs(model, inputs_of(LENGTHS))
    double, _ = outputs(model.double(), inputs_of(LENGTHS))
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-5)


@EVERY_MODEL
@torch.no_grad()
def test_in_bfloat16_attention_stays_in_single_precision(name):
    model = make(name)
    single, _ = outputs(model, inputs_of(LENGTHS))
    half, attention = outputs(model.bfloat16(), inputs_of(LENGTHS))
    assert half.dtype == torch.bfloat16 and attention.dtype == torch.float32
    assert (half.float() - single).abs().max() < 0.1 * single.abs().max()


@EVERY_MODEL
def test_attention_of_each_target_position_sums_to_one(name):
    batch = inputs_of(LENGTHS)
    _, attention = outputs(make(name), batch)
    sums = attention.sum(dim=-1)[batch["prev_output_tokens"].ne(PAD)]
    torch.testing.assert_close(sums, torch.ones_like(sums))


@EVERY_MODEL
@torch.no_grad()
def test_dropout_can_be_kept_in_evaluation(name):
    model = make(name, dropout=0.5)
    batch = inputs_of(LENGTHS)
    for parts in ([], [model.encoder, model.decoder], [model.decoder], []):
        model.keep_dropout_(parts)
        first, second = (outputs(model, batch)[0] for _ in range(2))
        assert torch.equal(first, second) is not bool(parts)


@EVERY_MODEL
def test_nothing_that_a_module_returned_is_modified(name):
    """torch would refuse backward hooks, and forward hooks would see other numbers later."""
    model = make(name, dropout=0.3).train()
    called, seen = set(), []

    def keep(_module, _inputs, output):
        for tensor in output if isinstance(output, tuple) else (output,):
            if torch.is_tensor(tensor):
                seen.append((tensor, tensor.detach().clone()))

    for path, module in model.named_modules():
        module.register_full_backward_hook(lambda *_, path=path: called.add(path))
        module.register_forward_hook(keep)
    batch = inputs_of(LENGTHS)
    model(batch["src_tokens"], batch["prev_output_tokens"]).square().sum().backward()
    assert called
    for tensor, returned in seen:
        assert torch.equal(tensor, returned)


@EVERY_MODEL
@torch.no_grad()
def test_prepared_for_generation_it_can_be_pickled_and_copied(name):
    model = make(name)
    model.prepare_for_generation_()
    expected, _ = outputs(model, inputs_of(LENGTHS))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(outputs(other, inputs_of(LENGTHS))[0], expected)
        with pytest.raises(RuntimeError, match="cannot train"):
            other.train()
        assert other.eval() is other


@EVERY_MODEL
def test_a_source_without_tokens_is_refused(name):
    model = make(name)
    prefix = torch.tensor([[2, 9], [2, 9]])
    for source in ([[5, 6, 2], [PAD] * 3], [[PAD] * 2] * 2, [[], []]):
        with pytest.raises(UserError, match="has only padding") as error:
            model(torch.tensor(source, dtype=torch.long), prefix)
        assert f"sentence {int(len(source[0]) == 3)} of the batch" in str(error.value)
