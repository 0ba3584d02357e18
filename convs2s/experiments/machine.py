"""The devices of this machine, and how parallel runs share them."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The devices of this machine.

    Attributes:
        device: their name, for the results.
        options: fairseq's options for one GPU or for the CPU.
        environments: variables for the programs of each slot.
    """

    device: str
    options: tuple[str, ...]
    environments: tuple[dict[str, str], ...]


def find_machine(jobs: int) -> Machine:
    """Share the GPUs, or the cores if torch finds no GPU, among parallel runs.

    Args:
        jobs: number of runs at a time.
    """
    import torch

    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
        gpus = visible.split(",")[:count]
        slots = tuple({"CUDA_VISIBLE_DEVICES": gpus[slot % count]} for slot in range(jobs))
        return Machine(torch.cuda.get_device_name(), ("--distributed-world-size", "1"), slots)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    threads = max(1, cores // jobs)
    environment = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(threads)}
    # Half precision and times depend on the instructions.
    instructions = torch.backends.cpu.get_cpu_capability()
    device = f"CPU, {cores} core{'s' if cores > 1 else ''}, {instructions}"
    return Machine(device, ("--cpu",), (environment,) * jobs)
