"""Checks of one model, for the tests of all families and of single ones."""

import copy
import io

import torch

from convs2s.nn.state import State
from tests.support.batches import PAD, loss_of_logits, random_batch
from tests.support.families import outputs


def dependencies(model, lengths):
    """For each target position, the target tokens that its features depend on.

    Args:
        model: in double precision.
        lengths: tokens of source and target of each sentence.
    Yields:
        row and position of the features, and B x T booleans: whether a token has a gradient.
        Positions are counted from the first token, although the batch is padded on the left.
    """
    batch = random_batch(lengths, left_pad_target=True)["net_input"]
    kept = {}

    def keep(module, args, output):
        kept["target"] = output.detach().requires_grad_()
        return kept["target"]

    embedding = model.decoder.embed.words
    # Source and target may share their embeddings; the hook is for the target.
    model.encoder.embed.words = copy.deepcopy(model.encoder.embed.words)
    handle = embedding.register_forward_hook(keep)
    features, _ = model.decode(batch["prev_output_tokens"], model.encode(batch["src_tokens"]))
    handle.remove()
    real = batch["prev_output_tokens"].ne(PAD)
    direction = torch.randn(features.size(-1), dtype=features.dtype)
    # The decoder moves the tokens to the left before it embeds them.
    for row, count in enumerate(real.sum(dim=1).tolist()):
        outputs = features[row][real[row]] @ direction
        for t in range(count):
            (gradient,) = torch.autograd.grad(outputs[t], kept["target"], retain_graph=True)
            yield row, t, gradient.abs().sum(dim=-1) > 0


def assert_causal(model):
    """No features depend on later tokens, or on those of another sentence."""
    for row, t, depends in dependencies(model, [(6, 5), (4, 3)]):
        assert not depends[row, t + 1 :].any(), (row, t)
        assert not depends[1 - row].any(), (row, t)


@torch.no_grad()
def assert_incremental_decoding_is_the_full_pass(model):
    """Logits and attention in several steps equal those of one pass."""
    batch = random_batch([(7, 5), (3, 6)])["net_input"]
    expected, attention = outputs(model, batch)
    encoded, state = model.encode(batch["src_tokens"]), State()
    logits, weights = [], []
    seen = 0
    for chunk in (1, 2, 1, 2):
        seen += chunk
        features, step = model.decode(
            batch["prev_output_tokens"][:, :seen], encoded, state, need_weights=True
        )
        logits.append(model.logits(features))
        weights.append(step)
    real = batch["prev_output_tokens"].ne(PAD)
    scale = 1 + expected.abs().max().item()
    torch.testing.assert_close(
        torch.cat(logits, dim=1)[real], expected[real], atol=1e-10 * scale, rtol=1e-10
    )
    if attention is None:
        assert weights == [None] * 4
    else:
        torch.testing.assert_close(
            torch.cat(weights, dim=1)[real], attention[real], atol=1e-9, rtol=1e-9
        )


def assert_state_dict_round_trip(build):
    """Saved weights, loaded into a model of other weights, give the same logits.

    Args:
        build: makes the model; takes ``seed``.
    """
    model, other = build(), build(seed=2)
    batch = random_batch([(7, 5), (3, 9), (11, 2), (1, 1)])["net_input"]
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    with torch.no_grad():
        expected, _ = outputs(model, batch)
        assert not torch.equal(outputs(other, batch)[0], expected)
        other.load_state_dict(torch.load(file, weights_only=True))
        assert torch.equal(outputs(other, batch)[0], expected)
        assert torch.equal(outputs(copy.deepcopy(model), batch)[0], expected)


def assert_trains(model):
    """Every parameter has a gradient, and a small step against it lowers the loss."""
    batch = random_batch([(6, 5), (4, 3)])
    model.train()
    before = loss_of_logits(outputs(model, batch["net_input"])[0], batch)
    before.backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]
    norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-3 * parameter.grad / norm
        assert loss_of_logits(outputs(model, batch["net_input"])[0], batch) < before
