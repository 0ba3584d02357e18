"""Convolutional and hybrid sequence-to-sequence models as a fairseq plugin.

Point fairseq's ``--user-dir`` at this folder (``convs2s path`` prints it): importing the
package registers every model, task, criterion and learning-rate scheduler.
"""

from importlib.util import find_spec

from .version import __version__

if find_spec("fairseq") is None:
    raise ImportError(
        "convs2s_plugin needs fairseq, which is not installed here: "
        'run `pip install "convs2s-plugin[fairseq]"` (or install any fairseq of your own).'
    )

from . import compat, errors

errors.install_excepthook()
compat.prepare()

from . import criterions, models, optim, tasks  # noqa: E402  (register; need the preparations above)

__all__ = ["__version__", "criterions", "models", "optim", "tasks"]
