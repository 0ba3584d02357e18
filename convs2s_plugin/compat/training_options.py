"""The options of fairseq-train, for commands that train a model themselves."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from fairseq import options, utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from convs2s.common.errors import UserError
from convs2s.models.adl.language.tree import nearest

# Options without a default that allows a training.
REQUIRED = {
    "arch": "the model, for example --arch convs2s_iwslt_de_en",
    "optimizer": "the optimizer, for example --optimizer adam",
}
NO_DATA = "The data are missing: give the folder that fairseq-preprocess wrote."


def parse_training_options(arguments: Sequence[str]) -> FairseqConfig:
    """Parse arguments of fairseq-train.

    The models, tasks and criterions of this package are known without ``--user-dir``.

    Args:
        arguments: the arguments after the name of the program.
    Returns:
        fairseq's configuration of the training.
    Raises:
        UserError: if an option is unknown or missing, has a value that is not allowed, or if there
            is no folder of binarized data.
    """
    _import_user_dir(arguments)
    parser = options.get_training_parser()
    parser.error = refuse(parser)
    chosen, _ = parser.parse_known_args(arguments)
    for name, example in REQUIRED.items():
        if getattr(chosen, name, None) is None:
            raise UserError(f"--{name} is missing: give {example}.")
    args = options.parse_args_and_arch(parser, input_args=list(arguments))
    if args.max_tokens is None and args.batch_size is None:
        raise UserError("The size of a batch is missing: give --max-tokens or --batch-size.")
    _check_data(getattr(args, "data", None))
    cfg = convert_namespace_to_omegaconf(args)
    add_defaults(cfg)
    return cfg


def _import_user_dir(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--user-dir")
    known, _ = parser.parse_known_args(arguments)
    try:
        utils.import_user_module(known)
    except FileNotFoundError as error:
        raise UserError(f"There is no folder {known.user_dir} (--user-dir).") from error


def refuse(parser: argparse.ArgumentParser) -> Callable[[str], NoReturn]:
    """A replacement of ``parser.error``: a UserError without hundreds of names in it."""

    def error(message: str) -> NoReturn:
        match = re.match(r"argument (--[\w-]+).*: invalid choice: '([^']*)'", message)
        if message.endswith("arguments are required: data"):
            raise UserError(NO_DATA)
        if match is None:
            raise UserError(f"The options are not those of fairseq-train: {message}.")
        option, value = match.groups()
        choices = parser._option_string_actions[option].choices or ()
        raise UserError(
            f"{option} is '{value}', which is unknown{nearest(value, map(str, choices))}. "
            "A package that defines it must be given with --user-dir."
        )

    return error


def _check_data(data: str | None) -> None:
    if not data:
        raise UserError(NO_DATA)
    folder = Path(data.split(":")[0])
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}: give the one that fairseq-preprocess wrote.")
    if not any(folder.glob("dict*.txt")):
        raise UserError(
            f"{folder} is not binarized data: it has no dictionary (dict.LANGUAGE.txt). Give the "
            "folder that fairseq-preprocess wrote (--destdir)."
        )
