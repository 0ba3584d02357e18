"""The lines that the command writes, and the options of a search."""

import pytest

from convs2s.common.errors import UserError
from convs2s.translation.buffers import translate_in_buffers
from convs2s.translation.options import EnsembleOptions
from convs2s.translation.results import (
    alignment_lines,
    cut_off_remark,
    is_reported,
    output_lines,
    report_line,
)
from tests.unit.translation.made_up import Reversal, Words


def translations(*lines, **options):
    search = Reversal(**options)
    return list(translate_in_buffers(lines, 10, Words(), search, search.do))


def test_output():
    found, empty = translations("a b", "")
    assert list(output_lines(found, 7)) == ["b/0 a/0\n"]
    assert list(output_lines(found, 7, scores=True)) == ["-2.0000\tb/0 a/0\n"]
    assert list(output_lines(found, 7, nbest=True, scores=True)) == [
        "7\t-2.0000\tb/0 a/0\n",
        "7\t-3.0000\tb/1 a/1\n",
    ]
    assert list(output_lines(empty, 8)) == ["\n"]
    assert list(output_lines(empty, 8, nbest=True)) == ["8\t0.0000\t\n"]
    assert list(alignment_lines(found)) == ["1-0 0-1\n"]
    assert list(alignment_lines(found, nbest=True)) == ["1-0 0-1\n"] * 2
    assert list(alignment_lines(empty)) == ["\n"]


def test_report():
    short, long = translations("a", "a b c", limit=2)
    assert not is_reported(short) and is_reported(long)
    assert report_line(long, 2) == "2\t3\t2\tlonger than the model allows: split\n"


def test_the_limit_that_cuts_translations_off_is_named():
    assert "give a larger --max-len-b than 200." in cut_off_remark(2, 200)
    assert "give a larger --max-len-b than 200." in cut_off_remark(2, 200, "", 1023)
    assert "allows no more than 19 tokens, so split long lines." in cut_off_remark(2, 200, "", 19)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(beam=0), "--beam is 0"),
        (dict(beam=2, nbest=3), "--nbest is 3, but .* --beam 2"),
        (dict(max_tokens=0), "--max-tokens is 0"),
        (dict(batch_size=0), "--batch-size is 0"),
        (
            dict(autocast_dtype="bf16"),
            "--autocast-dtype is bf16, but must be none, bfloat16 or float16",
        ),
        (dict(candidates_per_word=-1), "--candidates-per-word is -1, but .*give --lexicon"),
        (dict(frequent_candidates=0), "--frequent-candidates is 0, but .*give --lexicon"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(UserError, match=message):
        EnsembleOptions(**options).check()


def test_score():
    for options, score in ((dict(lenpen=2.0), -1.0), (dict(unnormalized=True), -9.0)):
        assert EnsembleOptions(**options).score(-9.0, 3) == score
        assert EnsembleOptions(**options).log_prob(score, 3) == -9.0
