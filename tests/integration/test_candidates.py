"""Candidate vocabularies in training and in every kind of search."""

import re

import pytest
from fairseq import __version__ as fairseq_version

from convs2s.common.errors import UserError
from tests.conftest import WORDS
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    alignments,
    fairseq,
    generate,
    hypotheses,
    refused,
    run,
    train,
    train_arguments,
    validation_losses,
)


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory):
    """A lexicon of all words of the corpus, with one wrong entry."""
    path = tmp_path_factory.mktemp("lexicon") / "lexicon.de-en"
    lines = [f"{word} {word}-th 0.9\n" for word in WORDS]
    path.write_text(f"eins zwei-th 0.1\n{''.join(lines)}", encoding="utf-8")
    return path


SEARCHES = {
    "beam": ("--beam", "4"),
    "nbest": ("--beam", "4", "--nbest", "3"),
    "prefix": ("--beam", "3", "--prefix-size", "2"),
    "alignment": ("--beam", "3", "--print-alignment", "hard"),
    "diverse": ("--beam", "4", "--diverse-beam-groups", "2"),
    "no bigram twice": ("--beam", "4", "--no-repeat-ngram-size", "2"),
    "sampling": ("--beam", "2", "--sampling", "--sampling-topk", "5", "--seed", "5"),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_the_whole_vocabulary_as_candidates_changes_nothing(search, corpus, trained, lexicon):
    arguments = (corpus, trained / "checkpoint_last.pt", *TASK, *SEARCHES[search])
    everything = ("--lexicon", lexicon, "--frequent-candidates", "1000")
    assert generate(*arguments, *everything) == generate(*arguments)


def test_an_ensemble_among_candidates(corpus, trained, lexicon):
    paths = ":".join(str(path) for path in sorted(trained.glob("checkpoint?*[0-9].pt"))[-2:])
    arguments = (corpus, paths, *TASK, "--beam", "3")
    everything = ("--lexicon", lexicon, "--frequent-candidates", "1000")
    assert generate(*arguments, *everything) == generate(*arguments)


@pytest.mark.parametrize("search", ["beam", "nbest", "prefix", "alignment", "sampling"])
def test_only_candidates_are_found(search, corpus, trained, lexicon):
    """If a batch holds one sentence, its hypotheses hold translations of its words only."""
    printed = generate(
        *(corpus, trained / "checkpoint_last.pt", *TASK, *SEARCHES[search]),
        *("--lexicon", lexicon, "--candidates-per-word", "1", "--frequent-candidates", "0"),
        *("--batch-size", "1", "--max-len-b", "20", "--unkpen", "100"),
    )
    sources = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    references = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    found = hypotheses(printed)
    assert sorted(found) == list(range(24))
    beam = 4 if search in ("beam", "nbest") else 3
    for i, best in found.items():
        allowed = {f"{word}-th" for word in sources[i].split()}
        if len(allowed) + 4 < 2 * beam + 1:
            continue  # A beam needs more candidates: the most frequent tokens are added.
        for _, words in best:
            assert set(words.split()) <= allowed
        if search == "prefix":
            assert best[0][1].split()[:2] == references[i].split()[:2]
    if search == "alignment":
        assert sorted(alignments(printed)) == sorted(found)


def test_interactive_among_candidates_reports_their_number(corpus, trained, lexicon):
    printed = fairseq(
        "interactive",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        trained / "checkpoint_last.pt",
        "--cpu",
        *TASK,
        "--beam",
        "2",
        "--lexicon",
        lexicon,
        "--candidates-per-word",
        "1",
        "--frequent-candidates",
        "0",
        text="eins zwei drei vier fünf\n",
    )
    # Four special symbols and five translations; no token of another sentence.
    assert "candidate vocabularies: 9 of 16 tokens on average" in printed
    words = {"eins-th", "zwei-th", "drei-th", "vier-th", "fünf-th"}
    assert set(hypotheses(printed)[0][0][1].split()) <= words


def test_training_on_candidates(corpus, tmp_path, lexicon):
    log = train(
        *(corpus, tmp_path, *TASK, *CRITERION, "--max-epoch", "2", "--lexicon", lexicon),
        *("--frequent-candidates", "0", "--batch-size", "2"),
    )
    sizes = [float(size) for size in re.findall(r"\| candidates ([\d.]+)", log)]
    assert sizes and all(5 < size < 16 for size in sizes)
    losses = validation_losses(log)
    assert losses[-1] < losses[0]


def test_training_on_the_whole_vocabulary_is_training_without_candidates(corpus, tmp_path, lexicon):
    common = (*TASK, *CRITERION, "--max-epoch", "2")
    plain = train(corpus, tmp_path / "plain", *common)
    everything = ("--lexicon", lexicon, "--frequent-candidates", "1000")
    ours = train(corpus, tmp_path / "ours", *common, *everything)
    find = re.compile(r"valid on .*? \| loss ([\d.]+)")
    assert find.findall(ours) == find.findall(plain) and len(find.findall(ours)) == 2


def test_fairseqs_transformer_among_candidates(corpus, tmp_path, lexicon):
    sizes = ("--encoder-embed-dim", "32", "--decoder-embed-dim", "32")
    more = ("--encoder-ffn-embed-dim", "32", "--encoder-layers", "1", "--decoder-layers", "1")
    train(
        corpus,
        tmp_path,
        *TASK,
        *CRITERION,
        "--max-epoch",
        "4",
        "--lexicon",
        lexicon,
        options=(
            "--arch",
            "transformer_iwslt_de_en",
            *sizes,
            *more,
            "--optimizer",
            "adam",
            "--lr",
            "0.01",
            "--max-tokens",
            "400",
        ),
    )
    if fairseq_version == "0.12.2":
        pytest.skip('its transformer stops with "Mask Type should be defined" under torch >= 2')
    plain = (corpus, tmp_path / "checkpoint_last.pt", "--beam", "3", "--nbest", "3")
    assert generate(*plain, *TASK) == generate(*plain)
    arguments = (corpus, tmp_path / "checkpoint_last.pt", *TASK, "--beam", "3")
    everything = ("--lexicon", lexicon, "--frequent-candidates", "1000")
    printed, among = (
        generate(*arguments, "--print-alignment", "hard", *more) for more in ((), everything)
    )
    assert alignments(among) == alignments(printed) and sorted(alignments(printed)) == list(
        range(24)
    )
    found = hypotheses(among)
    for i, ((score, words), *_) in hypotheses(printed).items():
        assert found[i][0] == (pytest.approx(score, abs=1e-5), words)
    few = ("--lexicon", lexicon, "--candidates-per-word", "1", "--frequent-candidates", "0")
    assert sorted(hypotheses(generate(*arguments, *few))) == list(range(24))


def test_a_criterion_without_candidates_is_refused(corpus, tmp_path, lexicon):
    done = run("train", *train_arguments(corpus, tmp_path, *TASK, "--lexicon", lexicon))
    assert (
        "only --criterion convs2s_cross_entropy and convs2s_sequence_risk train on candidates"
        in refused(done)
    )


def generation_is_refused(corpus, trained, *arguments):
    with pytest.raises(UserError) as error:
        generate(corpus, trained / "checkpoint_last.pt", *TASK, *arguments)
    return str(error.value)


def test_score_reference_and_missing_lexicons_are_refused(corpus, trained, lexicon, tmp_path):
    given = ("--lexicon", lexicon)
    message = generation_is_refused(corpus, trained, *given, "--score-reference")
    assert "--score-reference needs the whole vocabulary" in message
    message = generation_is_refused(corpus, trained, "--lexicon", tmp_path / "missing")
    assert "missing" in message
    message = generation_is_refused(corpus, trained, "--candidates-per-word", "0")
    assert "--candidates-per-word is 0, but only a lexicon has candidates" in message


def test_a_lexicon_of_other_languages_is_refused(corpus, trained, tmp_path):
    path = tmp_path / "lexicon"
    path.write_text("one eins 0.5\ntwo zwei 0.5\n", encoding="utf-8")
    message = generation_is_refused(corpus, trained, "--lexicon", path)
    assert "None of the 2 entries" in message and "'one'" in message


def test_an_error_names_the_line_of_the_lexicon(corpus, trained, tmp_path):
    path = tmp_path / "lexicon"
    path.write_text("eins eins-th 0.5\nzwei zwei-th\n", encoding="utf-8")
    message = generation_is_refused(corpus, trained, "--lexicon", path)
    assert f"{path}, line 2" in message and "source target probability" in message
