"""The machine and the versions that a result was measured with."""

import platform

import torch

from convs2s.common.installation import FAIRSEQ, cpu_field, installed_version, processor

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
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": ", ".join(
            f"{name} {version}" for name in FAIRSEQ if (version := installed_version(name))
        ),
        "convs2s-plugin": installed_version("convs2s-plugin") or "",
    }
    if device == "cuda":
        description["cuda"] = torch.version.cuda
    return description


def _processor() -> str:
    """The CPU's name and its flags for lower precision."""
    flags = cpu_field("flags|Features").split()
    found = [flag for flag in LOW_PRECISION_FLAGS if flag in flags]
    title = processor()
    return f"{title} ({', '.join(found)})" if found else title
