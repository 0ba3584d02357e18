"""Convolutional and hybrid sequence-to-sequence models as a fairseq plugin.

Pass this folder to fairseq as ``--user-dir`` (``convs2s path`` prints it). Importing the package
registers all models, tasks, criterions and learning-rate schedulers with fairseq. The networks are
those of the library ``convs2s``, which is beside this folder.
"""

try:
    from convs2s import __version__
except ModuleNotFoundError:
    raise ImportError(
        "convs2s_plugin needs the library convs2s, which is beside its folder in a checkout and in "
        "an installation: give --user-dir the folder that `convs2s path` prints, or copy the "
        "folder convs2s as well."
    ) from None

from convs2s.common.installation import missing_fairseq
from convs2s.common.quiet import hidden_warnings, keep_logging

if sentence := missing_fairseq():
    raise ImportError(sentence)

# fairseq's tasks enable all messages of all libraries.
with keep_logging(), hidden_warnings():
    import fairseq  # noqa: F401

from . import compat  # noqa: E402  (needs fairseq)

compat.prepare()

# These modules need the changes that ``prepare`` makes to fairseq.
from . import criterions, hub, models, schedulers, tasks  # noqa: E402

__all__ = ["__version__", "criterions", "hub", "models", "schedulers", "tasks"]
