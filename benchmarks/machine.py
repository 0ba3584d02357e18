"""The machine and the versions that a result was measured with."""

import platform
import re
from importlib import metadata
from pathlib import Path

import torch

# CPU flags of fast matrix multiplication in lower precision.
LOW_PRECISION_FLAGS = (
    "avx512_vnni",
    "avx_vnni",
    "amx_int8",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_fp16",
    "bf16",
)


def machine(device: str) -> dict[str, object]:
    """Describe the CPU or GPU and the versions of Python, torch, fairseq and this package."""
    description = {
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": ", ".join(
            f"{name} {_version(name)}" for name in ("fairseq", "ve-fairseq") if _version(name)
        ),
        "convs2s-plugin": _version("convs2s-plugin"),
    }
    if device == "cuda":
        description["cuda"] = torch.version.cuda
    return description


def processor() -> str:
    """The CPU's name and its flags for lower precision."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    found = [flag for flag in LOW_PRECISION_FLAGS if flags and flag in flags.group(1).split()]
    title = name.group(1).strip() if name else platform.processor() or platform.machine()
    return f"{title} ({', '.join(found)})" if found else title


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
