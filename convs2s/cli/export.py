"""``convs2s export``: a trained model as a folder of plain files that explains itself."""

import argparse
import json
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.folders import SAFETENSORS, find_checkpoints
from ..common.data_files import read_json
from ..common.errors import UserError
from ..common.installation import processor
from ..common.limits import option_name
from ..common.output_files import (
    atomic_folder,
    atomic_write,
    check_folder_writable,
    check_writable,
)
from ..common.progress import show_progress
from ..common.quiet import quiet
from ..common.text_files import read_lines
from ..evaluation.metrics import MetricOptions, default_tokenizer, find_metrics
from ..text.preparation import (
    FILE_NAME,
    TEXT,
    Preparation,
    check_counts,
    copy_preparation,
    write_codes,
)
from ..translation.options import SearchOptions
from .arguments import add_flag, add_input, add_number, add_preparation, given

if TYPE_CHECKING:
    from ..checkpoints.export.card import Measured
    from ..translation.translator import Translator

PREPARATION = ["preparation", "data", "bpe_codes", "raw", "source_lang", "target_lang"]
# Splits of prepared text that the model was not trained on.
HELD_OUT = ("test", "valid")
METRICS = "bleu,chrf"
# Options that mean nothing for a checkpoint, with their defaults.
OF_FOLDER = {
    **dict.fromkeys(("license", "limits", "no_speed", "test", *PREPARATION)),
    "metrics": METRICS,
    "beam": SearchOptions.beam,
    "lenpen": SearchOptions.lenpen,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "trained model, or its folder"
    add_input(parser, "checkpoint", text, "checkpoint or folder", metavar="CHECKPOINT")
    text = "folder to write; or NAME.pt, to turn such a folder back into a checkpoint of fairseq"
    parser.add_argument("output", metavar="FOLDER", help=text)
    text = "license of the model for its card, such as cc-by-4.0"
    parser.add_argument("--license", metavar="NAME", help=text)
    text = "what the model is not meant for, in a sentence for its card"
    parser.add_argument("--limits", metavar="TEXT", help=text)
    text = "omit the speed, which differs between runs and machines, from the card"
    add_flag(parser, "--no-speed", text)
    add_input(
        parser,
        "--test",
        "text and its translation, to measure the model with (default: the test text of the "
        "preparation, or else the validation text)",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
    )
    text = "those of `convs2s evaluate`, separated by commas (default: %(default)s)"
    parser.add_argument("--metrics", default=METRICS, metavar="NAMES", help=text)
    for name, text in (("beam", "beam size"), ("lenpen", "exponent of the length in the score")):
        add_number(parser, f"--{name}", f"{text} to measure with", getattr(SearchOptions, name))
    add_preparation(parser)


@quiet()
def run(args: argparse.Namespace) -> int:
    """Write the folder and print how good the model is."""
    path = find_checkpoints(Path(args.checkpoint))[0]
    if args.output.endswith(".pt"):
        for name, default in OF_FOLDER.items():
            if getattr(args, name) not in (default, None, False):
                raise UserError(
                    f"{option_name(name)} is for a folder to share, but {args.output} is a "
                    "checkpoint: omit it."
                )
        return _make_checkpoint(path, args.output)
    check_folder_writable(args.output)
    find_metrics(args.metrics.split(","), MetricOptions())
    from ..checkpoints.networks import check_left_to_right
    from ..translation.translator import Translator

    translator = Translator(path, device="cpu", **given(args, PREPARATION))
    if translator.ensemble.checkpoint.family is not None:
        check_left_to_right(translator.ensemble.checkpoint, "transformers")
    pair = _held_out(args.test, translator)
    with atomic_folder(args.output) as folder:
        _write(path, Path(folder), translator, pair, args)
    names = sorted(file.name for file in Path(args.output).iterdir())
    print(f"{args.output}: {', '.join(names)}. Translate with it:")
    search = f"--beam {args.beam} --lenpen {args.lenpen:g}"
    print(f"convs2s translate --path {shlex.quote(args.output)} {search} --input FILE")
    return 0


def _make_checkpoint(path: Path, output: str) -> int:
    """Write a checkpoint of fairseq from an exported folder."""
    if path.suffix != SAFETENSORS:
        raise UserError(
            f"{path} is a checkpoint of fairseq already: give the folder that `convs2s export` "
            "wrote, or a folder to write, which does not end in .pt."
        )
    check_writable(output, [str(path)])
    from ..checkpoints.files import load_checkpoint, save_checkpoint

    save_checkpoint(load_checkpoint(str(path)), output)
    print(f"{output}: {Path(output).stat().st_size / 1e6:,.1f} MB")
    return 0


def _write(
    path: Path,
    folder: Path,
    translator: "Translator",
    pair: tuple[str, list[str], list[str]] | None,
    args: argparse.Namespace,
) -> None:
    """Write all files, read them again, and write the card."""
    from ..checkpoints.export.card import Card
    from ..checkpoints.model_folder import GENERATION, WEIGHTS, write_model
    from ..translation.translator import Translator

    dictionaries, text = translator.ensemble.dictionaries, translator.text
    if isinstance(text, Preparation) and "pairs" in text.content:
        check_counts(text.content, text.folder / FILE_NAME)
    for path_of_words in dict.fromkeys(dictionaries.files):
        shutil.copyfile(path_of_words, folder / path_of_words.name)
    command = "convs2s export"
    if isinstance(text, Preparation):
        copy_preparation(text, folder, command)
    elif args.bpe_codes:
        write_codes(folder, command, dictionaries.languages, Path(args.bpe_codes))
    source, target = dictionaries.vocabularies
    words = source.symbols, target.symbols
    exported = write_model(folder, str(path), dictionaries.languages, words)
    longest = exported.config.model["max_target_positions"]
    with atomic_write(str(folder / GENERATION)) as file:
        json.dump(_search_of_transformers(args.beam, args.lenpen, longest), file, indent=2)
    prepared = (folder / FILE_NAME).is_file()
    again = Translator(
        folder / WEIGHTS, device="cpu", raw=not prepared, beam=args.beam, lenpen=args.lenpen
    )
    card = Card(
        Path(args.output).resolve().name,
        dictionaries.languages,
        exported.config,
        (len(source), len(target)),
        exported.parameters,
        (folder / WEIGHTS).stat().st_size / 1e6,
        text.content if isinstance(text, Preparation) else None,
        _run(path.parent / "result.json"),
        None if pair is None else _measure(again, *pair, args),
        args.license,
        args.limits,
    )
    with atomic_write(str(folder / "README.md")) as readme:
        readme.write(card.text())


def _search_of_transformers(beam: int, lenpen: float, longest: int) -> dict[str, Any]:
    """The options with which ``generate`` of transformers searches as this library does.

    Args:
        beam: beam size.
        lenpen: exponent of the length in the score.
        longest: the largest number of target tokens of the model, end of sentence included.
    """
    from ..models.interface import Vocabularies

    symbols = Vocabularies(0, 0)
    of_beams = {"length_penalty": lenpen, "early_stopping": True} if beam > 1 else {}
    return {
        "num_beams": beam,
        **of_beams,
        "do_sample": False,
        "min_new_tokens": SearchOptions.min_len,
        "max_new_tokens": min(SearchOptions.max_len_b + 1, longest),
        "forced_eos_token_id": symbols.eos,
        "suppress_tokens": [symbols.pad],
        "bos_token_id": symbols.bos,
        "pad_token_id": symbols.pad,
        "eos_token_id": symbols.eos,
        "decoder_start_token_id": symbols.eos,
    }


def _run(path: Path) -> dict[str, Any] | None:
    """The result of the experiment's run that trained the model, if there is one."""
    content = read_json(path) if path.is_file() else None
    # Other programs write files of this name as well.
    if not isinstance(content, dict) or not isinstance(content.get("trial_options"), dict):
        return None
    searches = content.get("searches")
    known = isinstance(searches, list) and all(isinstance(each, dict) for each in searches)
    return content if known else None


def _measure(
    translator: "Translator",
    name: str,
    lines: Sequence[str],
    references: Sequence[str],
    args: argparse.Namespace,
) -> "Measured":
    """Translate held-out text, and score it."""
    import torch

    from ..checkpoints.export.card import Measured

    # What is made once is not measured.
    translator.translate(lines[:1])
    start = time.perf_counter()
    with show_progress(unit="lines", desc=f"Translating {name}", total=len(lines)) as progress:
        translations = translator.stream(lines, progress.update)
        texts = [translation.text for translation in translations]
    seconds = time.perf_counter() - start
    options = MetricOptions(tokenize=default_tokenizer(translator.languages[1]))
    scores = {}
    for metric in find_metrics(args.metrics.split(","), options):
        found = metric.score(texts, [references], options)
        for title, value in found.values.items():
            scores[title] = value, found.settings
            print(f"{title} {value:.2f} ({name})")
    search = {"beam": args.beam, "lenpen": args.lenpen}
    if args.no_speed:
        return Measured(name, len(texts), search, scores)
    count = torch.get_num_threads()
    threads = f"{count} thread{'s' * (count > 1)}, {processor()}"
    return Measured(name, len(texts), search, scores, seconds, threads)


def _held_out(
    test: Sequence[str] | None, translator: "Translator"
) -> tuple[str, list[str], list[str]] | None:
    """The name of a text that the model was not trained on, and its lines on both sides.

    Raises:
        UserError: if the sides have different numbers of lines, or no lines.
    """
    name = "test"
    if test is None and isinstance(translator.text, Preparation):
        for name in HELD_OUT:
            files = [
                translator.text.folder / TEXT / f"{name}.{side}" for side in translator.languages
            ]
            if all(file.is_file() for file in files):
                test = [str(file) for file in files]
                break
    if test is None:
        return None
    source, target = (list(read_lines(file)) for file in test)
    if len(source) != len(target) or not source:
        raise UserError(
            f"{test[0]} has {len(source):,} lines and {test[1]} has {len(target):,}: they must "
            "have the same number, and at least one."
        )
    return name, source, target
