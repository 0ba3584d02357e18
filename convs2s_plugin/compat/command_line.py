"""Options of fairseq's commands that fail where they need not."""

import functools
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from fairseq import options, utils
from fairseq.data import data_utils

LANGUAGES = ("source_lang", "target_lang")


def accept_local_rank() -> None:
    """Accept ``--local-rank`` beside ``--local_rank``.

    torch.distributed.launch gives each worker this option, since torch 2 with a hyphen.
    """
    original = options.add_distributed_training_args

    @functools.wraps(original)
    def add_distributed_training_args(parser: Any, *arguments: Any, **kwargs: Any) -> Any:
        group = original(parser, *arguments, **kwargs)
        known = parser._option_string_actions
        if "--local_rank" in known and "--local-rank" not in known:
            action = known["--local_rank"]
            action.option_strings.append("--local-rank")
            known["--local-rank"] = action
        return group

    options.add_distributed_training_args = add_distributed_training_args


def correct_parsed_options() -> None:
    """Let ``--bf16`` train without a TPU, and ``--tokenizer moses`` work without languages."""
    original = options.parse_args_and_arch

    @functools.wraps(original)
    def parse_args_and_arch(parser: Any, input_args: Any = None, *more: Any, **kwargs: Any) -> Any:
        parsed = original(parser, input_args, *more, **kwargs)
        args = parsed[0] if isinstance(parsed, tuple) else parsed
        _request_no_tpu(args, sys.argv[1:] if input_args is None else input_args)
        _set_languages(args)
        return parsed

    options.parse_args_and_arch = parse_args_and_arch


def _request_no_tpu(args: Namespace, given: Sequence[str]) -> None:
    """fairseq reads ``--bf16`` as ``--tpu``, too, and then needs the package torch_xla."""
    if getattr(args, "bf16", False) and "--tpu" not in given and find_spec("torch_xla") is None:
        args.tpu = False


def _set_languages(args: Namespace) -> None:
    """fairseq infers the languages from the data, but only after it refused their absence."""
    if getattr(args, "tokenizer", None) != "moses" or not getattr(args, "data", None):
        return
    inferred = data_utils.infer_language_pair(utils.split_paths(args.data)[0])
    for name, language in zip(LANGUAGES, inferred):
        if getattr(args, name, None) is None and language is not None:
            setattr(args, name, language)
