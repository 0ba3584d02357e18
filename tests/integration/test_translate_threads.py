"""Threads share a ``Translator``, each with options of its own."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from convs2s.translation import Translator
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


def test_other_options_are_independent():
    translator = Translator(FIXTURES / "convs2s.pt", data=DATA, device="cpu")
    expected = translator.translate(LINES)
    aligned = translator.with_options(alignment=True, nbest=2)
    assert aligned.translate(LINES)[0].hypotheses[1].alignment is not None
    assert translator.translate(LINES) == expected
    assert expected[0].hypotheses[0].alignment is None and len(expected[0].hypotheses) == 1
