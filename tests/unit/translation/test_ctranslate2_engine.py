"""CTranslate2 finds the translations and the scores of the beam search, for every transformer."""

import multiprocessing

import pytest
import torch

from convs2s.checkpoints.networks import Checkpoint
from convs2s.common.errors import UserError
from convs2s.translation.ctranslate2_engine import CTranslate2Engine
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.ensemble import padded_before
from convs2s.translation.options import EnsembleOptions
from convs2s.translation.search import beam_search
from tests.support.batches import EOS, PAD, SYMBOLS
from tests.support.transformers import BOTH, MODELS, model_and_checkpoint, post_norm, pre_norm

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

# What CTranslate2 can have, and fairseq's transformer cannot.
MORE = {
    "biases, sigmoid": (
        f"pos -> {pre_norm(1, ['mh_dot_self_att(bias=true)'], 'ffl(v=sigmoid)')}",
        f"pos -> {post_norm(2, ['mh_dot_self_att', 'mh_dot_src_att(bias=true)'], 'ffl(v=tanh)')}",
        {},
    ),
    "swiglu, geglu": (
        f"pos -> {pre_norm(2, ffl='ffl(v=swiglu)')}",
        f"pos -> {pre_norm(1, BOTH, 'ffl(v=geglu)')}",
        {},
    ),
    "glu, swish": (
        f"learn_pos -> {post_norm(1, ffl='ffl(v=glu)')}",
        f"pos -> {post_norm(1, BOTH, 'ffl(v=swish)')}",
        {},
    ),
    "rms_norm": (
        f"pos -> {pre_norm(2)}".replace("res_nd(", "res(rms_norm -> ").replace(
            "-> norm", "-> rms_norm"
        ),
        f"pos -> {post_norm(2, BOTH)}".replace("-> norm", "-> rms_norm"),
        {},
    ),
}
SENTENCES = 100


def sentences(number=SENTENCES):
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 12, (number,), generator=generator).tolist()
    words = (torch.randint(4, len(SYMBOLS), (n,), generator=generator) for n in lengths)
    return [torch.cat([each, torch.tensor([EOS])]) for each in words]


def transformer(name):
    network, checkpoint = model_and_checkpoint(*{**MODELS, **MORE}[name])
    network = network.float()
    with torch.no_grad():
        # Distributions that are not even, and translations that end.
        network.decoder.output.bias.normal_(std=2.0, generator=torch.Generator().manual_seed(5))
        network.decoder.output.bias[EOS] = 1.0
    return network, checkpoint


def engine_of(network, checkpoint, **options):
    return CTranslate2Engine(network, checkpoint, (SYMBOLS, SYMBOLS), EnsembleOptions(**options))


def ours(network, source, options):
    """What the beam search finds, for each sentence."""
    order = sorted(range(len(source)), key=lambda i: -len(source[i]))
    batch = padded_before([source[i] for i in order], PAD)
    found = beam_search([NetworkModel(network)], batch, SYMBOLS, options)
    return [found[order.index(i)] for i in range(len(source))]


def plain(hypotheses):
    return [one.tokens.tolist() for one in hypotheses]


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_the_translations_and_scores_of_the_beam_search(name):
    network, checkpoint = transformer(name)
    engine, source = engine_of(network, checkpoint), sentences()
    for options in (EnsembleOptions(beam=1, max_len_b=30), EnsembleOptions(beam=4, max_len_b=30)):
        expected = ours(network, source, options)
        found = engine.search(source, options)
        same = [plain(mine)[0] == plain(theirs)[0] for mine, theirs in zip(found, expected)]
        assert sum(same) >= 0.99 * len(source)
        for mine, theirs, is_same in zip(found, expected, same):
            if is_same:
                assert mine[0].score == pytest.approx(theirs[0].score, abs=1e-4)
                assert mine[0].is_cut_off == theirs[0].is_cut_off
