"""``convs2s convert-attn2d``: convert a checkpoint of the 2018 code for pervasive attention."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.output_files import atomic_write, check_writable
from .arguments import add_input

if TYPE_CHECKING:
    from torch import Tensor

    from ..checkpoints.legacy.attn2d_files import Params

VOCABULARY = (
    "{} vocabulary: LANGUAGE.infos, or a text file vocab.LANGUAGE (default: LANGUAGE.infos in the "
    "folder of the data that the options name)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "checkpoint of the 2018 code, such as model-best.pth"
    add_input(parser, "old", text, metavar="OLD.pth")
    parser.add_argument("new", metavar="NEW.pt", help="checkpoint to write")
    add_input(parser, "--params", "options of the training run (default: params.json beside OLD)")
    add_input(parser, "--source-vocab", VOCABULARY.format("source"))
    add_input(parser, "--target-vocab", VOCABULARY.format("target"))


def run(args: argparse.Namespace) -> int:
    """Write the converted checkpoint and its dictionaries, and print a summary."""
    from ..checkpoints.files import save_checkpoint
    from ..checkpoints.legacy.attn2d import convert
    from ..checkpoints.legacy.attn2d_files import (
        Params,
        dictionary_rows,
        dictionary_text,
        read_vocabulary,
    )

    of_params = args.params or str(Path(args.old).parent / "params.json")
    given = (args.source_vocab, args.target_vocab)
    check_writable(args.new, [args.old, of_params, *given])
    tensors = _read(args.old)
    params = Params.read(of_params)
    languages = list(params.languages().values())
    found = [
        path or _find_vocabulary(params, language, name)
        for path, language, name in zip(given, languages, ("source", "target"))
    ]
    check_writable(args.new, found)
    vocabularies = [read_vocabulary(path) for path in found]
    folder = Path(args.new).parent
    texts = {
        str(folder / f"dict.{language}.txt"): dictionary_text(tokens)
        for language, tokens in zip(languages, vocabularies)
    }
    if args.new in texts:
        raise UserError(f"{args.new} is the name of a dictionary: choose another name for NEW.")
    for path, text in texts.items():
        _check_dictionary(path, text)
    source, target = map(dictionary_rows, vocabularies)
    try:
        converted, notes = convert(tensors, params, (source, target), str(folder), args.old)
    except (IndexError, RuntimeError) as error:
        # torch's errors about shapes.
        raise UserError(f"{args.old} has weights whose sizes contradict each other.") from error
    for path, text in texts.items():
        with atomic_write(path) as file:
            file.write(text)
    save_checkpoint(converted, args.new)
    parameters = sum(tensor.numel() for tensor in converted["model"].values())
    print(f"{args.new}: {len(converted['model'])} tensors, {parameters:,} numbers")
    for path, tokens in zip(texts, vocabularies):
        print(f"{path}: {len(tokens):,} tokens")
    for note in notes:
        print(note)
    return 0


def _read(path: str) -> dict[str, "Tensor"]:
    """The state dictionary of a checkpoint, without executing anything in the file."""
    from torch import Tensor

    from ..checkpoints.legacy.reading import architecture, model_options, read_old_checkpoint

    content: Any = read_old_checkpoint(path).content
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        convnet = getattr(model_options(content), "convnet", None)
        raise UserError(
            f"{path} is a checkpoint of fairseq, trained with --arch {architecture(content)}"
            f"{f' --convnet {convnet}' if convnet else ''}. The later, fairseq-based code of the "
            "authors has other networks, without batch normalization; only checkpoints of the "
            "code of 2018 can be converted."
        )
    if not isinstance(content, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()
    ):
        raise UserError(f"{path} is not a checkpoint of the 2018 code, which holds only weights.")
    return dict(content)


def _find_vocabulary(params: "Params", language: str, name: str) -> str:
    path = os.path.join(str(params.get("data.dir", ".")), f"{language}.infos")
    if not os.path.isfile(path):
        raise UserError(
            f"There is no vocabulary {path}, where {params.path} says that the data are: give it "
            f"with --{name}-vocab."
        )
    return path


def _check_dictionary(path: str, text: str) -> None:
    """Check that a dictionary can be written and does not replace another one."""
    check_writable(path)
    file = Path(path)
    if file.is_file() and file.read_bytes() != text.encode("utf-8"):
        raise UserError(f"{path} is another dictionary: write NEW to another folder.")
