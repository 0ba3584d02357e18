"""The option that names a package of the user's own, and fairseq where it is needed."""

import argparse
from importlib import import_module

from ..common.errors import UserError
from ..common.installation import missing_fairseq
from ..common.user_code import import_user_code


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a package of the user's own."""
    parser.add_argument(
        "--user-dir", metavar="DIR", help="a package that registers models or layers of your own"
    )


def use_user_dir(folder: str | None) -> None:
    """Import a package of the user's own.

    Where fairseq is installed, the plugin is imported first, as fairseq's commands do.

    Args:
        folder: the package; None does nothing.
    Raises:
        UserError: if there is no such folder, or the package needs fairseq, which is not installed.
    """
    if folder is None:
        return
    if missing_fairseq() is None:
        use_plugin()
    import_user_code(folder)


def use_plugin() -> None:
    """Import fairseq and the plugin, so that fairseq knows the models.

    Raises:
        UserError: if fairseq is not installed.
    """
    if sentence := missing_fairseq():
        raise UserError(sentence)
    import_module("convs2s_plugin").compat.enable_all()
