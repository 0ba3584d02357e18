"""A package of a user, such as one with layers (``--user-dir``), imported from its folder."""

import os
import sys
from importlib import import_module
from pkgutil import iter_modules

from .errors import UserError
from .installation import missing_fairseq

# fairseq imports the modules in these folders of a package, too.
FOLDERS = ("tasks", "models")


def import_user_code(folder: str | os.PathLike[str] | None) -> None:
    """Import a package, as fairseq's ``--user-dir`` does, but without fairseq.

    The name of the folder is that of the package, and its parent becomes the first entry of
    ``sys.path``. A package that has been imported already is left as it is.

    Args:
        folder: the folder of the package; None does nothing.
    Raises:
        UserError: if there is no such folder, another module has its name, or the package needs
            fairseq, which is not installed.
    """
    if folder is None:
        return
    path = os.path.abspath(folder)
    parent, name = os.path.split(path)
    if not os.path.isdir(path):
        raise UserError(f"There is no folder {folder} (--user-dir).")
    known = sys.modules.get(name)
    if known is not None:
        if path in getattr(known, "__path__", ()):
            return
        raise UserError(
            f"The package in {folder} (--user-dir) cannot be imported, because a module named "
            f"'{name}' is imported already: rename the folder."
        )
    sys.path.insert(0, parent)
    try:
        import_module(name)
        for inner in FOLDERS:
            for module in iter_modules([os.path.join(path, inner)]):
                import_module(f"{name}.{inner}.{module.name}")
    except ImportError as error:
        sentence = missing_fairseq()
        if sentence is None or "fairseq" not in str(error):
            raise
        raise UserError(f"The package in {folder} cannot be imported: {sentence}") from None
