"""What holds for every model; each function takes a case and fails if it does not hold."""

import io

import torch
from torch.nn import functional

from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from tests.properties.cases import Case, build
from tests.support.batches import EOS, PAD, SYMBOLS, random_batch
from tests.support.families import outputs, smoothed_loss

SMOOTHING = 0.1


def batch_of(case: Case):
    lengths = [tuple(pair) for pair in case["lengths"]]
    return random_batch(lengths, case["left_pad_source"], case["left_pad_target"], case["seed"])


def assert_close(case: Case, actual, expected):
    """Both are equal but for rounding, in proportion to the largest number."""
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    tolerance = scale * (1e-9 if case["precision"] == "float64" else 2e-4)
    assert expected.isfinite().all()
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0.0)


def spread(encoded, order):
    return reorder_encoder_output(encoded, BeamOrder(order, encoded["beam_size"]))


def rows(batch, number):
    """The source and the previous target tokens of a sentence, without padding."""
    inputs = batch["net_input"]
    return [
        inputs[name][number][inputs[name][number].ne(PAD)].unsqueeze(0)
        for name in ("src_tokens", "prev_output_tokens")
    ]


@torch.no_grad()
def padding_and_batch(case: Case):
    """A sentence has the same logits alone and in any batch."""
    model, batch = build(case), batch_of(case)
    together, _ = outputs(model, batch["net_input"])
    real = batch["net_input"]["prev_output_tokens"].ne(PAD)
    for number in range(len(case["lengths"])):
        source, prefix = rows(batch, number)
        padded = functional.pad(source, (1, 2), value=PAD)
        alone = model(source, prefix)
        assert_close(case, together[number][real[number]], alone[0])
        assert_close(case, model(padded, prefix), alone)


@torch.no_grad()
def no_future(case: Case):
    """The logits of a position do not depend on later tokens."""
    model, batch = build(case), batch_of(case)
    source, prefix = rows(batch, 0)
    expected = model(source, prefix)
    for kept in range(1, prefix.size(1)):
        changed = prefix.clone()
        changed[:, kept:] = (changed[:, kept:] - 3) % 20 + 4
        actual = model(source, changed)
        assert_close(case, actual[:, :kept], expected[:, :kept])


@torch.no_grad()
def chunks(case: Case):
    """Decoding in chunks of any sizes gives what one pass gives."""
    model, batch = build(case), batch_of(case)["net_input"]
    expected, _ = outputs(model, batch)
    encoded = model.encode(batch["src_tokens"])
    real = batch["prev_output_tokens"].ne(PAD)
    ends = [sum(case["chunks"][:count]) for count in range(1, len(case["chunks"]) + 1)]
    for sizes in (ends, range(1, real.size(1))):
        state, logits = State(), []
        for end in (*[end for end in sizes if end < real.size(1)], real.size(1)):
            prefix = batch["prev_output_tokens"][:, :end]
            logits.append(model.logits(model.decode(prefix, encoded, state)[0]))
        assert_close(case, torch.cat(logits, dim=1)[real], expected[real])


@torch.no_grad()
def reordering(case: Case):
    """Hypotheses that change places, double or end go on as if they were decoded anew."""
    model, inputs = build(case), batch_of(case)["net_input"]
    random = torch.Generator().manual_seed(case["seed"])
    sentences, beam = len(case["lengths"]), case["beam"]
    order = torch.arange(sentences).repeat_interleave(beam)
    encoded = spread(model.encode(inputs["src_tokens"]), order)
    prefix = torch.randint(4, 20, (sentences * beam, 5), generator=random)
    sources, state = inputs["src_tokens"][order], State()
    for end in range(1, 6):
        features, _ = model.decode(prefix[:, :end], encoded, state)
        expected = model(sources, prefix[:, :end])
        assert_close(case, model.logits(features[:, -1]), expected[:, -1])
        # Each sentence that is left takes hypotheses among its own.
        first = len(sources) // beam
        left = torch.randperm(first, generator=random)[: max(1, first - int(end == 3))].sort()[0]
        chosen = torch.randint(0, beam, (len(left), beam), generator=random)
        order = (left.unsqueeze(1) * beam + chosen).flatten()
        state.reorder_(order)
        encoded = spread(encoded, order)
        prefix, sources = prefix[order], sources[order]


@torch.no_grad()
def saving(case: Case):
    """Saved weights give the same logits in a model that had others."""
    model, other, batch = build(case), build(case, case["seed"] + 1), batch_of(case)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    expected, _ = outputs(model, batch["net_input"])
    assert torch.equal(outputs(other, batch["net_input"])[0], expected)
    model.prepare_for_generation_()
    assert_close(case, outputs(model, batch["net_input"])[0], expected)


def loss(case: Case):
    """The loss and its gradients are those of plain label-smoothed cross-entropy."""
    model, batch = build(case), batch_of(case)
    value = smoothed_loss(model, batch, SMOOTHING)
    log_probabilities = functional.log_softmax(outputs(model, batch["net_input"])[0], dim=-1)
    target = batch["target"]
    words = log_probabilities.size(-1)
    chosen = log_probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    # fairseq gives each word, the target included, an equal share of the smoothed mass.
    share = SMOOTHING / (words - 1)
    per_token = (1 - SMOOTHING - share) * chosen + share * log_probabilities.sum(dim=-1)
    plain = -per_token[target.ne(PAD)].sum()
    assert_close(case, value, plain)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    ours = torch.autograd.grad(value, parameters, allow_unused=True)
    plain_gradients = torch.autograd.grad(plain, parameters, allow_unused=True)
    largest = max(float(g.abs().max()) for g in plain_gradients if g is not None)
    for actual, expected in zip(ours, plain_gradients):
        assert (actual is None) == (expected is None)
        if expected is not None:
            assert_close(case, actual / max(1.0, largest), expected / max(1.0, largest))


@torch.no_grad()
def search(case: Case):
    """The scores of beam search are those of a forced decoding of its hypotheses."""
    model, batch = build(case), batch_of(case)
    options = SearchOptions(beam=case["beam"], max_len_b=6)
    sources = batch["net_input"]["src_tokens"]
    found = beam_search([NetworkModel(model)], sources, SYMBOLS, options)
    assert len(found) == len(case["lengths"])
    for number, hypotheses in enumerate(found):
        source, _ = rows(batch, number)
        assert 1 <= len(hypotheses) <= case["beam"]
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens
            prefix = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]]).unsqueeze(0)
            logits = model(source, prefix)
            expected = functional.log_softmax(logits[0], dim=-1).gather(1, tokens[:, None])[:, 0]
            torch.testing.assert_close(
                hypothesis.token_scores.double(), expected.double(), atol=1e-3, rtol=1e-4
            )
            torch.testing.assert_close(
                hypothesis.score, float(expected.mean()), atol=1e-3, rtol=1e-4
            )


PROPERTIES = (padding_and_batch, no_future, chunks, reordering, saving, loss, search)
