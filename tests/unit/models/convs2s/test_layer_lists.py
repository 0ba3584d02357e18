"""The parser for lists of layers: results, errors and their positions."""

import pytest

from convs2s.common.errors import TextError, UserError
from convs2s.models.convs2s.layer_lists import ConvSpec, parse_attention, parse_layers

FCONV_NOTATION = [
    "[(512, 3)] * 20",
    "[(256, 3)] * 4",
    "[(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2",
    "[(512,3,1),(512,3,2), (768, 5, 0)]",
    "  [ ( 8 , 3 ) , ( 9 , 1 ) , ]\n + [(8, 3)]*2 ",
]


@pytest.mark.parametrize("text", FCONV_NOTATION)
def test_result_equals_the_evaluated_python_expression(text):
    expected = [ConvSpec(*layer) for layer in eval(text.strip().replace("\n", ""))]
    assert parse_layers(text) == expected


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("[(512, 3)", 10, "expected ',' or ']', found the end"),
        ("[(512 3)]", 7, "expected ','"),
        ("[(0, 3)]", 3, "the number of channels is 0"),
        ("[(-4, 3)]", 3, "the number of channels is -4"),
        ("[(16, 0)]", 7, "the kernel size is 0"),
        ("[(16, 3)] * 0", 13, "the number of repetitions is 0"),
        ("[(16, 3)] * 2000", 13, "the number of repetitions is 2000"),
        ("[(16, 3)] * 99999999999999999999", 13, "the number of repetitions"),
        ("[(16, 3)] * 999 + [(16, 3)] * 999", 19, "1998 layers are more than 1000"),
        ("[(99999999, 3)]", 3, "the number of channels is 99999999"),
        ("[(16, x)]", 7, "expected the kernel size, found 'x'"),
        ("[(16, 3.5)]", 7, "expected the kernel size, found '3.5'"),
        ("[(16, 3;5)]", 8, "found ';', which has no meaning here"),
        ("__import__('os')", 1, "expected '[', found '__import__'"),
        ("[]", 1, "at least one layer"),
        ("", 1, "expected '['"),
        ("[(16, 3)] [(16, 3)]", 11, "expected '+' or the end"),
    ],
)
def test_errors_show_the_position(text, column, message):
    with pytest.raises(TextError) as error:
        parse_layers(text, "--encoder-layers")
    assert (error.value.line, error.value.column) == (1, column)
    assert message in str(error.value) and str(error.value).startswith("--encoder-layers, line")
    caret = str(error.value).splitlines()[-1]
    assert caret == "  " + " " * (column - 1) + "^"


def test_position_in_a_later_line():
    with pytest.raises(TextError) as error:
        parse_layers("[(16, 3)] +\n  [(16, no)]")
    assert (error.value.line, error.value.column) == (2, 9)


def test_long_text_is_rejected_before_it_is_parsed():
    with pytest.raises(TextError, match="characters are more than"):
        parse_layers("[(1, 1)," * 10**6)


def test_residual_connection_from_before_the_first_layer():
    with pytest.raises(UserError, match="layer 2 skips 3 layers"):
        parse_layers("[(16, 3), (16, 3, 3)]")


def test_attention():
    assert parse_attention("True", 3) == [True] * 3
    assert parse_attention("[True] * 2 + [False]", 3) == [True, True, False]
    for text, message in [
        ("[True]", "1 flags, but the decoder has 3 layers"),
        ("False", "no decoder layer attends"),
        ("[False] * 3", "no decoder layer attends"),
        ("Yes", "expected '\\['"),
        ("True True", "expected the end"),
        ("[1]", "expected 'True' or 'False'"),
    ]:
        with pytest.raises(UserError, match=message):
            parse_attention(text, 3)
