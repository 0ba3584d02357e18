"""``convs2s lexicon``: which words translate which, from parallel text."""

import argparse
import os
from collections.abc import Iterator

from ..errors import UserError
from ..lexicon.aligner import MAX_WORDS, align
from ..lexicon.counts import LinkCounts
from ..lexicon.files import write_lexicon
from ..lexicon.links import AlignedPair, read_aligned
from ..lexicon.symmetrize import METHODS
from ..text_files import check_writable, read_parallel
from .progress import Progress

DEFAULT_METHOD = "grow-diag-final-and"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The text, its alignment, and what of it is written."""
    text = "tokenised as for fairseq-preprocess (BPE included); .gz is unpacked"
    parser.add_argument("--source", metavar="FILE", required=True, help=text)
    parser.add_argument("--target", metavar="FILE", required=True, help="the same for the target")
    parser.add_argument(
        *("--output", "-o"),
        metavar="FILE",
        required=True,
        help="where 'source target p(target|source)' goes, each source word's best entry last",
    )
    parser.add_argument(
        "--reverse-output", metavar="FILE", help="where 'target source p(source|target)' goes"
    )
    parser.add_argument(
        "--alignments",
        metavar="FILE",
        nargs="+",
        help="links in Pharaoh format (0-0 1-2, source-target) instead of eflomal's: one file, or "
        "the forward and the reverse one to be symmetrised",
    )
    parser.add_argument(
        "--symmetrise",
        choices=tuple(METHODS),
        help=f"how links of two directions become one alignment (default: {DEFAULT_METHOD})",
    )
    parser.add_argument(
        "--min-probability",
        metavar="P",
        type=float,
        default=0.0,
        help="leave out less probable entries (default: %(default)s)",
    )
    parser.add_argument(
        "--max-per-word",
        metavar="N",
        type=int,
        default=100,
        help="keep each word's N most probable entries (default: %(default)s)",
    )
    parser.add_argument(
        "--block-pairs",
        metavar="N",
        type=int,
        default=500_000,
        help="align N sentence pairs at a time, which bounds eflomal's memory "
        "(default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Align, count, write; say what was made."""
    _check(args)
    counts = LinkCounts()
    pairs = unlinked = 0
    with Progress("sentence pairs") as progress:
        for pairs, pair in enumerate(_aligned(args, progress), start=1):
            counts.add(pair)
            unlinked += not pair[-1]
            progress.reached(pairs)
    if pairs == unlinked:
        raise UserError(
            f"No words of {args.source} and {args.target} are linked ({pairs:,} sentence pairs): "
            "there is no lexicon to write."
        )
    if unlinked:
        never = f" (eflomal gives none to an empty side or to more than {MAX_WORDS:,} words)"
        why = "" if args.alignments else never
        print(f"{unlinked:,} of {pairs:,} sentence pairs have no links{why}")
    for path, reverse in ((args.output, False), (args.reverse_output, True)):
        if path is not None:
            entries = counts.entries(args.min_probability, args.max_per_word, reverse)
            print(f"{path}: {write_lexicon(path, entries):,} entries, {pairs:,} sentence pairs")
    return 0


def _aligned(args: argparse.Namespace, progress: Progress) -> Iterator[AlignedPair]:
    method = args.symmetrise or DEFAULT_METHOD
    if args.alignments:
        return read_aligned(args.source, args.target, args.alignments, method)
    lines = ((source, target) for _, (source, target) in read_parallel([args.source, args.target]))

    def announce(first: int, last: int) -> None:
        progress.say(f"eflomal aligns sentence pairs {first:,} to {last:,}")

    return align(lines, method, args.block_pairs, announce)


def _check(args: argparse.Namespace) -> None:
    if not 0.0 <= args.min_probability <= 1.0:
        raise UserError(f"--min-probability is {args.min_probability}: it must be from 0 to 1.")
    for option in ("max_per_word", "block_pairs"):
        if getattr(args, option) < 1:
            raise UserError(
                f"--{option.replace('_', '-')} is {getattr(args, option)}: it must be at least 1."
            )
    alignments = args.alignments or []
    if len(alignments) > 2:
        raise UserError(
            f"--alignments has {len(alignments)} files: give one, or the forward and the reverse "
            "one of the whole text."
        )
    if args.symmetrise and len(alignments) == 1:
        raise UserError(
            f"--symmetrise {args.symmetrise} needs two directions, but --alignments has one file: "
            "give the forward and the reverse one, or leave out --symmetrise."
        )
    read = {os.path.realpath(path) for path in (args.source, args.target, *alignments)}
    for option in ("output", "reverse_output"):
        path = getattr(args, option)
        if path is None:
            continue
        if os.path.realpath(path) in read:
            raise UserError(
                f"--{option.replace('_', '-')} is {path}, which another option names too: "
                "it would be overwritten."
            )
        read.add(os.path.realpath(path))
        check_writable(path)
