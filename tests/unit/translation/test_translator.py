"""Attention and scores of given translations in Python, and options that there are not."""

import numpy as np
import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.common.installation import missing_fairseq
from convs2s.translation import Translator
from tests.support.translation import DATA, FIXTURES, LINES, MODELS

FAMILIES = ("adl", "convs2s", "pervasive")
# A translation of each line: the source backwards, in other words.
TARGETS = [" ".join(f"{word}-th" for word in reversed(line.split())) for line in LINES]


def load(*names, **options):
    paths = [FIXTURES / f"{name}.pt" for name in names]
    return Translator(paths, data=DATA, device="cpu", **options)


@torch.no_grad()
def exact(translator, source, target):
    """The log-probabilities of target tokens in base 2, from a softmax in double precision."""
    source, target = (
        torch.tensor([vocabulary.encode_line(line)])
        for vocabulary, line in (
            (translator.ensemble.source, source),
            (translator.ensemble.target, target),
        )
    )
    previous = torch.cat([target[:, -1:], target[:, :-1]], dim=1)
    each = []
    for network in translator.ensemble.models:
        features, _ = network.decode(previous, network.encode(source))
        each.append(network.logits(features).double().softmax(dim=-1))
    mean = torch.stack(each).mean(dim=0)
    return mean.gather(2, target.unsqueeze(2)).flatten().log2().tolist()


@pytest.mark.parametrize("names", [(*FAMILIES,), *((name,) for name in FAMILIES)])
def test_scores_are_those_of_a_softmax_in_double_precision(names):
    translator = load(*names, max_tokens=60)
    found = translator.score(LINES, (f"{line}\n" for line in TARGETS))
    assert len(found) == len(LINES) > 3
    for pair, source, target in zip(found, LINES, TARGETS):
        expected = exact(translator, source, target)
        assert pair.tokens == [*target.split(), "</s>"]
        assert pair.token_scores == pytest.approx(expected, abs=1e-5)
        assert pair.log_prob == pytest.approx(sum(expected), abs=1e-4)
        assert pair.score == pytest.approx(pair.log_prob / len(expected), abs=1e-5)


def test_score_refuses_what_are_not_pairs():
    translator = load("convs2s")
    assert translator.score([], []) == []
    with pytest.raises(UserError, match="2 sources and 1 targets: each source needs one target"):
        translator.score(["eins", "zwei"], ["eins-th"])
    for given in (("eins", ["eins-th"]), (["eins"], "eins-th")):
        with pytest.raises(UserError, match="is one text, not a list of lines: give"):
            translator.score(*given)
    with pytest.raises(UserError, match="'eins zwei' is one text, not a list of lines"):
        translator.translate("eins zwei")
    with pytest.raises(UserError, match=r"pair 2 \(counted from 1\) has 31 x 2 tokens"):
        translator.score(["eins", "eins " * 30], ["eins-th"] * 2)


NO_LINES = [None, 3, b"eins", {"eins": 1}]
NO_TEXT = [None, 3, b"eins", ["eins"], [["eins"]]]


@pytest.mark.parametrize("given", [*NO_LINES, *([line] for line in NO_TEXT)])
def test_what_are_not_lines(given):
    """In each method, of the hub too."""
    translator = load("convs2s")
    said = "is not a list of lines" if given in NO_LINES else "is not text, but"
    calls = [
        lambda: translator.translate(given),
        lambda: list(translator.stream(given)),
        lambda: translator.score(given, ["eins-th"]),
        lambda: translator.score(["eins"], given),
    ]
    if missing_fairseq() is None:
        from convs2s_plugin.hub import from_pretrained

        hub = from_pretrained(FIXTURES / "convs2s.pt", data_name_or_path=str(DATA))
        calls += [lambda: hub.translate(given), lambda: hub.translations(given)]
        calls += [lambda: hub.translate(given, no_repeat_ngram_size=0)]
    for call in calls:
        with pytest.raises(UserError, match=said):
            call()
    lines = (line for line in ("eins", ""))
    assert len(translator.translate(lines)) == 2


@pytest.mark.parametrize("text", NO_TEXT)
def test_attention_of_what_is_not_text(text):
    translator = load("convs2s")
    calls = [(text, "eins-th"), (text,)] + [("eins", text)] * (text is not None)
    for given in calls:
        with pytest.raises(UserError, match="Attention is for one line"):
            translator.attention(*given)


@pytest.mark.parametrize("name", MODELS)
def test_attention_of_the_translation_or_of_a_target(name):
    translator = load(name)
    (best,) = translator.translate(LINES[:1])
    found = translator.attention(LINES[0])
    assert found.source == [*LINES[0].split(), "</s>"]
    assert found.target == [*best.hypotheses[0].tokens, "</s>"]
    other = translator.attention(LINES[0], TARGETS[0])
    assert other.target == [*TARGETS[0].split(), "</s>"]
    for attention in (found, other):
        mean = attention.arrays["source.mean"]
        assert mean.shape == (len(attention.target), len(attention.source))
        np.testing.assert_allclose(mean.sum(axis=1), 1.0, atol=1e-5)
        (maps,) = attention.maps
        assert len(attention.arrays) == sum(layer.weights.size(1) for layer in maps)
    # That of the alignment.
    aligned = translator.with_options(alignment=True).translate(LINES[:1])
    words = found.arrays["source.mean"][:-1, :-1]
    expected = [(source, target) for target, source in enumerate(words.argmax(axis=1))]
    assert aligned[0].hypotheses[0].alignment == expected


def test_attention_of_heads_and_ensembles():
    alone, both = load("adl").attention(LINES[0]), load("convs2s", "adl").attention(LINES[0], "x")
    several = [layer for layer in alone.maps[0] if layer.weights.size(1) > 1]
    for layer in several:
        for head in range(layer.weights.size(1)):
            weights = alone.arrays[f"{layer.name}.{head + 1}"]
            np.testing.assert_array_equal(weights, layer.weights[0, head].numpy())
    assert several
    second = {name[2:] for name in both.arrays if name.startswith("2:")}
    assert second == set(alone.arrays) and "source.mean" in both.arrays


def test_attention_refuses_text_that_has_none():
    translator = load("convs2s")
    with pytest.raises(UserError, match="no attention to an empty line"):
        translator.attention(" \n")
    with pytest.raises(UserError, match="A source sentence has 31 tokens"):
        translator.attention("eins " * 30)
    with pytest.raises(UserError, match="A target sentence has 31 tokens"):
        translator.attention("eins", "eins-th " * 30)


def test_plot(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
    backend, attention = pyplot.get_backend(), load("convs2s", "adl").attention(LINES[0])
    figure = attention.plot(tmp_path / "a.svg", layers="all", heads="all")
    assert "</s>" in {label.get_text() for label in figure.axes[0].get_yticklabels()}
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "model 2" in drawn and "source.1: mlp_src_att" in drawn
    # A notebook shows what is returned, and would show what is open, too.
    assert pyplot.get_backend() == backend and pyplot.get_fignums() == []
    with pytest.raises(UserError, match="must end in .png"):
        attention.plot("a.doc")
    with pytest.raises(UserError, match="There is no attention layer '17'"):
        attention.plot(layers="17")
    with pytest.warns(UserWarning, match="No font of this system has \U00100abc"):
        load("convs2s").attention("eins \U00100abc").plot()


UNKNOWN = {
    "beem": lambda: load("convs2s", beem=3),
    "prepration": lambda: load("convs2s", prepration="."),
    "lenpn": lambda: load("convs2s").with_options(lenpn=0.1),
}


@pytest.mark.parametrize("name", ["lenpen", "unkpen", "temperature"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(name, value):
    with pytest.raises(UserError, match=f"--{name} is {value}: it must be a finite number"):
        load("convs2s", **{name: value})


def test_languages_of_another_model_are_refused():
    with pytest.raises(UserError, match="--source-lang is en, but .*convs2s.pt translates from de"):
        load("convs2s", source_lang="en", target_lang="de")


@pytest.mark.parametrize("name, near", zip(UNKNOWN, ("beam", "preparation", "lenpen")))
def test_an_unknown_option_is_refused_with_the_nearest_name(name, near):
    with pytest.raises(
        UserError, match=rf"{name} is not an option of .* \(did you mean '{near}'\?\)"
    ):
        UNKNOWN[name]()
