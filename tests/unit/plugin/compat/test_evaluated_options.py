"""fairseq's options that it would evaluate are parsed: the same values, and no code."""

import ast
import importlib
import sys
from argparse import Namespace
from pathlib import Path

import fairseq
import pytest
from fairseq import utils
from fairseq.models.fconv import FConvModel, fconv_iwslt_de_en

import convs2s_plugin  # noqa: F401  (replaces eval in fairseq)
from convs2s.common.errors import TextError, UserError
from convs2s_plugin.compat.evaluated_options import MODULES, parse_value
from tests.support.adapters import translation_task

FCONV = "[(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2"


@pytest.mark.parametrize(
    "text",
    [FCONV, "[(512, 3, 1)]", "True", "None", "[True, False] * 3", "(0.9, 0.98)", " 3 ", "-1e-30"]
    + ["[-1, 2.5]", "'text'", "{'a': [1], 2: (3,)}", "()", "[]", "(1, 2) + (3,)", "[1] * 0"]
    + [
        "1,",
        "50,100",
        "1, (2, 3),",
        "(1)",
        "([1] + [2]) * 2",
        "[[1] * 2] * 3 + [[]]",
        "{}",
        ".5",
        "1.",
        '"it\'s"',
        "(1,\n 2)",
    ],
)
def test_the_value_is_that_of_eval(text):
    assert parse_value(text) == eval(text.strip())


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("__import__('os').system('echo hacked')", 17, "found '.', which has no meaning here"),
        ("__import__('os')", 1, "expected a number, text, list, tuple or dictionary"),
        ("[x for x in (1, 2)]", 2, "tuple or dictionary, found 'x'"),
        ("(lambda: 1)()", 2, "tuple or dictionary, found 'lambda'"),
        ("open('f', 'w')", 1, "tuple or dictionary, found 'open'"),
        ("2 ** 100", 3, "'*' must follow a list or a tuple"),
        ("[2] ** 100", 6, "expected the number of repetitions, found '*'"),
        ("'a' * 10", 5, "'*' must follow a list or a tuple"),
        ("1 + 2", 3, "'+' must follow a list or a tuple"),
        ("{**{}}", 2, "tuple or dictionary, found '*'"),
        ("f'{1}'", 1, "tuple or dictionary, found 'f'"),
        ("b'bytes'", 1, "tuple or dictionary, found 'b'"),
        ("-'a'", 1, "found '-', which has no meaning here"),
        ("[1] + (2,)", 7, "expected another list to add"),
        ("{[1]: 2}", 2, "key of a dictionary must be"),
        ("[1] * 10001", 7, "the number of repetitions is 10001"),
        ("[[1] * 9999] * 2 + [1] * 9999", 20, "10001 items are more than 10000"),
        ("[0]" + " + [0]" * 3000, 10001, "18003 characters are more than the 10000 allowed"),
        ("[" * 50 + "]" * 50, 21, "values are nested more than 20 deep"),
        ("9" * 500, 1, "a number has more than 400 characters"),
        ("1; 2", 2, "found ';', which has no meaning here"),
        ("1 2", 3, "expected the end, found '2'"),
        ("1,,2", 3, "expected a number, text, list, tuple or dictionary"),
        ("[1", 3, "expected ',' or ']', found the end"),
        ("", 1, "tuple or dictionary, found the end"),
        ("a = 1", 3, "found '=', which has no meaning here"),
    ],
)
def test_anything_else_is_refused(text, column, reason):
    with pytest.raises(TextError) as error:
        parse_value(text)
    assert "which is not evaluated" in str(error.value)
    assert reason in str(error.value)
    assert error.value.column == column


def test_eval_of_something_else_than_text_is_a_type_error():
    assert utils.eval_bool(None) is False and utils.eval_bool("True") is True
    assert utils.eval_str_list("[1, 2]", type=float) == [1.0, 2.0]
    assert utils.eval_str_list("3") == [3.0]


@pytest.mark.parametrize("option", ["encoder_layers", "decoder_layers", "decoder_attention"])
def test_a_model_of_fairseq_runs_no_code(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = Namespace(**{option: "__import__('os').mkdir('hacked') or [(256, 3)]"})
    fconv_iwslt_de_en(args)
    args.encoder_embed_path = args.decoder_embed_path = None
    args.max_source_positions = args.max_target_positions = 64
    args.share_input_output_embed = False
    with pytest.raises(UserError, match="is not evaluated"):
        FConvModel.build_model(args, translation_task())
    assert not (tmp_path / "hacked").exists()


def test_every_module_that_evaluates_options_is_listed():
    root = Path(fairseq.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        # Examples are not imported, and codedataset evaluates the lines of its data, not options.
        if name.startswith("examples.") or name == "data.codedataset":
            continue
        calls = (
            node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)
        )
        if any(isinstance(call.func, ast.Name) and call.func.id == "eval" for call in calls):
            found.add(name)
    assert found - set(MODULES) == set()
    for name in found:
        module = sys.modules.get(f"fairseq.{name}")
        assert module is None or module.eval is parse_value, name
    assert importlib.import_module("fairseq.models.fconv").eval is parse_value
