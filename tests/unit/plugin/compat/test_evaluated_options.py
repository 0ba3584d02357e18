"""fairseq's options that it would evaluate are parsed: the same values, and no code."""

import ast
import importlib
import re
import sys
from argparse import Namespace
from pathlib import Path

import fairseq
import pytest
from fairseq import utils
from fairseq.models.fconv import FConvModel, fconv_iwslt_de_en

import convs2s_plugin  # noqa: F401  (replaces eval in fairseq)
from convs2s.common.errors import UserError
from convs2s_plugin.compat.evaluated_options import MODULES, parse_value
from tests.support.helpers import translation_task

FCONV = "[(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2"


@pytest.mark.parametrize(
    "text",
    [FCONV, "[(512, 3, 1)]", "True", "None", "[True, False] * 3", "(0.9, 0.98)", " 3 ", "-1e-30"]
    + ["[-1, 2.5]", "'text'", "{'a': [1], 2: (3,)}", "()", "[]", "(1, 2) + (3,)", "[1] * 0"],
)
def test_the_value_is_that_of_eval(text):
    assert parse_value(text) == eval(text.strip())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("__import__('os').system('echo hacked')", "it has other parts than literals"),
        ("[x for x in (1, 2)]", "it has other parts than literals"),
        ("(lambda: 1)()", "it has other parts than literals"),
        ("open('f', 'w')", "it has other parts than literals"),
        ("2 ** 100", "it has other parts than literals"),
        ("'a' * 10", "it has other parts than literals"),
        ("{**{}}", "it has other parts than literals"),
        ("f'{1}'", "it has other parts than literals"),
        ("b'bytes'", "it has other parts than literals"),
        ("-'a'", "it has other parts than literals"),
        ("[1] + (2,)", "it has other parts than literals"),
        ("[1] * 10001", "it has more than 10000 items"),
        ("[[1] * 9999] * 2 + [1] * 9999", "it has more than 10000 items"),
        ("[0]" + " + [0]" * 3000, "it has more than 10000 characters"),
        ("[" * 50 + "]" * 50, "it is nested more than 20 times"),
        ("1; 2", "it cannot be parsed"),
        ("[1", "it cannot be parsed"),
        ("a = 1", "it cannot be parsed"),
    ],
)
def test_anything_else_is_refused(text, reason):
    with pytest.raises(UserError, match=f"is not evaluated, since {re.escape(reason)}"):
        parse_value(text)


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
