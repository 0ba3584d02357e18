"""What is installed here, how to install fairseq where it is missing, and the processors."""

import os
import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from .. import __version__

# The first version of Python for which the extra `fairseq` installs nothing.
TOO_NEW = (3, 13)
# The distributions of fairseq.
FAIRSEQ = ("fairseq", "ve-fairseq", "fairseq-fixed")
MISSING = "not installed"


def plugin_folder() -> Path | None:
    """The folder of the plugin, for fairseq's ``--user-dir``; None if it is not installed."""
    spec = find_spec("convs2s_plugin")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).resolve()


def missing_fairseq() -> str | None:
    """A sentence that says how to install fairseq, or None if it is installed."""
    if find_spec("fairseq") is not None:
        return None
    advice = 'run `pip install "convs2s-plugin[fairseq]"`, or install a fairseq of your own'
    if sys.version_info >= TOO_NEW:
        advice = (
            f"it has no wheel for Python {platform.python_version()}; use Python 3.11 or 3.12 "
            f"and {advice}"
        )
    return f"convs2s_plugin needs fairseq, which is not installed here: {advice}."


def versions() -> dict[str, str]:
    """The versions of this package, Python, torch and fairseq; imports none of them."""
    found = {name: version for name in FAIRSEQ if (version := installed_version(name))}
    fairseq = next((f"{version} ({name})" for name, version in found.items()), None)
    return {
        "convs2s": __version__,
        "Python": platform.python_version(),
        "torch": installed_version("torch") or MISSING,
        "fairseq": fairseq or MISSING,
    }


def installed_version(distribution: str) -> str | None:
    """The version of a package, or None if it is not installed."""
    # Programs that ask for no version start faster.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def available_cores() -> int:
    """The number of CPUs that this process may use."""
    # Not all systems limit a process to some CPUs.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_gpus() -> int:
    """The number of NVIDIA GPUs, without waiting for torch."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def processor() -> str:
    """The name of the CPU."""
    return cpu_field("model name") or platform.processor() or platform.machine()


def cpu_field(name: str) -> str:
    """What Linux says about the first CPU; "" where it does not.

    Args:
        name: name of the field in ``/proc/cpuinfo``; a regular expression.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(rf"^(?:{name})\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else ""
