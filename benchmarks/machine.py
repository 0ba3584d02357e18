"""What figures were measured on."""

import platform
import re
from importlib import metadata
from pathlib import Path

import torch

# What makes a processor's products in half precision fast.
HALF_PRECISION = ("avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "bf16")


def machine(device: str) -> dict[str, object]:
    """Processor or GPU, and versions of all that matters."""
    described = {
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
        described["cuda"] = torch.version.cuda
    return described


def processor() -> str:
    """The processor's name and what it has for products in half precision."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    found = [flag for flag in HALF_PRECISION if flags and flag in flags.group(1).split()]
    title = name.group(1).strip() if name else platform.processor() or platform.machine()
    return f"{title} ({', '.join(found)})" if found else title


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
