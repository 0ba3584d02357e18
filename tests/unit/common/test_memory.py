"""Memory that a process keeps."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from convs2s.common.memory import VARIABLES

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PROGRAM = """
import ctypes, resource, sys
import torch
from convs2s.common.memory import M_MMAP_THRESHOLD, keep_freed_memory

# Tensors of this program are larger.
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 65536)
if sys.argv[1] == "keep":
    keep_freed_memory()

def allocate():
    tensors = [torch.ones(2**21) for _ in range(8)]

for _ in range(3):
    allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    allocate()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
CAN_COUNT = (
    platform.libc_ver()[0] == "glibc"
    and not os.environ.get("LD_PRELOAD")
    and not (HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text())
)


def page_faults(mode, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in VARIABLES} | variables
    command = [sys.executable, "-c", PROGRAM, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


@pytest.mark.skipif(not CAN_COUNT, reason="other libraries and huge pages have other pages")
def test_freed_memory_is_kept():
    """640 MiB are 160,000 pages."""
    assert page_faults("keep") < 20_000
    assert page_faults("return") > 100_000
    assert page_faults("keep", MALLOC_TRIM_THRESHOLD_="65536") > 100_000
