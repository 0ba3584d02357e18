"""Options that fairseq evaluates as Python code are parsed instead.

fairseq calls ``eval`` on options such as fconv's ``encoder_layers``, which may come from a
checkpoint. Here, ``eval`` in its modules becomes a parser of numbers, text, lists, tuples and
dictionaries, with + and *, which covers all values that fairseq documents.
"""

import ast
import sys
from typing import Any

from convs2s.common.errors import UserError
from convs2s.common.text_files import excerpt

# The modules of fairseq that evaluate options, without "fairseq.".
MODULES = (
    *("utils", "criterions.ctc", "model_parallel.models.pipeline_parallel_transformer.model"),
    *("models.fconv", "models.fconv_lm", "models.fconv_self_att", "models.hubert.hubert"),
    *("models.lightconv_lm", "models.multires_hubert.multires_hubert", "models.transformer_lm"),
    *("models.speech_to_text.s2t_wav_transformer", "data.audio.raw_audio_dataset"),
    *("models.wav2vec.wav2vec", "models.wav2vec.wav2vec2", "optim.adafactor", "optim.adam"),
    *("optim.adamax", "optim.cpu_adam", "optim.fused_lamb"),
)
MAX_CHARACTERS = 10_000
MAX_ITEMS = 10_000
MAX_NESTING = 20


def parse_options() -> None:
    """Replace ``eval`` in the modules of fairseq that evaluate options."""
    for name in MODULES:
        module = sys.modules.get(f"fairseq.{name}")
        if module is not None:
            module.eval = parse_value  # type: ignore[attr-defined]


def parse_value(text: str, *scopes: Any) -> Any:
    """The value of a Python expression of literals, + and *.

    Args:
        text: the expression, such as ``[(512, 3)] * 9 + [(1024, 1)]``.
        scopes: further arguments of ``eval``, not used.
    Raises:
        TypeError: if it is no text, as with ``eval``; fairseq relies on this.
        UserError: if it is anything else than such an expression, or too large.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise _refused(text, f"it has more than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(text, "it cannot be parsed") from None
    return _value(tree.body, text, MAX_NESTING)


def _value(node: ast.expr, text: str, depth: int) -> Any:
    """The value of a part of an expression."""
    if depth == 0:
        raise _refused(text, f"it is nested more than {MAX_NESTING} times")

    def parts(nodes: list[ast.expr]) -> list[Any]:
        return [_value(part, text, depth - 1) for part in nodes]

    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
        return node.value
    if isinstance(node, ast.List):
        return parts(node.elts)
    if isinstance(node, ast.Tuple):
        return tuple(parts(node.elts))
    if isinstance(node, ast.Dict) and None not in node.keys:
        return dict(zip(parts([key for key in node.keys if key]), parts(node.values)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        (number,) = parts([node.operand])
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.BinOp):
        left, right = parts([node.left, node.right])
        if isinstance(node.op, ast.Add) and type(left) is type(right) and _is_list(left):
            return _limited(left + right, text)
        if isinstance(node.op, ast.Mult) and _is_list(left) and type(right) is int:
            if max(len(left), 1) * right > MAX_ITEMS:
                raise _refused(text, f"it has more than {MAX_ITEMS} items")
            return left * right
    raise _refused(text, "it has other parts than literals")


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _limited(value: Any, text: str) -> Any:
    if len(value) > MAX_ITEMS:
        raise _refused(text, f"it has more than {MAX_ITEMS} items")
    return value


def _refused(text: str, reason: str) -> UserError:
    return UserError(
        f"{excerpt(text)}, an option of a fairseq model, is not evaluated, since {reason}: it may "
        "be a number, text, list, tuple or dictionary; lists can be added, and multiplied by a "
        "number."
    )
