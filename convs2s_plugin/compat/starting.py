"""The start of a training run: nothing of an earlier one in the process stays, options are checked.

fairseq keeps the best loss, the patience and the logs of a training run for the next one in the
same process: with ``fairseq-hydra-train --multirun``, or in a notebook.
"""

import os
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from convs2s.common.errors import UserError

from .patches import Tier, install_for, is_installed, modules, patched

TRAIN = "fairseq_cli.train"
# The precisions that fairseq cannot combine, by their names in its configuration.
PRECISIONS = {"fp16": "--fp16", "bf16": "--bf16", "amp": "--amp"}
TWICE = (
    "--autocast-dtype cannot be combined with --fp16, --memory-efficient-fp16 or --amp: omit one "
    "of them."
)
# The log files of this process's training runs (--log-file).
_log_files: set[str] = set()


@patched(TRAIN, "add_defaults", Tier.NEEDED)
def add_defaults(original: Any, cfg: Any) -> None:
    """Start a training run: fairseq calls this function first, once it has imported --user-dir.

    ``fairseq-hydra-train`` imports it only then, so the changes of ``Tier.EXTRA`` are made here
    if the configuration names something of this package.
    """
    original(cfg)
    model = cfg.model
    install_for(
        [
            *(ARCH_MODEL_REGISTRY.get(getattr(model, name, None)) for name in ("arch", "_name")),
            TASK_REGISTRY.get(getattr(cfg.task, "_name", None)),
            *(
                x["registry"].get(getattr(getattr(cfg, kind, None), "_name", None))
                for kind, x in REGISTRIES.items()
            ),
        ]
    )
    if is_installed(Tier.EXTRA):
        check_precision(cfg)
        forget_best()
        forget_logs()
        if cfg.common.log_file is not None:
            _log_files.add(os.path.abspath(cfg.common.log_file))


def check_precision(cfg: Any) -> None:
    """Check that there is at most one precision, and that the processor can train with it.

    Raises:
        UserError: if there are several, or fairseq's half precision is to train on a CPU.
    """
    given = [option for name, option in PRECISIONS.items() if getattr(cfg.common, name, False)]
    autocast = str(getattr(cfg.task, "autocast_dtype", "none"))
    if autocast != "none" and ("--fp16" in given or "--amp" in given):
        raise UserError(TWICE)
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} cannot be combined: omit all but one of them.")
    on_cpu = not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())
    if on_cpu and given and given != ["--bf16"]:
        option = given[0]
        if getattr(cfg.common, "memory_efficient_fp16", False):
            option = "--memory-efficient-fp16"
        raise UserError(
            f"{option} trains only on GPUs, but this training run is on a CPU: omit it, or use "
            "--bf16, or --autocast-dtype bfloat16 of --task convs2s_translation."
        )


def forget_best() -> None:
    """Forget the best loss and the patience of earlier training runs."""
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for module in modules(TRAIN):
        for name in ("best", "num_runs"):
            vars(module.should_stop_early).pop(name, None)


def forget_logs() -> None:
    """Close the logs of earlier training runs: files, TensorBoard, Aim, Weights & Biases."""
    for module in modules(TRAIN):
        for handler in list(module.logger.handlers):
            # fairseq adds the file of each training run to this logger, and never removes it.
            if getattr(handler, "baseFilename", None) in _log_files:
                module.logger.removeHandler(handler)
                handler.close()
    for writer in progress_bar._tensorboard_writers.values():
        writer.close()
    progress_bar._tensorboard_writers.clear()
    if getattr(progress_bar, "get_aim_run", None) is not None:
        progress_bar.get_aim_run.cache_clear()
    if getattr(progress_bar, "wandb", None) is not None and progress_bar.wandb.run is not None:
        progress_bar.wandb.finish()
