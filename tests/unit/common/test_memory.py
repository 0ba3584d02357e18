"""Memory that a process keeps."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from convs2s.common.memory import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()

def allocate():
    tensors = [torch.ones(2**21) for _ in range(8)]

allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    allocate()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode):
    command = [sys.executable, "-c", PROGRAM, mode]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_freed_memory_is_kept():
    """640 MiB are 160,000 pages."""
    assert page_faults("keep") < 10_000
    assert page_faults("return") > 50_000
