"""Import packages that are not installed everywhere."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..common.errors import UserError


def import_extra(module: str, used_by: str) -> Any:
    """Import a package of the extra ``text``.

    Args:
        module: the package.
        used_by: the setting that needs it, for the error.
    Raises:
        UserError: if it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{used_by} needs the package {module}, which is not installed here: "
            'run `pip install "convs2s-plugin[text]"`.'
        ) from error


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution; None if there is none."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
