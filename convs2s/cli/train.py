"""``convs2s train``: train a model on prepared data with good options for its size."""

import argparse
import math
import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path

from ..checkpoints.folders import CHECKPOINTS
from ..common.errors import UserError, nearest
from ..common.installation import missing_fairseq
from ..experiments.options import arguments
from ..experiments.training.request import Request, in_lines, read_data
from ..experiments.training.run import LOG, check_command, train
from ..experiments.training.start import read_start
from ..models import FAMILIES, family_of
from ..models.adl.options import AdlOptions
from ..text.preparation import DATA
from .arguments import AtLeast, add_flag, add_folder, add_input
from .plugin import use_user_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.usage = "%(prog)s DATA [options] [options of fairseq-train]"
    parser.epilog = (
        "Any other option is passed to fairseq-train, and overrides the recipe: "
        "`convs2s train prepared --lr 0.003 --dropout 0.2`."
    )
    text = "folder that `convs2s prepare` wrote, or one of binarized data"
    parser.add_argument("data", metavar="DATA", type=Path, help=text)
    text = (
        "architecture, see `convs2s flops --named` and `convs2s adl list` (default: a ConvS2S that "
        "suits the data)"
    )
    parser.add_argument("--arch", metavar="NAME", help=text)
    text = "definitions of encoder and decoder in ADL, instead of --arch"
    parser.add_argument("--adl", nargs=2, metavar=("ENCODER", "DECODER"), help=text)
    parser.add_argument(
        "--epochs",
        "--max-epoch",
        action=AtLeast,
        least=1,
        metavar="N",
        type=int,
        help="length of training (default: by the number of pairs)",
    )
    parser.add_argument("--minutes", metavar="M", type=float, help="length of training instead")
    text = (
        "begin with the weights of this model, and with its architecture; `convs2s prepare --like` "
        "prepares text for it"
    )
    add_input(parser, "--finetune-from-model", text, type=Path, metavar="CHECKPOINT")
    text = f"folder for the checkpoints (default: {CHECKPOINTS} beside the data)"
    add_folder(parser, "--save-dir", text, type=Path)
    add_flag(parser, "--print", "print the command of fairseq-train, and exit")


def run(args: argparse.Namespace) -> int:
    """Train and say what to do next; 130 is the exit code after an interruption."""
    request = _request(args)
    if args.print:
        if args.forwarded and missing_fairseq() is None:
            check_command(request)
        print(in_lines(request.command()))
        return 0
    if sentence := missing_fairseq():
        raise UserError(sentence)
    recipe = request.recipe()[1]
    epochs = request.length().get("max-epoch")
    length = f"{epochs} epoch{'s' * (epochs != 1)}" if epochs else f"{args.minutes:g} minutes"
    print(
        f"{request.train_options()['arch']} on {request.data.pairs:,} pairs, {length}; the options "
        f"are {recipe.source}. Log: {request.checkpoints / LOG}",
        file=sys.stderr,
    )
    last = request.checkpoints / "checkpoint_last.pt"
    before = last.stat().st_mtime_ns if last.exists() else None
    average = train(request)
    if average is None:
        saved = last.exists()
        text = "The same command continues from here." if saved else "Nothing was trained yet."
        print(f"Interrupted. {text}", file=sys.stderr)
        return 130
    if last.stat().st_mtime_ns == before:
        print("Nothing was left to train: this training run had already ended.", file=sys.stderr)
    print(f"{average} is the model: the average of the last checkpoints.\n")
    print(f"convs2s translate --path {shlex.quote(str(average))} --input FILE")
    return 0


def _request(args: argparse.Namespace) -> Request:
    if args.minutes is not None and not 0 < args.minutes < math.inf:
        raise UserError(f"--minutes is {args.minutes:g}: it must be more than 0, and finite.")
    if args.minutes is not None and args.epochs is not None:
        raise UserError("--minutes and --epochs both end training: give one of them.")
    if args.adl is not None and args.arch is not None:
        raise UserError("--adl defines a model, and --arch names one: give one of them.")
    if args.finetune_from_model is not None:
        for option in ("arch", "adl"):
            if getattr(args, option) is not None:
                raise UserError(
                    f"--finetune-from-model {args.finetune_from_model} has an architecture of its "
                    f"own: omit --{option}."
                )
    _check_architecture(args.arch, args.forwarded)
    data = read_data(args.data)
    beside = data.folder.parent if data.folder.name == DATA else data.folder
    request = Request(
        data,
        args.save_dir or beside / CHECKPOINTS,
        args.arch,
        None if args.adl is None else tuple(args.adl),
        args.epochs,
        args.minutes,
        tuple(args.forwarded),
    )
    if args.adl is not None:
        _check_definitions(request)
    if args.finetune_from_model is not None:
        # Its architecture may be one of the user's own.
        use_user_dir(request.settings.get("user-dir"))
        request = replace(request, start=read_start(args.finetune_from_model))
    return request


def _check_definitions(request: Request) -> None:
    """Check definitions in ADL with the sizes and the dialect of the model, and the user's layers.

    Raises:
        UserError: if a definition is wrong, or an option of the model.
    """
    # Its layers with tensors would delay other commands.
    from .sizes import configuration

    given = request.settings
    use_user_dir(given.get("user-dir"))
    names = [each.name.replace("_", "-") for each in fields(AdlOptions)]
    flags = {"True": True, "False": False}
    changes = {name: flags.get(given[name], given[name]) for name in names if name in given}
    options = configuration("adl", [*map(str, arguments(changes))])
    assert isinstance(options, AdlOptions)
    options.resolve()


def _check_architecture(arch: str | None, forwarded: list[str]) -> None:
    """Refuse a misspelled name of this package at once; fairseq needs seconds to look up its own.

    Raises:
        UserError: if a name begins like those of a family, but is not one of them.
    """
    if arch is None or "--user-dir" in forwarded or family_of(arch) is not None:
        return
    if arch.startswith(tuple(FAMILIES)):
        names = [name for family in FAMILIES.values() for name in family.architectures()]
        raise UserError(
            f"There is no --arch {arch}{nearest(arch, names)}: `convs2s flops --named` and "
            "`convs2s adl list` list them."
        )
