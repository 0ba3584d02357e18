"""What commands with models need: fairseq, the plugin, and packages of the user's own."""

import argparse
from importlib import import_module
from pathlib import Path

from ..common.errors import UserError
from ..common.installation import missing_fairseq


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a package of the user's own."""
    parser.add_argument(
        "--user-dir", metavar="DIR", help="a package that registers models or layers of your own"
    )


def use_plugin(user_dir: str | None = None) -> None:
    """Import fairseq and the plugin, so that fairseq knows the models.

    Args:
        user_dir: a package of the user's own to import as well.
    Raises:
        UserError: if fairseq is not installed, or there is no such folder.
    """
    if sentence := missing_fairseq():
        raise UserError(sentence)
    import_module("convs2s_plugin").compat.enable_all()
    if user_dir and not Path(user_dir).is_dir():
        raise UserError(f"There is no folder {user_dir} (--user-dir).")
    import_module("fairseq.utils").import_user_module(argparse.Namespace(user_dir=user_dir))
