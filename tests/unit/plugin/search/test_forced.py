"""Scores and alignments of given translations, against fairseq's scorer."""

import math

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble
from fairseq.sequence_scorer import SequenceScorer

from convs2s.translation import Translator
from convs2s.translation.forced import score_pairs
from convs2s_plugin.search.decoding import search_model
from convs2s_plugin.search.word_alignment import ReferenceScorer
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.families import MODELS
from tests.support.search import SYMBOLS, TRANSFORMER, batch, build
from tests.support.translation import DATA, FIXTURES, LINES


def previous_tokens(target):
    previous = target.roll(1, dims=1)
    previous[:, 0] = SYMBOLS.eos()
    return previous


@pytest.mark.parametrize("name", [*MODELS, TRANSFORMER, "fconv"])
@torch.no_grad()
def test_every_model(name):
    model, data = build(name).float(), batch()
    source, target = data["net_input"]["src_tokens"], data["target"]
    expected = ReferenceScorer(SYMBOLS, "hard").generate([model], data)
    searched = search_model(model)
    previous = data["net_input"]["prev_output_tokens"]
    forced = searched.score(searched.encode(source), previous, target, need_weights=True)
    for row, (same,) in enumerate(expected):
        length = len(same["tokens"])
        scores = forced.log_probs[row, :length]
        torch.testing.assert_close(scores, same["positional_scores"], atol=1e-6, rtol=0)
        attention = forced.attention[row, :length]
        torch.testing.assert_close(attention, same["attention"][:length])
    without = searched.score(searched.encode(source), previous, target)
    assert without.attention is None
    torch.testing.assert_close(without.log_probs, forced.log_probs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("names", [["convs2s"], ["pervasive"], ["convs2s", "adl", "pervasive"]])
def test_pairs(names):
    """Batches, alignments and ensembles; each pair comes back at its place."""
    paths = [FIXTURES / f"{name}.pt" for name in names]
    translator = Translator(paths, data=DATA, device="cpu", max_tokens=40, max_len_b=15)
    ensemble = translator.ensemble
    pairs = [(line, one.text) for line, one in zip(LINES, translator.translate(LINES))]
    found = score_pairs(ensemble, pairs, align=True)
    assert [pair.score for pair in score_pairs(ensemble, pairs)] == pytest.approx(
        [pair.score for pair in found], abs=1e-5
    )
    cfg = ConvS2STranslationConfig(data=str(DATA), source_lang="de", target_lang="en")
    task = ConvS2STranslationTask.setup_task(cfg)
    models, _ = load_model_ensemble([str(path) for path in paths], task=task)
    source, target = task.source_dictionary, task.target_dictionary
    scorer = SequenceScorer(target)
    aligner = ReferenceScorer(target, "hard")
    for (words, translation), pair in zip(pairs, found):
        tokens = target.encode_line(translation, add_if_not_exist=False).long().unsqueeze(0)
        src_tokens = source.encode_line(words, add_if_not_exist=False).long().unsqueeze(0)
        net_input = {
            "src_tokens": src_tokens,
            "src_lengths": torch.tensor([src_tokens.size(1)]),
            "prev_output_tokens": previous_tokens(tokens),
        }
        sample = {"net_input": net_input, "target": tokens}
        ((same,),) = scorer.generate(models, dict(sample))
        assert pair.score == pytest.approx(float(same["score"]) / math.log(2), abs=1e-6)
        of_tokens = (same["positional_scores"] / math.log(2)).tolist()
        assert pair.token_scores == pytest.approx(of_tokens, abs=1e-5)
        if len({name == "pervasive" for name in names}) == 1:
            ((aligned,),) = aligner.generate(models, dict(sample))
            assert pair.alignment == [tuple(map(int, link)) for link in aligned["alignment"]]
