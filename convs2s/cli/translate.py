"""``convs2s translate``: translate text line by line."""

import argparse
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..common.errors import UserError
from ..common.limits import option_name
from ..common.output_files import check_outputs, text_output
from ..common.progress import show_progress
from ..common.quiet import hidden_messages
from ..common.resuming import ResumableFiles, begin_anew, record_name
from ..common.shards import WHOLE, Shard, ShardReader, make_shard
from ..common.text_files import decode_lines
from ..translation.options import TORCH, EnsembleOptions
from ..translation.results import cut_off_remark
from ..translation.writing import Position, Writer
from .arguments import (
    TRANSLATOR,
    add_ensemble,
    add_file,
    add_flag,
    add_input,
    add_many_lines,
    add_number,
    add_preparation,
    add_search,
    add_speed,
    ensemble_paths,
    files_of_folder,
    files_of_translator,
    given,
)
from .plugin import add_user_dir, load_model, use_user_dir

if TYPE_CHECKING:
    from ..translation.translator import Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, under the names that fairseq-interactive gives them."""
    add_ensemble(parser)
    add_flag(parser, "--fast", "translate with the fast copy of the model (`convs2s fast`)")
    files = parser.add_argument_group("files")
    add_input(files, "--input", "text to translate (default: standard input)")
    add_file(files, "--output", "translations (default: standard output)")
    text = "translate one of N parts of the input, whose outputs together are that of the whole"
    add_number(files, "--num-shards", text, least=1)
    add_number(files, "--shard-id", "the part to translate, from 0 to N-1", least=0)
    text = "continue an output that an earlier run with --resume started"
    add_flag(files, "--resume", text)
    text = "answer each line before reading the next one; default on a terminal"
    add_flag(files, "--line-by-line", text)
    add_file(files, "--report", "list the lines that were split or may be cut off")
    text = "the alignment of each translation with its source, in tokens: 0-0 1-2 ..."
    add_file(files, "--alignment", text)
    text = (
        "write the N best translations of each line: number of the line, score and text, separated "
        "by tabs"
    )
    add_number(files, "--nbest", text, least=1)
    add_flag(files, "--scores", "write the score and a tab before each translation")
    add_preparation(parser)
    add_search(parser)
    add_many_lines(add_speed(parser))
    add_user_dir(parser)


# The options of a translator that may change when a translation is continued.
MAY_CHANGE = {"device", "workers"}


def run(args: argparse.Namespace) -> int:
    """Translate; 1 is the exit code if a worker process ends."""
    _check(args)
    if args.input is None and sys.stdin is None:
        raise UserError("Standard input is closed: give a file with --input.")
    is_terminal = args.input is None and sys.stdin.isatty()
    by_line = args.line_by_line or is_terminal
    if by_line and (args.workers or 1) > 1:
        raise UserError(
            f"--workers {args.workers} needs many lines at a time, but lines are answered one by "
            "one here: omit --workers, or give --input FILE."
        )
    if by_line and args.resume:
        raise UserError(
            "--resume continues after whole buffers of lines, but lines are answered one by one "
            "here: omit it, or give --input FILE without --line-by-line."
        )
    if args.input == "":
        raise UserError("The name of --input is empty: give one, or omit it for standard input.")
    shard = _shard(args)
    is_counted = args.nbest is not None or args.report is not None
    reader = ShardReader(args.input, shard, is_counted) if args.input else None
    if args.output is not None and not args.resume:
        begin_anew(args.output)
    use_user_dir(args.user_dir)
    from ..text.subwords import Tokenized
    from ..translation.text import NOT_PREPARED
    from ..translation.translator import Translator
    from ..translation.workers import WorkerError

    try:
        with hidden_messages(logging.INFO):
            options = given(args, TRANSLATOR)
            if by_line:
                options["buffer_size"] = 1
            if args.workers is None and (by_line or not _is_file(args.input)):
                # Several processes would read further lines before they answer.
                options["workers"] = 1
            translator = Translator(
                ensemble_paths(args),
                nbest=args.nbest or 1,
                alignment=args.alignment is not None,
                load=load_model,
                **options,
            )
            if isinstance(translator.text, Tokenized) and not args.raw:
                print(NOT_PREPARED, file=sys.stderr)
            if is_terminal:
                print("Type a line and press return; Ctrl-D ends.", file=sys.stderr)
            _print_remarks(args, translator, _translate(args, translator, by_line, reader))
    except WorkerError as error:
        print(f"convs2s translate: error: {error}", file=sys.stderr)
        return 1
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the options, before torch is imported and a model is loaded.

    Raises:
        UserError: if a value is not allowed, a file is named twice or missing, or an output cannot
            be written.
    """
    if args.fast and args.engine != TORCH:
        raise UserError(
            f"--engine {args.engine} cannot translate with the shortlists of --fast: omit one of "
            "them."
        )
    search = {each.name for each in fields(EnsembleOptions)}
    chosen = given(args, [name for name in TRANSLATOR if name in search])
    EnsembleOptions(nbest=args.nbest or 1, **chosen).check()
    outputs = _outputs(args)
    if args.resume:
        if args.output is None:
            raise UserError("--resume continues a file: give --output.")
        outputs["--resume"] = record_name(args.output)
    read = [*ensemble_paths(args), args.input or "/dev/stdin", *files_of_translator(args)]
    check_outputs(outputs, read)


def _shard(args: argparse.Namespace) -> Shard:
    """The part of the input to translate.

    Raises:
        UserError: if an option is missing, or there is no such part.
    """
    if args.num_shards is None and args.shard_id is None:
        return WHOLE
    if args.num_shards is None or args.shard_id is None:
        raise UserError("--num-shards and --shard-id go together: give both, or neither.")
    shard = make_shard(args.shard_id, args.num_shards)
    if not args.input:
        raise UserError("--num-shards needs a file: write standard input to one, and give --input.")
    return shard


def _translate(
    args: argparse.Namespace,
    translator: "Translator",
    by_line: bool,
    reader: ShardReader | None,
) -> Position:
    """Translate all lines, and write the files; return how far they are written."""
    lines = iter(reader) if reader else decode_lines(sys.stdin.buffer, "the input")
    position = Position()
    resumable = _resumable(args, translator) if args.resume else None
    with ExitStack() as stack:
        if resumable:
            stack.enter_context(resumable)
            position = Position(**resumable.position)
            _pass_over(args, position, lines, resumable.is_finished)
            if resumable.is_finished:
                print(f"{args.output} is complete: {position.lines:,} lines.", file=sys.stderr)
                return position
            files: Mapping[str, TextIO] = resumable.files
        else:
            paths = {"--output": args.output, **_outputs(args)}
            files = {each: stack.enter_context(text_output(path)) for each, path in paths.items()}
        lines_before = reader.lines_before if reader else 0
        writer = Writer(files, position, args.nbest is not None, args.scores, lines_before)
        if not position.lines and not args.shard_id:
            writer.begin()
        for translation in translator.stream(lines, _shown(stack, reader, position.lines)):
            writer.write(translation)
            if by_line:
                files["--output"].flush()
            if resumable and position.lines % translator.buffer_size == 0:
                resumable.save(asdict(position))
        files["--output"].flush()
        if resumable:
            resumable.finish(asdict(position))
    return position


def _outputs(args: argparse.Namespace) -> dict[str, str]:
    """The files to write, by their options."""
    paths = {"--output": args.output, "--report": args.report, "--alignment": args.alignment}
    return {option: path for option, path in paths.items() if path is not None}


def _shown(stack: ExitStack, reader: ShardReader | None, done: int) -> Callable[[int], None]:
    """Shows the progress of a file, some lines of which are done, while the stack is open."""
    if reader is None:
        return lambda count: None
    progress = stack.enter_context(show_progress(unit="lines", initial=done))

    def update(count: int) -> None:
        progress.total = reader.expected
        progress.update(count)

    return update


def _resumable(args: argparse.Namespace, translator: "Translator") -> ResumableFiles:
    """The files to write, and what they depend on besides the text: options, digests of files."""
    from ..text.preparation import digest

    names = sorted({*TRANSLATOR, "model", "nbest", "scores", "num_shards", "shard_id"} - MAY_CHANGE)
    settings = {option_name(name): getattr(args, name) for name in names}
    settings |= {f"--{name}": getattr(args, name) is not None for name in ("report", "alignment")}
    folder = getattr(translator.text, "folder", None)
    for option, files in {
        "--path": ensemble_paths(args),
        "--preparation": files_of_folder(folder and str(folder)),
        "--data": map(str, translator.ensemble.dictionaries.files),
        "--bpe-codes": filter(None, [args.bpe_codes]),
        "--lexicon": filter(None, [args.lexicon]),
        "--replace-unk": filter(None, [args.replace_unk]),
    }.items():
        digests = [f"SHA-256 {digest(Path(file))[:16]}" for file in files]
        settings[option] = ", ".join(digests) or settings.get(option)
    return ResumableFiles(_outputs(args), settings, asdict(Position()))


def _pass_over(
    args: argparse.Namespace, position: Position, lines: Iterator[str], is_finished: bool
) -> None:
    """Skip the lines that an earlier run has translated.

    Raises:
        UserError: if it had another text.
    """
    if not position.pass_over(lines) or (is_finished and next(lines, None) is not None):
        raise UserError(
            f"{args.output} was started with another text than that of "
            f"{args.input or 'standard input'}: give the earlier text, or remove "
            f"{record_name(args.output)} to start again."
        )
    if position.lines and not is_finished:
        print(f"{args.output} has {position.lines:,} lines and is continued.", file=sys.stderr)


def _print_remarks(args: argparse.Namespace, translator: "Translator", position: Position) -> None:
    """Say how many lines were split, and how many translations may be cut off."""
    where = "" if args.report else " (--report FILE lists them)"
    if position.num_split:
        print(
            f"{position.num_split:,} line(s) of more than {translator.max_source_tokens:,} tokens "
            f"were split{where}.",
            file=sys.stderr,
        )
    if position.num_cut_off:
        longest = translator.ensemble.max_target_tokens
        print(cut_off_remark(position.num_cut_off, args.max_len_b, where, longest), file=sys.stderr)


def _is_file(path: str | None) -> bool:
    """Whether the lines are those of a file, with all of them at once; None is standard input."""
    try:
        return stat.S_ISREG(os.stat(path if path else sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):
        return False
