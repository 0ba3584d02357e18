"""Word alignment by eflomal (Östling and Tiedemann 2016), in blocks of bounded memory."""

import logging
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import UserError
from ..text_files import read_lines
from .links import AlignedPair, parse_links
from .symmetrize import Link, symmetrise

# eflomal takes longer sentences for empty ones.
MAX_WORDS = 1023


def align(
    pairs: Iterable[tuple[str, str]],
    method: str,
    block_pairs: int,
    announce: Callable[[int, int], None],
) -> Iterator[AlignedPair]:
    """Sentence pairs with the links that eflomal finds, compared in lower case.

    Pairs with an empty side, or with more than MAX_WORDS words on one, get no links. eflomal draws
    random samples without a seed: two runs differ a little.

    Args:
        pairs: tokenised source and target sentences.
        method: of ``symmetrise``.
        block_pairs: how many pairs are in memory, and learn from one another, at a time.
        announce: is called with the numbers of a block's first and last pair before it is aligned.
    Returns:
        Source words, target words, links.
    Raises:
        UserError: where eflomal is not installed or fails.
    """
    aligner = _eflomal().Aligner()
    rest = iter(pairs)
    first = 1
    while True:
        block = list(islice(rest, block_pairs))
        if not block:
            return
        announce(first, first + len(block) - 1)
        first += len(block)
        yield from _align_block(aligner, block, method)


def _eflomal() -> Any:
    try:
        import eflomal
    except ImportError:
        raise UserError(
            "Word alignment needs eflomal: run `pip install eflomal` (or "
            '`pip install "convs2s-plugin[lexicon]"`), or give --alignments of another aligner.'
        ) from None
    logging.getLogger("eflomal").setLevel(logging.WARNING)
    return eflomal


def _align_block(aligner: Any, block: list[tuple[str, str]], method: str) -> Iterator[AlignedPair]:
    alignable = [all(0 < len(line.split()) <= MAX_WORDS for line in pair) for pair in block]
    with TemporaryDirectory(prefix="convs2s-lexicon-") as folder:
        forward, reverse = (str(Path(folder) / name) for name in ("forward", "reverse"))
        if any(alignable):
            _run(aligner, list(compress(block, alignable)), forward, reverse)
        found = enumerate(zip(read_lines(forward), read_lines(reverse)), start=1)
        for (source, target), has_links in zip(block, alignable):
            words, others = source.split(), target.split()
            links: set[Link] = set()
            if has_links:
                number, lines = next(found)
                forward_links, reverse_links = (
                    parse_links(line, len(words), len(others), "eflomal's output", number)
                    for line in lines
                )
                links = symmetrise(forward_links, reverse_links, method)
            yield words, others, links


def _run(aligner: Any, pairs: list[tuple[str, str]], forward: str, reverse: str) -> None:
    sources, targets = zip(*pairs)
    try:
        aligner.align(sources, targets, forward, reverse)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"eflomal failed ({error}). Its program is compiled for the processor that it was "
            "installed on: `pip install --force-reinstall --no-cache-dir eflomal` compiles it "
            "for this one. It also needs room in the folder for temporary files ($TMPDIR)."
        ) from error
