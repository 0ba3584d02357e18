"""CTranslate2 finds the translations and the scores of the beam search, for every transformer."""

import multiprocessing

import pytest
import torch

from convs2s.checkpoints.networks import Checkpoint
from convs2s.common.errors import UserError
from convs2s.translation import ctranslate2_engine
from convs2s.translation.ctranslate2_engine import (
    CTranslate2Engine,
    check_setting,
    may_saturate,
)
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.ensemble import padded_before
from convs2s.translation.options import EnsembleOptions
from convs2s.translation.search import beam_search
from tests.support.batches import EOS, PAD, SYMBOLS
from tests.support.transformers import (
    BOTH,
    MODELS,
    like_trained_,
    model_and_checkpoint,
    post_norm,
    pre_norm,
)

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
    like_trained_(network.float())
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


def check_same(found, expected):
    """Compare the hypotheses of all sentences whose translations are not cut off."""
    compared = 0
    for mine, theirs in zip(found, expected, strict=True):
        if any(one.is_cut_off for one in (*mine, *theirs)):
            continue
        compared += 1
        assert plain(mine)[0] == plain(theirs)[0]
        assert mine[0].score == pytest.approx(theirs[0].score, abs=1e-4)
    assert compared > 20


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_the_translations_and_scores_of_the_beam_search(name, beam):
    network, checkpoint = transformer(name)
    engine, source = engine_of(network, checkpoint), sentences()
    options = EnsembleOptions(beam=beam, max_len_b=40)
    check_same(engine.search(source, options), ours(network, source, options))


@pytest.mark.parametrize(
    "options",
    [{"lenpen": 0.0}, {"lenpen": 2.0}, {"unnormalized": True}, {"max_len_a": 2.0, "max_len_b": 9}],
    ids=str,
)
def test_options_of_the_search(options):
    network, checkpoint = transformer("post-norm")
    engine, source = engine_of(network, checkpoint), sentences()
    given = EnsembleOptions(**{"beam": 3, "max_len_b": 40, **options})
    check_same(engine.search(source, given), ours(network, source, given))


def test_the_smallest_length():
    network, checkpoint = transformer("post-norm")
    engine, source = engine_of(network, checkpoint), sentences()
    options = EnsembleOptions(beam=3, max_len_b=40, min_len=4)
    same = 0
    # CTranslate2 compares probabilities from which that of the end is missing, but scores have it.
    for mine, theirs in zip(engine.search(source, options), ours(network, source, options)):
        scores = {tuple(one.tokens.tolist()): one.score for one in theirs}
        assert all(len(one.tokens) > 4 for one in mine)
        for one in mine:
            if (expected := scores.get(tuple(one.tokens.tolist()))) is not None:
                same += 1
                assert one.score == pytest.approx(expected, abs=1e-4)
    assert same > 200


def test_a_translation_that_is_cut_off_is_scored_with_its_end():
    network, checkpoint = transformer("pre-norm")
    engine, source = engine_of(network, checkpoint), sentences(20)
    options = EnsembleOptions(beam=1, max_len_b=2)
    found, expected = engine.search(source, options), ours(network, source, options)
    assert any(mine[0].is_cut_off for mine in found)
    for (mine, *_), (theirs, *_) in zip(found, expected, strict=True):
        assert (mine.tokens.tolist(), mine.is_cut_off) == (
            theirs.tokens.tolist(),
            theirs.is_cut_off,
        )
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)


@pytest.mark.skipif(may_saturate(), reason="needs a CPU with VNNI or AMX")
def test_int8():
    network, checkpoint = transformer("pre-norm, tied")
    source, options = sentences(), EnsembleOptions(beam=2, max_len_b=40)
    expected = [each[0].score for each in ours(network, source, options)]
    engine = engine_of(network, checkpoint, int8=True)
    sizes = [len(e._files["model.bin"]) for e in (engine, engine_of(network, checkpoint))]
    assert sizes[0] < 0.6 * sizes[1]
    # The network stays as it is.
    assert [each[0].score for each in ours(network, source, options)] == expected
    found = [each[0].score for each in engine.search(source, options)]
    differences = (torch.tensor(found) - torch.tensor(expected)).abs()
    assert 0 < differences.median() < 0.1
    # Quantized rows have the largest number of 8 bits already.
    network.quantize_()
    again = engine_of(network, checkpoint).search(source, options)
    assert [each[0].score for each in again] == pytest.approx(found, abs=1e-3)


@pytest.mark.parametrize("is_quantized", [False, True])
def test_int8_on_a_cpu_that_would_saturate(is_quantized, monkeypatch, caplog):
    network, checkpoint = transformer("pre-norm, tied")
    if is_quantized:
        network.quantize_()
    source, options = sentences(10), EnsembleOptions(beam=2, max_len_b=40)
    monkeypatch.setattr(ctranslate2_engine, "may_saturate", lambda: True)
    engine = engine_of(network, checkpoint, int8=not is_quantized)
    warning = "torch finds neither VNNI nor AMX in this CPU: the model computes in single precision"
    assert (warning in caplog.text) != is_quantized
    expected = [each[0].score for each in ours(network, source, options)]
    found = [each[0].score for each in engine.search(source, options)]
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_precision_that_the_cpu_lacks(monkeypatch, caplog):
    network, checkpoint = transformer("pre-norm, tied")
    types = {"float32"}
    monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda device: types)
    engine = engine_of(network, checkpoint, autocast_dtype="bfloat16")
    assert "CTranslate2 has no bfloat16 for this CPU: the model computes in" in caplog.text
    assert len(engine.search(sentences(2), EnsembleOptions())) == 2
    with pytest.raises(UserError, match="8 bits exclude half precision: omit --autocast-dtype"):
        engine_of(network, checkpoint, autocast_dtype="bfloat16", int8=True)


def test_a_fork_has_a_translator_of_its_own():
    network, checkpoint = transformer("pre-norm")
    engine, source = engine_of(network, checkpoint), sentences(5)
    options = EnsembleOptions(beam=2, max_len_b=9)
    expected = [plain(each) for each in engine.search(source, options)]
    context = multiprocessing.get_context("fork")
    ours_, theirs = context.Pipe()

    def work():
        theirs.send([plain(each) for each in engine.search(source, options)])

    process = context.Process(target=work)
    process.start()
    assert ours_.poll(60) and ours_.recv() == expected
    process.join()


REFUSED = {
    "another layer": (
        MODELS["pre-norm"][0].replace("mh_dot_self_att", "birnn"),
        "--encoder-adl, line 1, column 25: 'birnn' is in the way of --engine ctranslate2: "
        "CTranslate2's transformer has 'mh_dot_self_att' in its place",
    ),
    "two norms": (
        f"pos -> res(rms_norm -> mh_dot_self_att) -> {pre_norm(1)}",
        "'norm' is in the way of --engine ctranslate2: CTranslate2's transformer has 'rms_norm'",
    ),
    "no last norm": (
        MODELS["pre-norm"][0].removesuffix(" -> norm"),
        "after 'res', --engine ctranslate2 needs 'norm', which CTranslate2's transformer has there",
    ),
    "a window": (
        MODELS["pre-norm"][0].replace("self_att", "self_att(window=3)"),
        "'mh_dot_self_att' has window=3, which is not exported to CTranslate2's transformer",
    ),
    "no activation": (
        MODELS["pre-norm"][0].replace("ffl", "ffl(v=softplus)"),
        "CTranslate2's transformer has no non-linearity softplus: it has relu, gelu, swish, tanh",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_layer_in_the_way(name):
    encoder, message = REFUSED[name]
    network, checkpoint = model_and_checkpoint(encoder, *MODELS["pre-norm"][1:])
    with pytest.raises(UserError) as error:
        engine_of(network.float(), checkpoint)
    assert message in str(error.value)


def test_other_refusals():
    network, checkpoint = transformer("pre-norm")
    with pytest.raises(UserError, match="the device is cuda:0: give --device cpu, or omit"):
        check_setting(["model.pt"], torch.device("cuda:0"))
    with pytest.raises(UserError, match="x.pt has a model of --arch convs2s_iwslt_de_en, but"):
        engine_of(network, Checkpoint("x.pt", {}, {"_name": "convs2s_iwslt_de_en"}, {}))
    engine = engine_of(network, checkpoint)
    with pytest.raises(UserError, match="A sequence has 80 tokens, but at most 64 are allowed"):
        engine.search([torch.full((80,), 5)], EnsembleOptions())
    with pytest.raises(UserError, match="--min-len is 70, but translations have at most 63"):
        engine.search(sentences(1), EnsembleOptions(min_len=70))
    torch.nn.init.constant_(network.decoder.output.bias, torch.nan)
    with pytest.raises(UserError, match="has weights that are infinite or not a number"):
        engine_of(network, checkpoint)
