"""Checks for every model: padding, causality, incremental decoding, precision, checkpoints."""

import copy
import pickle

import pytest
import torch

from convs2s.common.errors import UserError
from tests.support.checks import assert_state_dict_round_trip, assert_trains, dependencies
from tests.support.families import MODELS, make
from tests.support.helpers import dictionary, random_batch

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
PAD = dictionary().pad()
LENGTHS = [(7, 5), (3, 9), (11, 2), (1, 1)]


def real_rows(batch):
    return batch["net_input"]["prev_output_tokens"].ne(PAD)


@EVERY_MODEL
@pytest.mark.parametrize("left_pad_source", [True, False])
@pytest.mark.parametrize("left_pad_target", [True, False])
def test_a_sentence_does_not_depend_on_its_batch_or_padding(name, left_pad_source, left_pad_target):
    model = make(name).double()
    together = random_batch(LENGTHS, left_pad_source, left_pad_target)
    logits, extra = model(**together["net_input"])
    for i in range(len(LENGTHS)):
        source, prefix = (
            together["net_input"][key][i][together["net_input"][key][i].ne(PAD)].unsqueeze(0)
            for key in ("src_tokens", "prev_output_tokens")
        )
        alone, alone_extra = model(source, None, prefix)
        kept = real_rows(together)[i]
        torch.testing.assert_close(logits[i][kept], alone[0], atol=1e-5, rtol=1e-5)
        in_source = together["net_input"]["src_tokens"][i].ne(PAD)
        weights = extra["attn"][0][i][kept]
        torch.testing.assert_close(
            weights[:, in_source], alone_extra["attn"][0][0], atol=1e-5, rtol=1e-5
        )
        assert not weights[:, ~in_source].any()


@EVERY_MODEL
def test_padding_on_both_sides_of_the_source_changes_nothing(name):
    model = make(name).double()
    source = torch.tensor([[5, 6, 7, 8, 2]])
    prefix = torch.tensor([[2, 9, 10]])
    padded = torch.nn.functional.pad(source, (2, 3), value=PAD)
    expected, _ = model(source, None, prefix)
    actual, _ = model(padded, None, prefix)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


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
    batch = random_batch(LENGTHS, left_pad_target=left_pad_target)["net_input"]
    expected, expected_extra = model(**batch)
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    state, seen, logits, weights = {}, 0, [], []
    for chunk in chunks:
        seen += chunk
        output, extra = model.decoder(
            batch["prev_output_tokens"][:, :seen],
            encoder_out=encoder_out,
            incremental_state=state,
        )
        logits.append(output)
        weights.append(extra["attn"][0])
    kept = batch["prev_output_tokens"].ne(PAD)
    actual = torch.cat(logits, dim=1)
    torch.testing.assert_close(actual[kept], expected[kept], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        torch.cat(weights, dim=1)[kept], expected_extra["attn"][0][kept], atol=1e-5, rtol=1e-5
    )


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
    batch = random_batch([(7, 5), (3, 9), (11, 2)])["net_input"]
    encode = model.encoder(batch["src_tokens"], batch["src_lengths"])
    spread = torch.arange(3).repeat_interleave(beam)
    before = copy.deepcopy(encode)
    encoder_out = model.encoder.reorder_encoder_out(encode, spread)
    torch.testing.assert_close(encode, before, atol=0, rtol=0)

    prefix = torch.randint(4, 20, (6, 6), generator=torch.Generator().manual_seed(3))
    state = {}
    for seen in range(1, 5):
        model.decoder(prefix[:, :seen], encoder_out=encoder_out, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, new_order)
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, new_order)
    prefix = prefix[new_order]
    for seen in (5, 6):
        actual, extra = model.decoder(
            prefix[:, :seen], encoder_out=encoder_out, incremental_state=state
        )
        source = batch["src_tokens"][spread[new_order]]
        expected, expected_extra = model(source, None, prefix[:, :seen])
        torch.testing.assert_close(actual[:, -1], expected[:, -1], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            extra["attn"][0][:, -1], expected_extra["attn"][0][:, -1], atol=1e-5, rtol=1e-5
        )


@EVERY_MODEL
@torch.no_grad()
def test_hypotheses_share_the_encoder_output(name):
    model = make(name)
    batch = random_batch([(7, 5), (3, 9)])["net_input"]
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    spread = model.encoder.reorder_encoder_out(encoder_out, torch.arange(2).repeat_interleave(5))
    assert spread["encoder_out"] is encoder_out["encoder_out"]
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
    batch = random_batch(LENGTHS)["net_input"]
    expected, expected_extra = model(**batch)
    model.make_generation_fast_(need_attn=True)
    actual, extra = model(**batch)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(extra["attn"][0], expected_extra["attn"][0], atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="cannot train"):
        model.train()


@EVERY_MODEL
def test_float64_agrees_with_float32(name):
    model = make(name)
    batch = random_batch(LENGTHS)["net_input"]
    single, _ = model(**batch)
    double, _ = model.double()(**batch)
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-5)


@EVERY_MODEL
@torch.no_grad()
def test_in_bfloat16_attention_stays_in_single_precision(name):
    model = make(name)
    batch = random_batch(LENGTHS)["net_input"]
    single, _ = model(**batch)
    half, extra = model.bfloat16()(**batch)
    assert half.dtype == torch.bfloat16 and extra["attn"][0].dtype == torch.float32
    assert (half.float() - single).abs().max() < 0.1 * single.abs().max()


@EVERY_MODEL
def test_attention_of_each_target_position_sums_to_one(name):
    model = make(name)
    batch = random_batch(LENGTHS)
    _, extra = model(**batch["net_input"])
    sums = extra["attn"][0].sum(dim=-1)[real_rows(batch)]
    torch.testing.assert_close(sums, torch.ones_like(sums))


@EVERY_MODEL
@pytest.mark.parametrize("parts, random", [(None, True), (["Encoder"], False)])
@torch.no_grad()
def test_dropout_can_be_retained_in_generation(name, parts, random):
    model = make(name, dropout=0.5)
    batch = random_batch(LENGTHS)["net_input"]
    assert torch.equal(model(**batch)[0], model(**batch)[0])
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=parts)
    assert torch.equal(model(**batch)[0], model(**batch)[0]) is not random
    if parts:
        parts = [type(model.decoder).__name__]
        model = make(name, dropout=0.5)
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=parts)
        assert not torch.equal(model(**batch)[0], model(**batch)[0])


@EVERY_MODEL
def test_nothing_that_a_module_returned_is_modified(name):
    """torch would refuse backward hooks, and forward hooks would see other numbers later."""
    model = make(name, dropout=0.3).train()
    called, outputs = set(), []

    def keep(_module, _inputs, output):
        for tensor in output if isinstance(output, tuple) else (output,):
            if torch.is_tensor(tensor):
                outputs.append((tensor, tensor.detach().clone()))

    for path, module in model.named_modules():
        module.register_full_backward_hook(lambda *_, path=path: called.add(path))
        module.register_forward_hook(keep)
    logits, _ = model(**random_batch(LENGTHS)["net_input"])
    logits.square().sum().backward()
    assert called
    for tensor, returned in outputs:
        assert torch.equal(tensor, returned)


@EVERY_MODEL
@torch.no_grad()
def test_prepared_for_generation_it_can_be_pickled_and_copied(name):
    model = make(name)
    batch = random_batch(LENGTHS)["net_input"]
    model.make_generation_fast_()
    expected, _ = model(**batch)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(other(**batch)[0], expected)
        with pytest.raises(RuntimeError, match="cannot train"):
            other.train()
        assert other.eval() is other


@EVERY_MODEL
def test_a_source_without_tokens_is_refused(name):
    model = make(name)
    prefix = torch.tensor([[2, 9], [2, 9]])
    for source in ([[5, 6, 2], [PAD] * 3], [[PAD] * 2] * 2, [[], []]):
        with pytest.raises(UserError, match="has no tokens but padding") as error:
            model(torch.tensor(source, dtype=torch.long), None, prefix)
        assert f"sentence {int(len(source[0]) == 3)} of the batch" in str(error.value)
