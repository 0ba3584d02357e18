"""``convs2s adl``: explain, draw, verify or import a definition; list architectures or layers."""

import argparse
import json
import os
from typing import Any

from ..common.errors import TextError, UserError, nearest
from ..common.limits import MAX_VERIFIED, check_range
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
from ..models.adl.options import AdlOptions
from ..pictures.figures import check_format
from ..pictures.model import draw
from .arguments import add_file, add_flag, add_number
from .plugin import add_user_dir

# The size of the largest file of a pattern.
MAX_BYTES = 2**20
# Sizes with which `verify` takes a few seconds; the properties do not depend on them.
SMALL = Settings(model_dim=16, attention_heads=4)
SMALL_WORDS = 30
# Side -> what `verify` takes for the other one, in each dialect.
OTHER_SIDE = {ENCODER: "res(mh_dot_att(1))", DECODER: "id"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands and their options."""
    commands = parser.add_subparsers(
        dest="subcommand",
        metavar="explain | draw | verify | import | list | layers",
        required=True,
    )
    explain = commands.add_parser(
        "explain", help="print the shapes, parameters, costs and receptive fields of a model"
    )
    draw = commands.add_parser("draw", help="draw the layers of a model, with the same numbers")
    for command in (explain, draw):
        _add_model(command, Settings())
        add_number(command, "--words", "vocabulary size of source and target", 40000, least=1)
        add_number(command, "--length", "tokens of a sentence", 30, least=1)
    add_flag(explain, "--json", "print JSON")
    text = "the drawing, an .svg file"
    add_file(draw, "--output", text, required=True)
    _add_verify(commands)
    about = "print the definition of a pattern of a hybrid language model"
    imported = commands.add_parser("import", help=about)
    imported.add_argument(
        "pattern",
        metavar="PATTERN",
        help="Megatron's symbols such as M-M*-, a JSON list of Hugging Face's layer_types, or a "
        "file with one of them or with a config.json; -- goes before symbols that begin with -",
    )
    text = "encoder, or decoder with attention to the source (default: %(default)s)"
    imported.add_argument("--side", choices=(ENCODER, DECODER), default=ENCODER, help=text)
    commands.add_parser("list", help="print the named architectures as a Markdown table")
    layers = commands.add_parser("layers", help="print every layer with its arguments")
    for command in (explain, draw, imported, layers):
        add_user_dir(command)


def _add_verify(commands: Any) -> None:
    """Add the sub-command ``verify``."""
    text = "check with a small network that the layers of a model do what they must"
    verify = commands.add_parser(
        "verify",
        help=text,
        description=f"{text}: steps of generation equal the full pass, padding changes nothing, no "
        "output sees later tokens, gradients are right, and the like. The weights and the "
        "sentences are random, and the same in each run. The exit code is 1 if a property fails.",
    )
    _add_model(verify, SMALL)
    verify.set_defaults(model_dim=SMALL.model_dim, attention_heads=SMALL.attention_heads)
    text = "the side of a single definition; the other side gets a simple one"
    verify.add_argument("--side", choices=[ENCODER, DECODER], help=text)
    text = "vocabulary size of source and target"
    add_number(verify, "--words", text, SMALL_WORDS, least=5)
    text = "tokens of the longest sentence (default: 9, or as many as the layers need)"
    add_number(verify, "--length", text)
    add_user_dir(verify)
    verify.example = (
        "\nexample:\n  convs2s adl verify --user-dir my_layers 'pos -> res(mine)' "
        "'rnn -> res(mine) -> mlp_att'\n"
    )


def _add_model(command: argparse.ArgumentParser, settings: Settings) -> None:
    """Add the definition of a model, and the options that its layers depend on.

    Args:
        command: a sub-command.
        settings: the defaults.
    """
    command.add_argument(
        "encoder", metavar="ENCODER", help="a chain of layers, or the name of an architecture"
    )
    command.add_argument("decoder", metavar="DECODER", nargs="?", help="a chain of layers")
    text = f"dialect of both definitions: {' or '.join(DIALECTS)} (default: %(default)s)"
    command.add_argument("--dialect", default="paper", help=text)
    text = f"channels of embeddings and layers (default: {settings.model_dim})"
    add_number(command, "--model-dim", text)
    add_number(command, "--ff-dim", "inner channels of ffl (default: 4 times its input)")
    text = f"heads of multi-head attention (default: {settings.attention_heads})"
    add_number(command, "--attention-heads", text)
    add_flag(command, "--input-feeding", "the decoder's previous output is part of its input")


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
    elif args.subcommand == "verify":
        return _verify(args)
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


def _verify(args: argparse.Namespace) -> int:
    """Print the properties of a model, each as soon as it is measured; 1 if one fails."""
    if args.side is not None:
        if args.decoder is not None:
            raise UserError("--side is for a single definition, but there are two: omit it.")
        if args.encoder in ARCHITECTURES:
            raise UserError(f"{args.encoder} names both sides of a model: omit --side.")
        if args.side == ENCODER and args.input_feeding:
            raise UserError("--input-feeding is an option of decoders: omit it, or omit --side.")
        other = OTHER_SIDE[args.side]
        sides = (args.encoder, other) if args.side == ENCODER else (other, args.encoder)
        args.encoder, args.decoder = sides
    if args.length is not None:
        check_range("--length", args.length, 1, MAX_VERIFIED)
    model_spec = _resolve_small(args)
    from ..models.adl.verify import TITLES, faults, remarks, verify, write_row

    measuring, results = verify(_options(args), model_spec, args.words, args.length), []
    print(write_row(TITLES), flush=True)
    for result in measuring:
        print(write_row(result.row), flush=True)
        results.append(result)
    found = faults(results)
    print("", *(found or ["All of this holds."]), *remarks(model_spec, args.length), sep="\n")
    return 1 if found else 0


def _resolve_small(args: argparse.Namespace) -> ModelSpec:
    """As ``_resolve``, for layers that may have been written for more channels."""
    try:
        return _resolve(args)
    except TextError as error:
        if f"{SMALL.model_dim} channels" not in str(error) or args.model_dim != SMALL.model_dim:
            raise
        raise UserError(
            f"{error}\nThe first layer gets {SMALL.model_dim} channels, unless --model-dim gives "
            "another number."
        ) from error


def _sizes(args: argparse.Namespace) -> dict[str, int]:
    """The sizes that were given."""
    names = ("model_dim", "ff_dim", "attention_heads")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _options(args: argparse.Namespace) -> AdlOptions:
    """The options of the network that ``_resolve`` has checked."""
    if args.decoder is None:
        given = ARCHITECTURES[args.encoder].as_options().options
    else:
        given = {
            "encoder_adl": args.encoder,
            "decoder_adl": args.decoder,
            "adl_dialect": args.dialect,
            "input_feeding": args.input_feeding,
        }
    return AdlOptions(**{**given, **_sizes(args)})


def _resolve(args: argparse.Namespace) -> ModelSpec:
    given = _sizes(args)
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
        one_side = "one with --side, " if args.subcommand == "verify" else ""
        raise UserError(
            f"DECODER is missing after {args.encoder}: give two chains of layers, {one_side}or the "
            "name of an architecture."
        )
    if args.encoder not in ARCHITECTURES:
        raise UserError(
            f"There is no named architecture '{args.encoder}'{nearest(args.encoder, ARCHITECTURES)}"
            ": give ENCODER and DECODER, or one of the names that `convs2s adl list` prints."
        )
    given_options = {
        "--dialect": args.dialect != AdlOptions.adl_dialect,
        "--input-feeding": args.input_feeding,
    }
    for option, is_given in given_options.items():
        if is_given:
            raise UserError(
                f"{option} is for two chains of layers, but {args.encoder} is a named "
                "architecture: omit the option."
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
