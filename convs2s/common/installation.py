"""Where the plugin is, and how to install fairseq where it is missing."""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

# The first version of Python for which the extra `fairseq` installs nothing.
TOO_NEW = (3, 13)


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
