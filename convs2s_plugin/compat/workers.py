"""Training with several workers: torchrun, workers on CPUs, and checkpoints for all of them."""

import functools
import logging
import os
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils

logger = logging.getLogger(__name__)

# Variables that torchrun, and torch.distributed.launch, set for each worker.
LAUNCHER = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
# Wrappers of torch that fairseq gives a GPU for each worker.
GPU_WRAPPERS = ("c10d", "pytorch_ddp")


def train_with_launched_workers() -> None:
    """Train with the workers that torchrun starts, on CPUs too.

    After version 0.12.2, fairseq divides by the number of GPUs, which is zero on CPUs, and trains
    each worker for itself if a machine has one GPU or none. On CPUs, all versions ask for NCCL and
    for a GPU of each worker.
    """
    original = distributed_utils.call_main

    @functools.wraps(original)
    def call_main(cfg: Any, main: Any, **kwargs: Any) -> Any:
        training = cfg.distributed_training
        on_cpus = cfg.common.cpu or not torch.cuda.is_available()
        if training.distributed_init_method is None and not cfg.common.tpu:
            _join_launched_workers(training, on_cpus)
        if on_cpus and training.distributed_world_size > 1:
            _leave_out_gpus(training)
        return original(cfg, main, **kwargs)

    distributed_utils.call_main = call_main


def share_checkpoints() -> None:
    """Let one worker send a checkpoint to the others, as fairseq does when a training resumes.

    fairseq reads what was sent with ``torch.load``, which since version 2.6 refuses the options in
    it. It does not come from a file, but from the worker that has read the checkpoint.
    """
    original = distributed_utils._broadcast_object_slow

    @functools.wraps(original)
    def _broadcast_object_slow(obj: Any, src_rank: int, group: Any, dist_device: Any) -> Any:
        if distributed_utils.use_xla():
            return original(obj, src_rank, group, dist_device)
        sent = [obj]
        torch.distributed.broadcast_object_list(sent, src_rank, group, dist_device)
        return sent[0]

    distributed_utils._broadcast_object_slow = _broadcast_object_slow


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
