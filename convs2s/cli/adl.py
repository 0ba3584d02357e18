"""``convs2s adl``: explain, draw or import a definition; list named architectures or layers."""

import argparse
import json
import os

from ..common.errors import UserError, nearest
from ..common.output_files import atomic_write, check_writable
from ..common.plain_files import can_exist, read_plain
from ..common.user_code import import_user_code
from ..models.adl.architectures import ARCHITECTURES, table
from ..models.adl.explain import as_dict, as_text
from ..models.adl.language.arguments import REQUIRED, Default, write_value
from ..models.adl.language.patterns import definition_of_pattern
from ..models.adl.language.registry import FORMS, LayerType, entries
from ..models.adl.language.resolve import DIALECTS, resolve
from ..models.adl.language.spec import DECODER, ENCODER, ModelSpec, Settings
from ..pictures.figures import check_format
from ..pictures.model import draw
from .arguments import add_file, add_flag, add_number
from .plugin import add_user_dir

# The size of the largest file of a pattern.
MAX_BYTES = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands and their options."""
    commands = parser.add_subparsers(
        dest="subcommand", metavar="explain | draw | import | list | layers", required=True
    )
    explain = commands.add_parser(
        "explain", help="print the shapes, parameters, costs and receptive fields of a model"
    )
    draw = commands.add_parser("draw", help="draw the layers of a model, with the same numbers")
    for command in (explain, draw):
        _add_model(command)
    add_flag(explain, "--json", "print JSON")
    text = "the drawing, an .svg file"
    add_file(draw, "--output", text, required=True)
    about = "print the definition that a pattern of a hybrid language model stands for"
    imported = commands.add_parser("import", help=about)
    imported.add_argument(
        "pattern",
        metavar="PATTERN",
        help="Megatron's symbols such as M-M*-, a JSON list of Hugging Face's layer_types, or a "
        "file with one of them or with a config.json",
    )
    text = "encoder, or decoder with attention to the source (default: %(default)s)"
    imported.add_argument("--side", choices=(ENCODER, DECODER), default=ENCODER, help=text)
    commands.add_parser("list", help="print the named architectures as a Markdown table")
    layers = commands.add_parser("layers", help="print every layer with its arguments")
    for command in (explain, draw, imported, layers):
        add_user_dir(command)


def _add_model(command: argparse.ArgumentParser) -> None:
    """Add the definition of a model, and the options that its numbers depend on."""
    command.add_argument(
        "encoder", metavar="ENCODER", help="a chain of layers, or the name of an architecture"
    )
    command.add_argument("decoder", metavar="DECODER", nargs="?", help="a chain of layers")
    text = f"dialect of both definitions: {' or '.join(DIALECTS)} (default: %(default)s)"
    command.add_argument("--dialect", default="paper", help=text)
    text = f"channels of embeddings and layers (default: {Settings.model_dim})"
    add_number(command, "--model-dim", text)
    add_number(command, "--ff-dim", "inner channels of ffl (default: 4 times its input)")
    text = f"heads of multi-head attention (default: {Settings.attention_heads})"
    add_number(command, "--attention-heads", text)
    add_flag(command, "--input-feeding", "the decoder's previous output is part of its input")
    add_number(command, "--words", "vocabulary size of source and target", 40000, least=1)
    add_number(command, "--length", "tokens of a sentence", 30, least=1)


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-command."""
    import_user_code(getattr(args, "user_dir", None))
    if args.subcommand == "list":
        print(table())
    elif args.subcommand == "layers":
        print(layer_list())
    elif args.subcommand == "import":
        print(_import(args.pattern, args.side))
    elif args.subcommand == "draw":
        check_format(args.output, [".svg"])
        model_spec = _resolve(args)
        layers = (*model_spec.encoder.walk(), *model_spec.decoder.walk())
        # A definition may be in files.
        check_writable(args.output, {layer.place.source for layer in layers})
        with atomic_write(args.output) as file:
            file.write(draw(model_spec, args.words, args.length))
        print(args.output)
    else:
        model_spec = _resolve(args)
        if args.json:
            print(json.dumps(as_dict(model_spec, args.words, args.length), indent=2))
        else:
            print(as_text(model_spec, args.words, args.length))
    return 0


def _import(pattern: str, side: str) -> str:
    """The definition of a pattern, which may be in a file."""
    if can_exist(pattern) and os.path.isfile(pattern):
        try:
            text = read_plain(pattern, MAX_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{pattern} is not UTF-8: byte 0x{error.object[error.start]:02x} at {error.start}, "
                "counted from 0."
            ) from error
        return definition_of_pattern(text, side, pattern)
    if pattern.endswith((".json", ".txt")):
        raise UserError(f"There is no file {pattern}.")
    return definition_of_pattern(pattern, side)


def _resolve(args: argparse.Namespace) -> ModelSpec:
    names = ("model_dim", "ff_dim", "attention_heads")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.decoder is not None:
        for definition in (args.encoder, args.decoder):
            if definition in ARCHITECTURES:
                raise UserError(
                    f"{definition} names both sides of a model: give it alone, or two chains of "
                    "layers."
                )
        return resolve(
            args.encoder,
            args.decoder,
            Settings(**given),
            args.dialect,
            args.input_feeding,
            ("ENCODER", "DECODER"),
        )
    if set(args.encoder) & set("(>@;"):
        raise UserError(
            f"DECODER is missing after {args.encoder}: give two chains of layers, or the name of "
            "an architecture."
        )
    if args.encoder not in ARCHITECTURES:
        raise UserError(
            f"There is no named architecture '{args.encoder}'{nearest(args.encoder, ARCHITECTURES)}"
            ": give ENCODER and DECODER, or one of the names that `convs2s adl list` prints."
        )
    return ARCHITECTURES[args.encoder].resolve(**given)


def layer_list() -> str:
    """Describe every layer: its arguments with their defaults, and one line each."""
    lines: list[str] = []
    for form, text in FORMS.items():
        about = f"{text.replace('`', '')}; i is the number of the copy, from 1"
        lines += [form, f"    {about}"]
    for name, entry in sorted(entries().items()):
        names = ", ".join(argument.name for argument in entry.arguments)
        lines.append(f"{name}({names})" if names else name)
        facts = [entry.summary]
        if isinstance(entry, LayerType) and not entry.parallel:
            facts.append("not parallel over time")
        lines.append(f"    {'; '.join(facts)}")
        for argument in entry.arguments:
            default = argument.default
            if default is REQUIRED:
                note = "required"
            elif isinstance(default, Default):
                note = f"default: {default.text}"
            else:
                note = f"default: {write_value(default)}"
            about = f": {argument.help}" if argument.help else ""
            lines.append(f"      {argument.name}{about} ({argument.kind}; {note})")
    return "\n".join(lines)
