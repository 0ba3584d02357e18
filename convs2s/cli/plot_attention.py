"""``convs2s plot-attention``: the attention of each target token to the source tokens.

It works for all encoder-decoder models of this package and of fairseq that return attention.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.output_files import atomic_write, check_text_writable, check_writable
from ..common.text_files import read_parallel, read_sentences
from ..pictures.figures import FORMATS, check_format, import_pyplot
from .arguments import (
    PREPARATION,
    add_file,
    add_input,
    add_number,
    add_preparation,
    add_released,
    ensemble_paths,
    files_of_text,
    given,
)
from .plugin import add_user_dir, load_model, use_user_dir

if TYPE_CHECKING:
    from ..translation.translator import Translator

# Suffixes of text files, and the decimals of the weights in them.
TEXT_FORMATS = {".html": 4, ".json": 6}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="source sentence")
    text = "a trained model, or its folder; several (--path A --path B) are shown side by side"
    models = parser.add_mutually_exclusive_group(required=True)
    models.add_argument("--path", action="append", metavar="CHECKPOINT", help=text)
    add_released(models)
    text = "a picture (.png, .pdf, .svg), a page (.html) or data (.json)"
    add_file(parser, "--output", text, required=True)
    add_input(parser, "--input", "read the sentences from a file, one per line")
    text = "target to use instead of the model's translation; once per sentence"
    parser.add_argument("--target", action="append", metavar="TEXT", help=text)
    add_input(parser, "--target-input", "read the targets of --input from a file")
    text = (
        "layers, separated by commas: all, mean, numbers or names such as 3,decoder.1 "
        "(pictures: mean; pages and data: all)"
    )
    parser.add_argument("--layers", metavar="LIST", help=text)
    text = "heads: all, mean or numbers such as 1,4 (pictures: mean; pages and data: all)"
    parser.add_argument("--heads", metavar="LIST", help=text)
    add_number(parser, "--beam", "beam size", 5, least=1)
    add_user_dir(parser)
    add_preparation(parser)


def run(args: argparse.Namespace) -> int:
    """Write the output; print the target of each sentence and the path of the output."""
    suffix = Path(args.output).suffix.lower()
    args.path = ensemble_paths(args)
    pairs = _check(args, suffix)
    pyplot = None if suffix in TEXT_FORMATS else import_pyplot()
    use_user_dir(args.user_dir)
    from ..nn.attention import MEAN
    from ..pictures.attention import DIGITS, draw
    from ..pictures.document import as_json, document, page, sentence_entry
    from ..pictures.selection import ALL, choose_layers
    from ..text.subwords import Tokenized
    from ..translation.attention import attention_of_pair, best_translation
    from ..translation.text import NOT_PREPARED, target_text

    options = given(args, [*PREPARATION, "beam"])
    translators = load_translators(args.path, load=load_model, **options)
    models, text = [each.ensemble for each in translators], translators[0].text
    if isinstance(text, Tokenized) and not args.raw:
        print(NOT_PREPARED, file=sys.stderr)
    default = ALL if suffix in TEXT_FORMATS else MEAN
    digits = TEXT_FORMATS.get(suffix, DIGITS)
    entries = []
    for number, (line, given_target) in enumerate(pairs, start=1):
        source = text.encode(line)
        if not source:
            raise UserError(f"Sentence {number} is empty after its preparation.")
        if given_target is None:
            # The attention of the first model's translation.
            target = best_translation(models[0], source)
        else:
            target = target_text(text).encode(given_target)
        found = [attention_of_pair(model, source, target) for model in models]
        of_models = [maps for attention in found for maps in attention.maps]
        maps = choose_layers(of_models, args.layers or default)
        texts = line.strip(), text.decode(" ".join(found[0].target[:-1]))
        entries.append(
            sentence_entry(
                found[0].source, found[0].target, maps, args.heads or default, digits, texts
            )
        )
        print(texts[1], flush=True)
    names = [Path(path).name for path in args.path]
    content = document(names if len(set(names)) == len(names) else args.path, entries)
    if suffix in TEXT_FORMATS:
        title = f"Attention of {', '.join(content['models'])}"
        with atomic_write(args.output) as file:
            file.write(as_json(content) if suffix == ".json" else page(content, title))
    else:
        _, missing = draw(content, pyplot, args.output)
        if missing:
            print(missing, file=sys.stderr)
    print(args.output)
    return 0


def _check(args: argparse.Namespace, suffix: str) -> list[tuple[str, str | None]]:
    """Check the options; return each sentence with its target or None."""
    read = [*args.path, args.input, args.target_input, *files_of_text(args)]
    if suffix in TEXT_FORMATS:
        check_text_writable(args.output, read)
    else:
        check_format(args.output, (*FORMATS, *TEXT_FORMATS))
        check_writable(args.output, read)
    pairs: list[tuple[str, str | None]]
    if bool(args.sentences) == bool(args.input):
        raise UserError("Give sentences, or with --input a file with one sentence per line.")
    if args.target_input and not args.input:
        raise UserError("--target-input has the targets of --input, which is missing.")
    if args.input:
        if args.target is not None:
            raise UserError("Give the targets of --input with --target-input, not with --target.")
        if args.target_input:
            lines = read_parallel((args.input, args.target_input))
            pairs = [(source.strip(), target.strip()) for _, (source, target) in lines]
        else:
            pairs = [(line.strip(), None) for line in read_sentences(args.input)]
        if not pairs:
            raise UserError(f"{args.input} is empty.")
    elif args.target is not None and len(args.target) != len(args.sentences):
        raise UserError(
            f"There are {len(args.sentences)} sentences and {len(args.target)} --target: "
            "give one --target for each sentence, or none."
        )
    else:
        pairs = list(zip(args.sentences, args.target or [None] * len(args.sentences)))
    for number, (source, target) in enumerate(pairs, start=1):
        if not source.strip():
            raise UserError(f"Sentence {number} is empty.")
        # Python keeps bytes of the command line that are not UTF-8 as lone surrogates.
        if re.search("[\ud800-\udfff]", f"{source}{target}"):
            raise UserError(f"Sentence {number} or its target is not UTF-8: convert it to UTF-8.")
    return pairs


def load_translators(paths: Sequence[str], **options: Any) -> "list[Translator]":
    """Load models that share the dictionaries of the first one, on the CPU.

    Args:
        paths: checkpoints.
        options: those of ``Translator``, for the first model; only its text is prepared.
    Raises:
        UserError: if a checkpoint, the dictionaries or the preparation cannot be read or do not
            fit.
    """
    from ..translation.translator import Translator

    first = Translator(paths[0], device="cpu", **options)
    dictionaries = first.ensemble.dictionaries
    source, target = dictionaries.languages
    same = {"data": dictionaries.folder, "source_lang": source, "target_lang": target, "raw": True}
    more = {**options, "preparation": None, "bpe_codes": None, **same}
    return [first, *(Translator(path, device="cpu", **more) for path in paths[1:])]
