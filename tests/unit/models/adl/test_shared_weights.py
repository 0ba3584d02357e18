"""``share``: the same weights in several places, each with an incremental state of its own."""

import copy
import io

import pytest
import torch

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.context import Context
from convs2s.models.adl.figures import figures
from convs2s.models.adl.layers.chains import LayerChain, SharedLayer
from convs2s.models.adl.stacks import EncoderStack
from convs2s.nn.state import State
from tests.support.batches import random_batch
from tests.support.families import build, outputs

C = 16
SMALL = Settings(C, attention_heads=4, dropout=0.0)
LETS = (
    "let rec = res_nd(rnn) -> res(ssru -> qrnn(k=2)); "
    "let att = res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res(cnn(glu)); "
    "let both = share(rec) -> res(share(att)); "
)
DECODERS = {
    "recurrent": LETS.split("let att")[0] + "repeat(3, share(rec)) -> share(rec) -> mlp_att",
    "self-attention": "let a = res_nd(mh_dot_self_att); pos -> repeat(3, share(a)) -> mlp_att",
    "inside": LETS + "share(both) -> share(att) -> concat(share(rec), share(both)) -> linear",
}


def network(decoder, encoder="birnn", seed=1):
    options = dict(arch="adl", encoder_adl=encoder, decoder_adl=decoder)
    return build(**options, model_dim=C, attention_heads=4, seed=seed).double()


def decoder_of(text):
    return resolve("birnn", text, SMALL).decoder


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_steps_equal_a_full_pass(name):
    model = network(DECODERS[name])
    batch = random_batch([(7, 6), (3, 4), (5, 1)])["net_input"]
    expected, _ = outputs(model, batch)
    encoded, state = model.encode(batch["src_tokens"]), State()
    tokens = batch["prev_output_tokens"]
    for end in range(1, tokens.size(1) + 1):
        features, _ = model.decode(tokens[:, :end], encoded, state)
        actual = model.logits(features)[:, -1]
        real = tokens[:, end - 1].ne(1)
        torch.testing.assert_close(actual[real], expected[real, end - 1], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_the_output_is_that_of_copies_with_equal_weights(name):
    """Against a model whose chains have weights of their own, which are set to the same values."""
    shared = network(DECODERS[name])
    text = DECODERS[name]
    for let in ("rec", "att", "both", "a"):
        text = text.replace(f"share({let})", f"concat({let})")
    plain = network(text)
    source, target = shared.decoder.layers, plain.decoder.layers

    def copy_weights(layer, other):
        if isinstance(layer, SharedLayer):
            chain = layer.chain or layer.first[0].chain
            pairs = zip(chain, other.chains[0])
        else:
            for (_, weight), (_, place) in zip(
                layer.named_parameters(recurse=False), other.named_parameters(recurse=False)
            ):
                place.copy_(weight)
            pairs = zip(layer.children(), other.children())
        for inner, place in pairs:
            copy_weights(inner, place)

    copy_weights(source, target)
    plain.encoder.load_state_dict(shared.encoder.state_dict())
    for part in ("embed", "output"):
        getattr(plain.decoder, part).load_state_dict(getattr(shared.decoder, part).state_dict())
    batch = random_batch([(7, 6), (3, 4)])["net_input"]
    expected, actual = outputs(plain, batch)[0], outputs(shared, batch)[0]
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)
    assert sum(p.numel() for p in shared.parameters()) < sum(p.numel() for p in plain.parameters())


def test_weights_are_registered_and_saved_once():
    for text in DECODERS.values():
        stack = decoder_of(text)
        chain = LayerChain(stack.layers)
        count = sum(parameter.numel() for parameter in chain.parameters())
        assert count == figures(stack.layers, 1).parameters
        state = chain.state_dict()
        assert sum(tensor.numel() for tensor in state.values()) == count
        assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)
    owners = [layer for layer in chain.modules() if isinstance(layer, SharedLayer)]
    assert [layer.name for layer in owners if layer.chain is not None] == ["both", "rec", "att"]


def test_checkpoints_and_copies_keep_what_is_shared():
    model, other = network(DECODERS["inside"]), network(DECODERS["inside"], seed=2)
    batch = random_batch([(7, 6), (3, 4)])["net_input"]
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    expected, _ = outputs(model, batch)
    assert torch.equal(outputs(other, batch)[0], expected)
    copied = copy.deepcopy(model)
    assert torch.equal(outputs(copied, batch)[0], expected)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert torch.equal(outputs(model, batch)[0], expected)
    assert not torch.equal(outputs(copied, batch)[0], expected)


def test_gradients_of_all_uses_are_summed():
    stack = resolve("let a = linear -> act(tanh); share(a) -> share(a)", "id", SMALL).encoder
    chain = LayerChain(stack.layers).double()
    x = torch.randn(2, 5, C, dtype=torch.float64)
    weight, bias = chain[0].chain[0].linear.parameters()
    context = Context(torch.arange(5), 5)
    chain(x, context).sum().backward()
    first, second = (weight.detach().clone().requires_grad_() for _ in range(2))
    hidden = torch.nn.functional.linear(x, first, bias.detach()).tanh()
    torch.nn.functional.linear(hidden, second, bias.detach()).tanh().sum().backward()
    torch.testing.assert_close(weight.grad, first.grad + second.grad, atol=1e-12, rtol=0)


def test_encoder_and_decoder_have_weights_of_their_own():
    text = "let a = res(rnn); repeat(2, share(a))"
    model = network(f"{text} -> mlp_att", text)
    names = [name for name, _ in model.named_parameters() if "rnn" in name or "network" in name]
    assert len(names) == 8 and {name.split(".")[0] for name in names} == {"encoder", "decoder"}


def test_initial_weights_are_scaled_once():
    text = "let a = linear; repeat(4, share(a)) -> mlp_att"
    options = dict(arch="adl", encoder_adl="id", decoder_adl=text, model_dim=C)
    plain, scaled = build(**options), build(**options, init_gain=0.5)
    weights = [model.decoder.layers[0].chain[0].linear.weight for model in (plain, scaled)]
    torch.testing.assert_close(weights[1], 0.5 * weights[0], atol=0, rtol=0)


def test_a_stack_of_modules_and_a_chain_are_tied_in_the_same_way():
    stack = resolve("let a = rnn; repeat(3, res(share(a)))", "id", SMALL).encoder
    for layers in (EncoderStack(stack), LayerChain(stack.layers)):
        shares = [layer for layer in layers.modules() if isinstance(layer, SharedLayer)]
        assert [layer.first for layer in shares] == [(), (shares[0],), (shares[0],)]
