"""``convs2s export-transformer``: fairseq and CTranslate2 translate as the model does."""

import math

import pytest

from convs2s.cli import main as convs2s
from tests.support.commands import CRITERION, TASK, fairseq, generate, hypotheses, train
from tests.support.translation import FIXTURES

ENCODER = "pos -> res_nd(mh_dot_self_att) -> res_nd(ffl) -> norm"
DECODER = "pos -> res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl) -> norm"
TRAINING = (
    *("--arch", "adl", "--encoder-adl", ENCODER, "--decoder-adl", DECODER, "--max-epoch", "6"),
    *("--model-dim", "32", "--attention-heads", "4", "--share-input-output-embed"),
    *("--optimizer", "adam", "--lr", "0.005", "--clip-norm", "1.0", "--max-tokens", "400"),
    *(*TASK, *CRITERION, "--label-smoothing", "0.1"),
)


@pytest.fixture(scope="module")
def checkpoint(corpus, tmp_path_factory):
    """A model in ADL that translates the corpus."""
    folder = tmp_path_factory.mktemp("adl")
    train(corpus, folder, options=TRAINING)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def exported(checkpoint, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "transformer.pt"
    assert convs2s(["export-transformer", str(checkpoint), str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def expected(corpus, checkpoint):
    """The three best translations of each sentence and their scores, by the original model."""
    return hypotheses(generate(corpus, checkpoint, *TASK, "--beam", 4, "--nbest", 3))


def test_fairseq_translates_alike_without_the_package(corpus, exported, expected):
    printed = fairseq(
        "generate",
        corpus / "bin",
        "--path",
        exported,
        "--cpu",
        "--num-workers",
        "0",
        "--beam",
        "4",
        "--nbest",
        "3",
    )
    actual = hypotheses(printed)
    assert actual.keys() == expected.keys()
    for number, best in expected.items():
        assert [words for _, words in actual[number]] == [words for _, words in best]
        for (their_score, _), (our_score, _) in zip(actual[number], best):
            assert their_score == pytest.approx(our_score, abs=2e-4)


def test_ctranslate2_translates_alike(corpus, checkpoint, exported, expected, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")
    folder = str(tmp_path / "ctranslate2")
    converter = ctranslate2.converters.FairseqConverter(str(exported), str(corpus / "bin"))
    converter.convert(folder)
    translator = ctranslate2.Translator(folder, device="cpu", inter_threads=1, intra_threads=1)
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    sources = [line.split() for line in lines]
    # By default, CTranslate2 leaves the end of the sentence out of the first softmax.
    greedy = translator.translate_batch(sources, beam_size=1, min_decoding_length=0)
    best = hypotheses(generate(corpus, checkpoint, *TASK, "--beam", 1))
    for number, result in enumerate(greedy):
        assert " ".join(result.hypotheses[0]) == best[number][0][1]
    pairs = [(number, *found) for number, nbest in expected.items() for found in nbest]
    targets = [words.split() for _, _, words in pairs]
    scores = translator.score_batch([sources[number] for number, _, _ in pairs], targets)
    for (_, score, _), theirs in zip(pairs, scores):
        # fairseq prints scores to the base of 2.
        mean = sum(theirs.log_probs) / len(theirs.log_probs)
        assert mean / math.log(2) == pytest.approx(score, abs=2e-4)


def test_refusals_leave_no_file(tmp_path, capsys):
    output = tmp_path / "transformer.pt"
    for path, message in (
        (FIXTURES / "convs2s.pt", "has a model of --arch convs2s_iwslt_de_en, but only"),
        (FIXTURES / "adl.pt", "line 1, column 21: 'cnn' is in the way of the export"),
        (tmp_path / "missing.pt", "There is no file"),
    ):
        assert convs2s(["export-transformer", str(path), str(output)]) == 2
        captured = capsys.readouterr()
        assert message in captured.err and "Traceback" not in captured.err
    assert convs2s(["export-transformer", str(FIXTURES / "adl.pt"), str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
