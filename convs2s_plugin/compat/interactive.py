"""fairseq-interactive: lines of its input."""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from convs2s.common.errors import UserError
from convs2s.common.text_files import decode_lines

MODULE = "fairseq_cli.interactive"


def read_lines_of_bytes() -> None:
    """Let fairseq-interactive end lines at line feeds only, and name a line that is not UTF-8.

    fairseq ends a line at a carriage return too, so that there are more outputs than lines. At
    invalid UTF-8, it drops the lines of the buffer; here they are translated first.
    """
    for module in _modules():
        module.buffered_read = functools.wraps(module.buffered_read)(buffered_read)


def forget_translated_lines() -> None:
    """Let fairseq-interactive release the lines that it has translated.

    fairseq keeps the batches of every dataset for a next epoch, some kilobytes for each line.
    """
    for module in _modules():
        module.make_batches = _forgetting(module.make_batches)


def _modules() -> list[Any]:
    """The module of the command, perhaps under two names."""
    main_module = sys.modules.get("__main__")
    modules = [sys.modules.get(MODULE)]
    if getattr(getattr(main_module, "__spec__", None), "name", None) == MODULE:
        # python -m fairseq_cli.interactive
        modules.append(main_module)
    return [module for module in modules if module is not None]


def _forgetting(original: Callable[..., Iterator]) -> Callable[..., Iterator]:
    @functools.wraps(original)
    def make_batches(lines: list[str], cfg: Any, task: Any, *arguments: Any) -> Iterator:
        before = set(task.dataset_to_epoch_iter)
        yield from original(lines, cfg, task, *arguments)
        for dataset in set(task.dataset_to_epoch_iter) - before:
            del task.dataset_to_epoch_iter[dataset]

    return make_batches


def _opened(input: str) -> IO[bytes]:
    """A file, or standard input, opened for reading.

    Raises:
        UserError: if it cannot be opened.
    """
    if input == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(input, "rb")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {input} (--input).") from error
    except OSError as error:
        raise UserError(f"{input} cannot be read (--input): {error.strerror or error}.") from error


def buffered_read(input: str, buffer_size: int) -> Iterator[list[str]]:
    """Yield the lines of a file in lists.

    Args:
        input: a text file in UTF-8, or - for standard input.
        buffer_size: the number of lines in a list; the last one may have fewer.
    Raises:
        UserError: if there is no such file, or it is not UTF-8, after the lines before were
            yielded.
    """
    standard = input == "-"
    errors = (sys.stdin.errors if standard else None) or "strict"
    with _opened(input) as file:
        lines = decode_lines(file, "the input" if standard else input, errors)
        buffer: list[str] = []
        while True:
            try:
                line = next(lines, None)
            except ValueError:
                if buffer:
                    yield buffer
                raise
            if line is not None:
                buffer.append(line.strip())
            if buffer and (line is None or len(buffer) >= buffer_size):
                yield buffer
                buffer = []
            if line is None:
                return
