"""Word alignment with eflomal (Östling and Tiedemann 2016), in blocks of bounded memory."""

import logging
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...common.errors import UserError
from ...common.text_files import read_lines
from .links import AlignedPair, Link, parse_links, symmetrize

# eflomal treats longer sentences as empty.
MAX_WORDS = 1023


def align(
    pairs: Iterable[tuple[str, str]],
    method: str,
    block_pairs: int,
    on_block: Callable[[int, int], None],
) -> Iterator[AlignedPair]:
    """Align the words of sentence pairs with eflomal, ignoring case.

    Pairs with an empty side, or with a side of more than MAX_WORDS words, get no links. eflomal
    samples without a fixed seed, so two runs differ slightly.

    Args:
        pairs: tokenized source and target sentences.
        method: symmetrization method, see ``symmetrize``.
        block_pairs: number of sentence pairs in a block. Each block is aligned separately.
        on_block: called with the numbers of the first and the last sentence pair of a block before
            the block is aligned; numbers count from 1.
    Raises:
        UserError: if eflomal is not installed, or fails.
    """
    aligner = _import_eflomal().Aligner()
    remaining = iter(pairs)
    first = 1
    while True:
        block = list(islice(remaining, block_pairs))
        if not block:
            return
        on_block(first, first + len(block) - 1)
        first += len(block)
        yield from _align_block(aligner, block, method)


def _import_eflomal() -> Any:
    try:
        import eflomal
    except ImportError:
        raise UserError(
            "Word alignment needs eflomal: run `pip install eflomal` (or "
            '`pip install "convs2s-plugin[lexicon]"`), or give the links of another aligner with '
            "--alignments."
        ) from None
    logging.getLogger("eflomal").setLevel(logging.WARNING)
    return eflomal


def _align_block(aligner: Any, block: list[tuple[str, str]], method: str) -> Iterator[AlignedPair]:
    alignable = [all(0 < len(line.split()) <= MAX_WORDS for line in pair) for pair in block]
    with TemporaryDirectory(prefix="convs2s-lexicon-") as folder:
        forward, reverse = (str(Path(folder) / name) for name in ("forward", "reverse"))
        if any(alignable):
            _run(aligner, list(compress(block, alignable)), forward, reverse)
        aligned = enumerate(zip(read_lines(forward), read_lines(reverse)), start=1)
        for (source, target), has_links in zip(block, alignable):
            source_words, target_words = source.split(), target.split()
            links: set[Link] = set()
            if has_links:
                number, lines = next(aligned)
                forward_links, reverse_links = (
                    parse_links(
                        line, len(source_words), len(target_words), "eflomal's output", number
                    )
                    for line in lines
                )
                links = symmetrize(forward_links, reverse_links, method)
            yield source_words, target_words, links


def _run(aligner: Any, pairs: list[tuple[str, str]], forward: str, reverse: str) -> None:
    sources, targets = zip(*pairs)
    try:
        aligner.align(sources, targets, forward, reverse)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"eflomal failed ({error}). Its program is compiled for the processor that it was "
            "installed on: `pip install --force-reinstall --no-cache-dir eflomal` compiles it "
            "for this one. eflomal also needs space in the folder for temporary files ($TMPDIR)."
        ) from error
