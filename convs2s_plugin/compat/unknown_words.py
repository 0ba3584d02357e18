"""``--replace-unk``: the task of this package replaces unknown words, not fairseq's commands."""

import functools
import sys
from argparse import Namespace
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fairseq import utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from convs2s.common.errors import UserError

from .switch import VARIABLE, enabled

GENERATE = "fairseq_cli.generate"
TASK = "convs2s_translation"
# Values of --replace-unk without a file: from the command line, and from Python.
REPLACE_UNK_WITHOUT_FILE = ("@@ ", "", True)


def leave_unknown_words_to_the_task() -> None:
    """Keep fairseq's commands from replacing unknown words after the task has replaced them.

    Their replacement needs alignments, which are not computed without ``--print-alignment``, and
    raw source text, which binarized data does not have.
    """
    if enabled():
        utils.load_align_dict = lambda replace_unk: None


def check_replacement() -> None:
    """Check that fairseq's commands do not replace unknown words once more.

    Raises:
        UserError: if they do.
    """
    if not enabled():
        raise UserError(
            f"--replace-unk of --task {TASK} changes fairseq, which {VARIABLE}=0 forbids: unset "
            "the variable, or use --task translation."
        )


def allow_binarized_data() -> None:
    """Let ``fairseq-generate --replace-unk`` translate binarized data with this package's task.

    fairseq's command refuses it before the task exists, because its own replacement needs raw text.
    """
    main_module = sys.modules.get("__main__")
    modules = [sys.modules.get(GENERATE)]
    if getattr(getattr(main_module, "__spec__", None), "name", None) == GENERATE:
        # python -m fairseq_cli.generate
        modules.append(main_module)
    for module in modules:
        if module is not None and hasattr(module, "_main"):
            module.main = _checked_without(module)  # type: ignore[attr-defined]


def _checked_without(module: ModuleType) -> Callable[..., Any]:
    """``main`` of fairseq-generate, whose check does not see ``--replace-unk``."""
    original = module.main

    @functools.wraps(original)
    def main(cfg: Any) -> Any:
        if isinstance(cfg, Namespace):
            cfg = convert_namespace_to_omegaconf(cfg)
        replace_unk = cfg.generation.replace_unk
        if replace_unk is None or getattr(cfg.task, "_name", None) != TASK:
            return original(cfg)
        translate = module._main

        def translate_with_option(cfg: Any, *arguments: Any) -> Any:
            cfg.generation.replace_unk = replace_unk
            return translate(cfg, *arguments)

        cfg.generation.replace_unk = None
        module._main = translate_with_option  # type: ignore[attr-defined]
        try:
            return original(cfg)
        finally:
            module._main = translate  # type: ignore[attr-defined]

    return main
