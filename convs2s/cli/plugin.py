"""The option that names a package of the user's own, and fairseq where it is needed."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.installation import missing_fairseq
from ..common.user_code import import_user_code
from .arguments import add_input

if TYPE_CHECKING:
    from ..checkpoints.networks import Checkpoint
    from ..translation.decoding import Model


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a package of the user's own."""
    text = "a package that registers models or layers of your own"
    add_input(parser, "--user-dir", text, "folder", metavar="DIR")


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


def fairseq_models() -> Any:
    """The part of the plugin that builds models of fairseq, ``convs2s_plugin.loading``.

    Raises:
        UserError: if fairseq is not installed.
    """
    use_plugin()
    return import_module("convs2s_plugin.loading")


def load_model(checkpoint: "Checkpoint", *arguments: Any) -> "Model":
    """Build the model of a checkpoint, with fairseq if the library does not have its family.

    Args:
        checkpoint, arguments: as for ``translation.loading.load_model``.
    Raises:
        UserError: if it cannot be built, or if fairseq is needed and is not installed.
    """
    from ..translation import loading

    if checkpoint.family is not None:
        return loading.load_model(checkpoint, *arguments)
    if sentence := missing_fairseq():
        raise UserError(
            f"{checkpoint.path} has a model of --arch {checkpoint.architecture}, which is not an "
            f"architecture of this package, so fairseq must load it. {sentence}"
        )
    model: Model = fairseq_models().load(checkpoint, *arguments)
    return model
