"""What holds for every model; each function takes a case and fails if it does not hold."""

import io
from argparse import Namespace

import torch
from torch.nn import functional

from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.search.generator import TranslationGenerator
from tests.properties.cases import Case, build
from tests.support.adapters import dictionary
from tests.support.batches import random_batch

PAD, EOS = dictionary().pad(), dictionary().eos()
SMOOTHING = 0.1


def batch_of(case: Case):
    lengths = [tuple(pair) for pair in case["lengths"]]
    return random_batch(lengths, case["left_pad_source"], case["left_pad_target"], case["seed"])


def assert_close(case: Case, actual, expected):
    """Both are equal but for rounding, in proportion to the largest number."""
    scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    tolerance = scale * (1e-9 if case["precision"] == "float64" else 2e-4)
    assert expected.isfinite().all()
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0.0)


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
    together, _ = model(**batch["net_input"])
    real = batch["net_input"]["prev_output_tokens"].ne(PAD)
    for number in range(len(case["lengths"])):
        source, prefix = rows(batch, number)
        padded = functional.pad(source, (1, 2), value=PAD)
        alone, _ = model(source, None, prefix)
        assert_close(case, together[number][real[number]], alone[0])
        assert_close(case, model(padded, None, prefix)[0], alone)


@torch.no_grad()
def no_future(case: Case):
    """The logits of a position do not depend on later tokens."""
    model, batch = build(case), batch_of(case)
    source, prefix = rows(batch, 0)
    expected, _ = model(source, None, prefix)
    for kept in range(1, prefix.size(1)):
        changed = prefix.clone()
        changed[:, kept:] = (changed[:, kept:] - 3) % 20 + 4
        actual, _ = model(source, None, changed)
        assert_close(case, actual[:, :kept], expected[:, :kept])


@torch.no_grad()
def chunks(case: Case):
    """Decoding in chunks of any sizes gives what one pass gives."""
    model, batch = build(case), batch_of(case)["net_input"]
    expected, _ = model(**batch)
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    real = batch["prev_output_tokens"].ne(PAD)
    ends = [sum(case["chunks"][:count]) for count in range(1, len(case["chunks"]) + 1)]
    for sizes in (ends, range(1, real.size(1))):
        state, logits = {}, []
        for end in (*[end for end in sizes if end < real.size(1)], real.size(1)):
            prefix = batch["prev_output_tokens"][:, :end]
            logits.append(model.decoder(prefix, encoder_out, incremental_state=state)[0])
        assert_close(case, torch.cat(logits, dim=1)[real], expected[real])


@torch.no_grad()
def reordering(case: Case):
    """Hypotheses that change places, double or end go on as if they were decoded anew."""
    model, inputs = build(case), batch_of(case)["net_input"]
    random = torch.Generator().manual_seed(case["seed"])
    sentences, beam = len(case["lengths"]), case["beam"]
    spread = torch.arange(sentences).repeat_interleave(beam)
    encoder_out = model.encoder(inputs["src_tokens"], inputs["src_lengths"])
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, spread)
    prefix = torch.randint(4, 20, (sentences * beam, 5), generator=random)
    sources, state = inputs["src_tokens"][spread], {}
    for end in range(1, 6):
        logits, _ = model.decoder(prefix[:, :end], encoder_out, incremental_state=state)
        expected, _ = model(sources, None, prefix[:, :end])
        assert_close(case, logits[:, -1], expected[:, -1])
        # Each sentence that is left takes hypotheses among its own.
        first = len(sources) // beam
        left = torch.randperm(first, generator=random)[: max(1, first - int(end == 3))].sort()[0]
        chosen = torch.randint(0, beam, (len(left), beam), generator=random)
        order = (left.unsqueeze(1) * beam + chosen).flatten()
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        prefix, sources = prefix[order], sources[order]


@torch.no_grad()
def saving(case: Case):
    """Saved weights give the same logits in a model that had others."""
    model, other, batch = build(case), build(case, case["seed"] + 1), batch_of(case)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    expected, _ = model(**batch["net_input"])
    assert torch.equal(other(**batch["net_input"])[0], expected)
    model.make_generation_fast_()
    assert_close(case, model(**batch["net_input"])[0], expected)


def loss(case: Case):
    """The loss and its gradients are those of plain label-smoothed cross-entropy."""
    model, batch = build(case), batch_of(case)
    criterion = ConvS2SCrossEntropy(
        Namespace(target_dictionary=dictionary()), sentence_avg=False, label_smoothing=SMOOTHING
    )
    value, sample_size, _ = criterion(model, batch)
    log_probabilities = functional.log_softmax(model(**batch["net_input"])[0], dim=-1)
    target = batch["target"]
    words = log_probabilities.size(-1)
    chosen = log_probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    # fairseq gives each word, the target included, an equal share of the smoothed mass.
    share = SMOOTHING / (words - 1)
    per_token = (1 - SMOOTHING - share) * chosen + share * log_probabilities.sum(dim=-1)
    plain = -per_token[target.ne(PAD)].sum()
    assert sample_size == int(target.ne(PAD).sum())
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
    symbols = dictionary()
    generator = TranslationGenerator(
        [model], symbols, vocab_size=len(symbols), beam_size=case["beam"], max_len_b=6
    )
    found = generator.generate([model], batch)
    assert len(found) == len(case["lengths"])
    for number, hypotheses in enumerate(found):
        source, _ = rows(batch, number)
        assert 1 <= len(hypotheses) <= case["beam"]
        scores = [float(hypothesis["score"]) for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            prefix = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]]).unsqueeze(0)
            logits, _ = model(source, None, prefix)
            expected = functional.log_softmax(logits[0], dim=-1).gather(1, tokens[:, None])[:, 0]
            scored = hypothesis["positional_scores"]
            torch.testing.assert_close(scored.double(), expected.double(), atol=1e-3, rtol=1e-4)
            torch.testing.assert_close(
                float(hypothesis["score"]), float(expected.mean()), atol=1e-3, rtol=1e-4
            )


PROPERTIES = (padding_and_batch, no_future, chunks, reordering, saving, loss, search)
