"""``convs2s lexicon``: estimate a bilingual lexicon from parallel text."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.output_files import check_outputs
from ..common.progress import show_progress
from ..common.text_files import read_parallel
from ..text.lexicon.aligner import MAX_WORDS, align
from ..text.lexicon.files import write_lexicon
from ..text.lexicon.links import METHODS, AlignedPair, read_aligned
from .arguments import add_file, add_input, add_number

if TYPE_CHECKING:
    from tqdm.std import tqdm

DEFAULT_METHOD = "grow-diag-final-and"
BLOCK_PAIRS, MAX_PER_WORD = 500_000, 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = "text, tokenized as for fairseq-preprocess (BPE included); may be compressed (.gz)"
    add_input(parser, "--source", f"source {text}", required=True)
    add_input(parser, "--target", "the same for the target", required=True)
    text = (
        "lexicon to write: lines 'source target p(target|source)', the most probable "
        "translation of each source word last"
    )
    add_file(parser, "--output", text, required=True)
    text = "reverse lexicon to write: lines 'target source p(source|target)'"
    add_file(parser, "--reverse-output", text)
    text = (
        "word alignments in Pharaoh format (0-0 1-2, source-target) to use instead of eflomal: one "
        "file, or a forward and a reverse one to symmetrize"
    )
    add_input(parser, "--alignments", text, nargs="+")
    text = f"method to symmetrize forward and reverse alignments (default: {DEFAULT_METHOD})"
    parser.add_argument("--symmetrise", choices=METHODS, help=text)
    text = "omit entries with a smaller probability"
    add_number(parser, "--min-probability", text, 0.0, metavar="P")
    text = "keep the N most probable translations of each word"
    add_number(parser, "--max-per-word", text, MAX_PER_WORD, least=1)
    text = "align N sentence pairs at a time to limit the memory of eflomal"
    add_number(parser, "--block-pairs", text, BLOCK_PAIRS, least=1)


def run(args: argparse.Namespace) -> int:
    """Align the text, write the lexicons and print a summary."""
    _check(args)
    # Help is printed faster without numpy.
    from ..text.lexicon.counts import LinkCounts

    counts = LinkCounts()
    pairs = unaligned = 0
    with show_progress(unit="sentence pairs") as progress:
        for pair in _aligned(args, progress):
            counts.add(pair)
            pairs += 1
            unaligned += not pair[-1]
            progress.update()
    if pairs == unaligned:
        raise UserError(
            f"No words of {args.source} and {args.target} are aligned ({pairs:,} sentence pairs): "
            "there is no lexicon to write."
        )
    if unaligned:
        reason = f" (eflomal aligns no empty sentences and none of more than {MAX_WORDS:,} words)"
        print(
            f"{unaligned:,} of {pairs:,} sentence pairs have no alignment links"
            f"{'' if args.alignments else reason}"
        )
    for path, reverse in ((args.output, False), (args.reverse_output, True)):
        if path is not None:
            entries = counts.entries(args.min_probability, args.max_per_word, reverse)
            print(f"{path}: {write_lexicon(path, entries):,} entries, {pairs:,} sentence pairs")
    return 0


def _aligned(args: argparse.Namespace, progress: "tqdm[Any]") -> Iterator[AlignedPair]:
    method = args.symmetrise or DEFAULT_METHOD
    if args.alignments:
        return read_aligned(args.source, args.target, args.alignments, method)
    lines = ((source, target) for _, (source, target) in read_parallel([args.source, args.target]))

    def announce(first: int, last: int) -> None:
        progress.set_postfix_str(f"eflomal aligns sentence pairs {first:,} to {last:,}")

    return align(lines, method, args.block_pairs, announce)


def _check(args: argparse.Namespace) -> None:
    if not 0.0 <= args.min_probability <= 1.0:
        raise UserError(f"--min-probability is {args.min_probability}: it must be from 0 to 1.")
    alignments = args.alignments or []
    if len(alignments) > 2:
        raise UserError(
            f"--alignments has {len(alignments)} files: give one, or the forward and the reverse "
            "one of the whole text."
        )
    if args.symmetrise and len(alignments) == 1:
        raise UserError(
            f"--symmetrise {args.symmetrise} needs two directions, but --alignments has one file: "
            "give the forward and the reverse one, or omit --symmetrise."
        )
    outputs = {"--output": args.output, "--reverse-output": args.reverse_output}
    check_outputs(outputs, (args.source, args.target, *alignments))
