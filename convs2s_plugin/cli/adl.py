"""``convs2s adl``: what a definition means; which architectures and which layers have names."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from fairseq.utils import import_user_module

from ..adl.architectures import ARCHITECTURES, table
from ..adl.explain import as_dict, as_text
from ..adl.language.arguments import REQUIRED, Argument, Default
from ..adl.language.registry import LayerType, entries
from ..adl.language.resolve import DIALECTS, resolve
from ..adl.language.spec import ModelSpec, Settings
from ..adl.language.tree import nearest
from ..errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three things to ask for, and the options that a definition depends on."""
    asked = parser.add_subparsers(dest="asked", metavar="explain | list | layers", required=True)
    explain = asked.add_parser("explain", help="shapes, parameters, costs and sight of each part")
    explain.add_argument("encoder", metavar="ENCODER", help="a chain of layers, or a named model")
    explain.add_argument("decoder", metavar="DECODER", nargs="?", help="a chain of layers")
    explain.add_argument("--dialect", default="paper", help=f"{', '.join(DIALECTS)} (%(default)s)")
    explain.add_argument("--model-dim", type=int, help="channels of embeddings and layers (512)")
    explain.add_argument("--ff-dim", type=int, help="inner channels of ffl (4 times its input)")
    explain.add_argument("--attention-heads", type=int, help="heads of an attention (8)")
    explain.add_argument("--input-feeding", action="store_true", help="the last output is fed back")
    explain.add_argument(
        "--words", type=int, default=40000, help="types on each side (%(default)s)"
    )
    explain.add_argument("--length", type=int, default=30, help="words of a sentence (%(default)s)")
    explain.add_argument("--json", action="store_true", help="print JSON")
    asked.add_parser("list", help="the named architectures with their definitions, in Markdown")
    layers = asked.add_parser("layers", help="every layer with its arguments")
    for command in (explain, layers):
        command.add_argument("--user-dir", metavar="DIR", help="a package with layers of your own")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    folder = getattr(args, "user_dir", None)
    if folder and not Path(folder).is_dir():
        raise UserError(f"There is no folder {folder} (--user-dir).")
    import_user_module(argparse.Namespace(user_dir=folder))
    if args.asked == "list":
        print(table())
    elif args.asked == "layers":
        print(layer_list())
    else:
        for name in ("words", "length"):
            if getattr(args, name) < 1:
                raise UserError(f"--{name} is {getattr(args, name)}: it must be at least 1.")
        recipe = _recipe(args)
        if args.json:
            print(json.dumps(as_dict(recipe, args.words, args.length), indent=2))
        else:
            print(as_text(recipe, args.words, args.length))
    return 0


def _recipe(args: argparse.Namespace) -> ModelSpec:
    names = ("model_dim", "ff_dim", "attention_heads")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.decoder is not None:
        return resolve(
            args.encoder,
            args.decoder,
            Settings(**given),
            args.dialect,
            args.input_feeding,
            ("ENCODER", "DECODER"),
        )
    if args.encoder not in ARCHITECTURES:
        raise UserError(
            f"There is no named architecture '{args.encoder}'{nearest(args.encoder, ARCHITECTURES)}"
            ": give ENCODER and DECODER, or one of the names that `convs2s adl list` prints."
        )
    return ARCHITECTURES[args.encoder].recipe(**given)


def layer_list() -> str:
    """Every layer with its arguments, their defaults, and one line about each."""
    lines = [
        "repeat(n, chain)",
        "    n copies of a chain, each with its own weights; i is the number of the copy, from 1",
    ]
    for name, entry in sorted(entries().items()):
        names = ", ".join(argument.name for argument in entry.arguments)
        lines.append(f"{name}({names})" if names else name)
        facts = [entry.summary]
        if isinstance(entry, LayerType) and not entry.parallel:
            facts.append("one position after the other")
        lines.append(f"    {'; '.join(facts)}")
        lines += _argument_lines(entry.arguments)
    return "\n".join(lines)


def _argument_lines(arguments: Sequence[Argument]) -> list[str]:
    lines = []
    for argument in arguments:
        default = argument.default
        if default is REQUIRED:
            what = "required"
        elif isinstance(default, Default):
            what = f"default: {default.text}"
        else:
            what = f"default: {argument.kind.write(default)}"
        about = f": {argument.help}" if argument.help else ""
        lines.append(f"      {argument.name}{about} ({argument.kind}; {what})")
    return lines
