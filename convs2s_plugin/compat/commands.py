"""fairseq's commands: options that fail needlessly, and several workers."""

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from fairseq import options, utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from convs2s.common.command_line import refusal

from .changed_options import parse_dictionary
from .patches import Tier, install_for, is_installed, patched

logger = logging.getLogger(__name__)

# It also has the options of fairseq's translation task.
TASK = "convs2s_translation"
# Options that are Python dictionaries.
DICTIONARIES = ("model_overrides", "optimizer_overrides")
LANGUAGES = ("source_lang", "target_lang")
# Variables that torchrun, and torch.distributed.launch, set for each worker.
LAUNCHER = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
# Wrappers of torch that fairseq gives a GPU for each worker.
GPU_WRAPPERS = ("c10d", "pytorch_ddp")


@patched(options, "parse_args_and_arch", Tier.NEEDED)
def parse_args_and_arch(
    original: Any, parser: Any, input_args: Any = None, *more: Any, **kwargs: Any
) -> Any:
    """Make the changes of ``Tier.EXTRA`` if the command line names something of this package.

    With these, ``--bf16`` trains without a TPU, and ``--tokenizer moses`` works without languages.
    fairseq-validate, which fails without ``--task``, gets a default; it then has the task of the
    checkpoint. Errors are one sentence, without the list of all options before it.
    """
    parser.error = lambda message: parser.exit(
        2, f"{parser.prog}: error: {refusal(message, parser._option_string_actions)}\n"
    )
    needs_task = any(x.dest == "task" and x.default is None for x in parser._actions)
    if needs_task:
        parser.set_defaults(task=TASK)
    try:
        parsed = original(parser, input_args, *more, **kwargs)
    except ValueError as error:
        if str(error).startswith("Cannot combine --fp16 and --tpu"):
            parser.error("argument --fp16: not allowed with --bf16, which asks for a TPU")
        raise
    args = parsed[0] if isinstance(parsed, tuple) else parsed
    install_for(
        [
            ARCH_MODEL_REGISTRY.get(getattr(args, "arch", None)),
            None if needs_task else TASK_REGISTRY.get(getattr(args, "task", None)),
            *(x["registry"].get(getattr(args, kind, None)) for kind, x in REGISTRIES.items()),
        ]
    )
    for name in DICTIONARIES:
        if getattr(args, name, None) is not None:
            parse_dictionary(name.replace("_", "-"), getattr(args, name))
    if is_installed(Tier.EXTRA):
        _request_no_tpu(args, sys.argv[1:] if input_args is None else input_args)
        _set_languages(args)
    return parsed


def _request_no_tpu(args: Namespace, given: Sequence[str]) -> None:
    """fairseq also reads ``--bf16`` as ``--tpu``, and then needs the package torch_xla."""
    if getattr(args, "bf16", False) and "--tpu" not in given and find_spec("torch_xla") is None:
        args.tpu = False


def _set_languages(args: Namespace) -> None:
    """fairseq infers the languages from the data, but only after rejecting their absence."""
    if getattr(args, "tokenizer", None) != "moses" or not getattr(args, "data", None):
        return
    inferred = data_utils.infer_language_pair(utils.split_paths(args.data)[0])
    for name, language in zip(LANGUAGES, inferred):
        if getattr(args, name, None) is None and language is not None:
            setattr(args, name, language)


@patched(options, "add_distributed_training_args", Tier.EXTRA)
def add_distributed_training_args(
    original: Any, parser: Any, *arguments: Any, **kwargs: Any
) -> Any:
    """Accept ``--local-rank`` besides ``--local_rank``.

    torch.distributed.launch gives each worker this option, with a hyphen since torch 2.
    """
    group = original(parser, *arguments, **kwargs)
    known = parser._option_string_actions
    if "--local_rank" in known and "--local-rank" not in known:
        action = known["--local_rank"]
        action.option_strings.append("--local-rank")
        known["--local-rank"] = action
    return group


@patched(distributed_utils, "call_main", Tier.EXTRA)
def call_main(original: Any, cfg: Any, main: Any, **kwargs: Any) -> Any:
    """Train with the workers that torchrun starts, also on CPUs.

    After version 0.12.2, fairseq divides by the number of GPUs, which is zero on CPUs, and trains
    each worker separately if a machine has one GPU or none. On CPUs, all versions ask for NCCL and
    for a GPU of each worker.
    """
    training = cfg.distributed_training
    on_cpus = cfg.common.cpu or not torch.cuda.is_available()
    if training.distributed_init_method is None and not cfg.common.tpu:
        _join_launched_workers(training, on_cpus)
    if on_cpus and training.distributed_world_size > 1:
        _leave_out_gpus(training)
    return original(cfg, main, **kwargs)


def _join_launched_workers(training: Any, on_cpus: bool) -> None:
    """Set the number of workers that a launcher has started and, on CPUs, how they meet."""
    if not all(name in os.environ for name in LAUNCHER) or training.pipeline_model_parallel:
        return
    training.distributed_world_size = int(os.environ["WORLD_SIZE"])
    if on_cpus and training.distributed_world_size > 1:
        training.distributed_init_method = "env://"
        training.distributed_rank = int(os.environ["RANK"])
        training.distributed_no_spawn = True


def _leave_out_gpus(training: Any) -> None:
    """Replace a communication backend and a wrapper that need GPUs."""
    if training.distributed_backend == "nccl":
        training.distributed_backend = "gloo"
    if training.ddp_backend in GPU_WRAPPERS:
        logger.info("workers on CPUs: using --ddp-backend legacy_ddp")
        training.ddp_backend = "legacy_ddp"
