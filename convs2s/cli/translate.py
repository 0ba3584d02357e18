"""``convs2s translate``: translate lines of text, one line for one line."""

import argparse
import logging
import os
import stat
import sys
from contextlib import ExitStack
from dataclasses import fields
from typing import TYPE_CHECKING

from ..common.compression import ERRORS, open_binary
from ..common.errors import UserError
from ..common.output_files import atomic_write, check_outputs, text_output
from ..common.progress import Progress
from ..common.quiet import hidden_messages
from ..common.text_files import decode_lines, read_lines
from ..translation.options import TORCH, EnsembleOptions
from ..translation.results import (
    REPORT_HEADER,
    alignment_lines,
    cut_off_remark,
    is_reported,
    output_lines,
    report_line,
)
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
    files_of_translator,
    given,
)
from .plugin import add_user_dir, load_model, use_user_dir

if TYPE_CHECKING:
    from ..translation.translator import Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; those that fairseq-interactive has too, have its names."""
    add_ensemble(parser)
    add_flag(parser, "--fast", "translate with the fast copy of the model (`convs2s fast`)")
    files = parser.add_argument_group("files")
    add_input(files, "--input", "text to translate (default: standard input)")
    add_file(files, "--output", "translations (default: standard output)")
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


def run(args: argparse.Namespace) -> int:
    """Translate; 1 is the exit code if a worker process ends."""
    _check(args)
    is_terminal = args.input is None and sys.stdin.isatty()
    by_line = args.line_by_line or is_terminal
    if by_line and (args.workers or 1) > 1:
        raise UserError(
            f"--workers {args.workers} needs many lines at a time, but lines are answered one by "
            "one here: leave out --workers, or give --input FILE."
        )
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
                # Several processes would read on before they answer.
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
            _translate(args, translator, by_line)
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
    outputs = {"--output": args.output, "--report": args.report, "--alignment": args.alignment}
    read = [*ensemble_paths(args), args.input or "/dev/stdin", *files_of_translator(args)]
    check_outputs(outputs, read)


def _translate(args: argparse.Namespace, translator: "Translator", by_line: bool) -> None:
    """Translate all lines, and write the files."""
    lines = read_lines(args.input) if args.input else decode_lines(sys.stdin.buffer, "the input")
    with ExitStack() as stack:
        open_file = stack.enter_context
        output = open_file(text_output(args.output))
        alignment = open_file(atomic_write(args.alignment)) if args.alignment else None
        report = open_file(atomic_write(args.report)) if args.report else None
        if report:
            report.write(REPORT_HEADER)
        num_split = num_cut_off = 0
        if args.input:
            progress = open_file(Progress(unit="lines", total=_count_lines(args.input)))
            translations = translator.stream(lines, progress.update)
        else:
            translations = translator.stream(lines)
        for number, translation in enumerate(translations, start=1):
            written = output_lines(translation, number, args.nbest is not None, args.scores)
            output.writelines(written)
            if by_line:
                output.flush()
            if alignment:
                alignment.writelines(alignment_lines(translation, args.nbest is not None))
            if report and is_reported(translation):
                report.write(report_line(translation, number))
            num_split += translation.num_parts > 1
            num_cut_off += translation.is_cut_off
        output.flush()
    where = "" if args.report else " (--report FILE lists them)"
    if num_split:
        print(
            f"{num_split:,} line(s) of more than {translator.max_source_tokens:,} tokens were "
            f"split{where}.",
            file=sys.stderr,
        )
    if num_cut_off:
        print(cut_off_remark(num_cut_off, args.max_len_b, where), file=sys.stderr)


def _is_file(path: str | None) -> bool:
    """Whether the lines are those of a file, which has them all at once; None: standard input."""
    try:
        return stat.S_ISREG(os.stat(path if path else sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _count_lines(path: str) -> int | None:
    """Number of lines in a file; None if it is a pipe, which can be read only once."""
    if not _is_file(path):
        return None
    try:
        with open_binary(path) as file:
            return sum(1 for _ in file)
    except ERRORS:
        return None
