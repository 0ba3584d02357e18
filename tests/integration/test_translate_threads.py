"""Threads share a ``Translator``, each with options of its own, and a model of the hub."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import pytest
import torch

from convs2s.models.adl.layers.positions import SinusoidalPositionsLayer, sinusoids
from convs2s.nn.int8 import is_supported
from convs2s.text import subwords
from convs2s.translation import Translator
from tests.support.families import make
from tests.support.translation import DATA, FIXTURES, LINES, MODELS, text_file

THREADS = 8
OPTIONS = [
    dict(),
    dict(alignment=True),
    dict(nbest=3),
    dict(beam=1),
    dict(beam=4, alignment=True, nbest=2),
    dict(lenpen=0.4, beam=3),
    dict(unnormalized=True, max_len_b=7, batch_size=2),
    dict(min_len=6, nbest=5, alignment=True),
]
ENSEMBLE = ("convs2s", "pervasive", "adl_recurrent")
TARGETS = [" ".join(f"{word}-th" for word in reversed(line.split())) for line in LINES]
PRECISIONS = {"single": {}, "half": {"autocast_dtype": "bfloat16"}, "int8": {"int8": True}}
needs_int8 = pytest.mark.skipif(not is_supported(), reason="needs a CPU with VNNI or AMX")
MODELS_AND_PRECISIONS = pytest.mark.parametrize(
    ("names", "precision"),
    [
        (ENSEMBLE, "single"),
        (("convs2s",), "half"),
        (("adl_recurrent",), "half"),
        pytest.param(("pervasive",), "int8", marks=needs_int8),
        pytest.param(("convs2s", "adl_recurrent"), "int8", marks=needs_int8),
    ],
)


@pytest.fixture(autouse=True)
def threads_take_turns():
    """Threads are interrupted as often as possible, so that none finishes alone."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(functions):
    """The results of functions, each called in a thread of its own."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(each) for each in functions]]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("restricted", [False, True])
def test_eight_threads_share_a_translator(name, restricted, tmp_path):
    given = {}
    if restricted:
        pairs = [f"{word} {word}-th 0.9" for word in "eins zwei drei vier acht zehn".split()]
        given = dict(lexicon=str(text_file(tmp_path, pairs, "lexicon")), frequent_candidates=3)
        given["replace_unk"] = ""
    translator = Translator(FIXTURES / f"{name}.pt", data=DATA, device="cpu", **given)
    lines = [*LINES, "foo acht bar zehn"]
    rotated = [lines[i:] + lines[:i] for i in range(THREADS)]
    changed = [translator.with_options(**options) for options in OPTIONS]
    expected = [one.translate(text) for one, text in zip(changed, rotated)]
    assert len({str(found) for found in expected}) == THREADS

    def work(number):
        # Some make their options while others translate.
        one = translator.with_options(**OPTIONS[number]) if number % 2 else changed[number]
        return [one.translate(rotated[number]) for _ in range(3)]

    found = together([lambda number=number: work(number) for number in range(THREADS)])
    assert found == [[same] * 3 for same in expected]
    assert translator.translate(lines) == changed[0].translate(lines)


def methods(translator):
    """What threads call at the same time, of a ``Translator`` or a model of the hub."""
    return {
        "score": lambda: translator.score(LINES, TARGETS),
        "attention": lambda: arrays(translator.attention(LINES[0])),
        "attention to a target": lambda: arrays(translator.attention(LINES[0], TARGETS[0])),
    }


def arrays(attention):
    return {name: weights.tolist() for name, weights in attention.arrays.items()}


def share(functions, times=2):
    """Call functions by name, alone and then in eight threads, and compare what they return."""
    expected = {name: function() for name, function in functions.items()}
    names = list(islice(cycle(functions), max(THREADS, times * len(functions))))
    with ThreadPoolExecutor(THREADS) as pool:
        found = [pool.submit(functions[name]) for name in names]
        for name, future in zip(names, found):
            assert future.result() == expected[name], name


@MODELS_AND_PRECISIONS
def test_all_methods_of_a_translator(names, precision):
    paths = [FIXTURES / f"{name}.pt" for name in names]
    translator = Translator(paths, data=DATA, device="cpu", **PRECISIONS[precision])
    aligned = translator.with_options(nbest=3, alignment=True)
    translate = {
        "translate": lambda: translator.translate(LINES),
        "candidates": lambda: aligned.translate(LINES),
        "stream": lambda: list(translator.stream(iter(LINES))),
    }
    share({**translate, **methods(translator)})


@MODELS_AND_PRECISIONS
def test_all_methods_of_a_model_of_the_hub(names, precision):
    """With the library's search and with searches of fairseq, whose state is in the generator."""
    pytest.importorskip("fairseq")
    from convs2s_plugin.hub import from_pretrained

    files = ":".join(f"{name}.pt" for name in names)
    hub = from_pretrained(FIXTURES, files, str(DATA), **PRECISIONS[precision])
    tokens = [hub.encode(line) for line in LINES]
    generate = {
        name: lambda options=options: hub.translate(LINES, beam=4, nbest=4, **options)
        for name, options in {
            "repetitions": dict(no_repeat_ngram_size=2),
            "diverse": dict(diverse_beam_groups=2, diverse_beam_strength=0.5),
        }.items()
    }
    translate = {
        "translate": lambda: hub.translate(LINES),
        "translations": lambda: hub.translations(LINES, beam=3, nbest=2, alignment=True),
        "sample": lambda: hub.sample(LINES),
        "generate": lambda: str(hub.generate(tokens, beam=3, print_alignment="hard")),
    }
    share({**translate, **generate, **methods(hub)}, times=1)


def test_threads_load_models():
    """The library's and fairseq's, whose options hydra reads."""
    pytest.importorskip("fairseq")
    from convs2s_plugin.hub import from_pretrained

    def load(name, from_hub):
        if from_hub:
            return from_pretrained(FIXTURES, f"{name}.pt", str(DATA)).translations(LINES)
        return Translator(FIXTURES / f"{name}.pt", data=DATA, device="cpu").translate(LINES)

    kinds = [(name, from_hub) for name in ENSEMBLE for from_hub in (False, True)]
    share({str(kind): lambda kind=kind: load(*kind) for kind in kinds}, times=1)


def test_workers_of_several_threads():
    """Each translation starts processes of its own; none keeps those of another from ending."""
    translator = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu", workers=2)
    share({"translate": lambda: translator.translate(LINES)}, times=8)
    # One thread may do so, too.
    for first, second in zip(translator.stream(LINES), translator.stream(LINES), strict=True):
        assert first == second


def test_another_thread_replaces_the_table_of_positions():
    """By a smaller one, just before this one looks up its positions."""
    modules = make("adl-transformer").modules()
    layer = next(each for each in modules if isinstance(each, SinusoidalPositionsLayer))
    channels = layer.table.size(1)

    class Context:
        longest = 300

        @property
        def positions(self):
            layer.table = sinusoids(10, channels)
            return torch.arange(300)

    x = torch.zeros(1, 300, channels)
    expected = layer.position_scale * sinusoids(300, channels)
    assert torch.equal(layer(x, Context())[0], expected)


def test_sub_words_are_forgotten_while_another_thread_looks_one_up(tmp_path, monkeypatch):
    monkeypatch.setattr(subwords, "CACHED_WORDS", 1)
    codes = text_file(tmp_path, ["#version: 0.2", "a b", "b a</w>"], "codes")
    method = subwords.SubwordNmt(codes)

    class Interrupted(dict):
        def __contains__(self, word):
            found = super().__contains__(word)
            if found:
                method.encode("another")
            return found

    expected = method.encode("abab bab")
    method._bpe.cache = Interrupted(method._bpe.cache)
    monkeypatch.setattr(subwords, "CACHED_WORDS", 2)
    assert method.encode("abab bab") == expected


def test_other_options_are_independent():
    translator = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu")
    expected = translator.translate(LINES)
    aligned = translator.with_options(alignment=True, nbest=2)
    assert aligned.translate(LINES)[0].hypotheses[1].alignment is not None
    assert translator.translate(LINES) == expected
    assert expected[0].hypotheses[0].alignment is None and len(expected[0].hypotheses) == 1
