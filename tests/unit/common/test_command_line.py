"""What argparse refuses, with the nearest name."""

import pytest

from convs2s.common.command_line import MOST_SHOWN, refusal

OPTIONS = ["--beam", "--bpe-codes", "-s"]


@pytest.mark.parametrize(
    "message, expected",
    [
        (
            "unrecognized arguments: --beem 3",
            "unrecognized arguments: --beem 3 (did you mean '--beam'?)",
        ),
        (
            "unrecognized arguments: --beem=3",
            "unrecognized arguments: --beem=3 (did you mean '--beam'?)",
        ),
        ("unrecognized arguments: words", "unrecognized arguments: words"),
        (
            "argument --metric: invalid choice: 'bleuu' (choose from 'bleu', 'chrf')",
            "argument --metric: there is no 'bleuu' (did you mean 'bleu'?)",
        ),
        # Python 3.12 has no quotes.
        (
            "argument a | b: invalid choice: 'x' (choose from a, b)",
            "argument a | b: there is no 'x'; allowed: a, b",
        ),
        ("argument --beam: expected one argument", "argument --beam: expected one argument"),
    ],
)
def test_refusals(message, expected):
    assert refusal(message, OPTIONS) == expected


def test_many_names_are_cut():
    names = [f"name{i}" for i in range(100)]
    shown = refusal(f"argument --x: invalid choice: '?' (choose from {', '.join(names)})", OPTIONS)
    assert shown.endswith(f"; allowed: {', '.join(names[:MOST_SHOWN])}")
