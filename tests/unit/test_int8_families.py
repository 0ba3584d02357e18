"""Every model in int8: scores, attention, incremental decoding, weights, refusals."""

import copy

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.nn import int8
from convs2s.nn.state import State
from tests.support.batches import PAD, random_batch
from tests.support.families import MODELS, make, outputs, tiny_adl, tiny_convs2s, tiny_pervasive

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 2), (1, 1)]
# The only matrices that stay in single precision.
KEPT = (
    *("weight_ih_l0", "weight_hh_l0", "scores.weight", ".scores", ".convolution"),
    *(".alpha", ".beta", ".delta", ".eta"),
)


def quantized(name, **options):
    model = make(name, **options)
    model.prepare_for_generation_()
    model.quantize_()
    return model


@EVERY_MODEL
@torch.no_grad()
def test_scores_and_attention_are_nearly_those_of_single_precision(name):
    batch = random_batch(LENGTHS)
    single, single_attention = outputs(make(name), batch["net_input"])
    model = quantized(name)
    scores, attention = outputs(model, batch["net_input"])
    real = batch["target"].ne(PAD)
    assert scores.dtype == torch.float32 and not torch.equal(scores, single)
    # The channels of these models are few, so that the error of a sum is large beside the sum.
    assert (scores - single)[real].abs().max() < 0.2 * single[real].std()
    # The attention of these models is nearly the same to all source tokens.
    source = batch["net_input"]["src_tokens"].ne(PAD)
    even = (source / source.sum(dim=1, keepdim=True)).unsqueeze(1)
    unevenness = (single_attention - even)[real].abs().max()
    assert (attention - single_attention)[real].abs().max() < 0.002 + 0.1 * unevenness
    matrices = [path for path, p in model.named_parameters() if p.dim() > 1]
    assert all(path.endswith(KEPT) for path in matrices)


@EVERY_MODEL
@torch.no_grad()
def test_incremental_decoding_is_the_full_pass(name):
    model, batch = quantized(name), random_batch(LENGTHS)["net_input"]
    expected, _ = outputs(model, batch)
    encoded, state = model.encode(batch["src_tokens"]), State()
    prefix = batch["prev_output_tokens"]
    steps = [
        model.logits(model.decode(prefix[:, :seen], encoded, state)[0])
        for seen in range(1, prefix.size(1) + 1)
    ]
    real = prefix.ne(PAD)
    # Rounding may move a number to the next integer.
    difference = (torch.cat(steps, dim=1) - expected)[real].abs()
    assert difference.max() < 0.05 * expected[real].std()
    assert difference.median() < 1e-5


@EVERY_MODEL
@torch.no_grad()
def test_weights_can_be_loaded_into_a_model_that_is_not_quantized(name):
    model, batch = quantized(name), random_batch(LENGTHS)["net_input"]
    other = make(name, seed=2)
    other.load_state_dict(model.state_dict())
    assert other.quantized
    assert torch.equal(outputs(other.eval(), batch)[0], outputs(model, batch)[0])
    with pytest.raises(UserError, match="int8 cannot be trained"):
        other.train()


@EVERY_MODEL
@torch.no_grad()
def test_the_rounded_weights_in_single_precision(name):
    model, batch = quantized(name), random_batch(LENGTHS)["net_input"]
    scores, _ = outputs(model, batch)
    model.dequantize_()
    rounded, _ = outputs(model, batch)
    assert not any(isinstance(module, int8.Int8Matrix) for module in model.modules())
    assert (rounded - scores).abs().max() < 0.2 * scores.std()


WIDE = {
    "convs2s": lambda: tiny_convs2s(
        encoder_embed_dim=128,
        decoder_embed_dim=128,
        decoder_out_embed_dim=128,
        encoder_layers="[(128, 3)] * 2",
        decoder_layers="[(128, 3)] * 2",
    ),
    "adl": lambda: tiny_adl(model_dim=128),
    "pervasive": lambda: tiny_pervasive(
        encoder_embed_dim=256, decoder_embed_dim=256, growth_rate=32, num_layers=4
    ),
}


@pytest.mark.parametrize("family", WIDE)
def test_weights_and_their_file_have_a_quarter_of_the_size(family, tmp_path):
    model = WIDE[family]()
    model.prepare_for_generation_()
    sizes = []
    for name in ("single", "int8"):
        state = model.state_dict()
        stored = {tensor.data_ptr(): tensor.nbytes for tensor in state.values()}
        torch.save(state, tmp_path / name)
        sizes.append((sum(stored.values()), (tmp_path / name).stat().st_size))
        if not model.quantized:
            model.quantize_()
    (memory, file), (small_memory, small_file) = sizes
    assert 0.25 < small_memory / memory < 0.3
    assert small_file < 0.35 * file


def test_another_vocabulary_is_refused():
    state = copy.copy(quantized("convs2s").state_dict())
    state["encoder.embed.words.weight.int8"] = torch.zeros(7, 16, dtype=torch.int8)
    with pytest.raises(UserError, match="source vocabulary of 7 tokens"):
        make("convs2s").load_state_dict(state)
