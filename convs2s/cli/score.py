"""``convs2s score``: the log-probabilities of given translations, one line per pair."""

import argparse
import logging
import sys

from ..common.output_files import check_outputs, text_output
from ..common.quiet import hidden_messages
from ..common.text_files import read_parallel
from .arguments import (
    PREPARATION,
    add_batches,
    add_ensemble,
    add_file,
    add_flag,
    add_input,
    add_preparation,
    ensemble_paths,
    files_of_text,
    given,
)
from .plugin import add_user_dir, load_model, use_user_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_ensemble(parser)
    add_input(parser, "--input", "source text", required=True)
    text = "its translations, line by line"
    add_input(parser, "--target-input", text, required=True)
    text = (
        "log-probability of each translation and mean of its tokens, separated by a tab (default: "
        "standard output)"
    )
    add_file(parser, "--output", text)
    add_flag(parser, "--tokens", "also write the target tokens and the log-probability of each")
    add_preparation(parser)
    add_batches(parser, "largest number of tokens in a batch")
    add_user_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Score the pairs and write a line for each."""
    paths, texts = ensemble_paths(args), (args.input, args.target_input)
    check_outputs({"--output": args.output}, [*paths, *texts, *files_of_text(args)])
    pairs = [lines for _, lines in read_parallel(texts)]
    use_user_dir(args.user_dir)
    from ..text.subwords import Tokenized
    from ..translation.text import NOT_PREPARED
    from ..translation.translator import Translator

    with hidden_messages(logging.INFO):
        options = given(args, [*PREPARATION, "max_tokens", "device"])
        translator = Translator(paths, load=load_model, **options)
        if isinstance(translator.text, Tokenized) and not args.raw:
            print(NOT_PREPARED, file=sys.stderr)
        scored = translator.score(*([pair[side] for pair in pairs] for side in (0, 1)))
    with text_output(args.output) as output:
        for pair in scored:
            columns = [f"{pair.log_prob:.4f}", f"{pair.score:.4f}"]
            if args.tokens:
                columns.append(" ".join(pair.tokens))
                columns.append(" ".join(f"{score:.4f}" for score in pair.token_scores))
            output.write("\t".join(columns) + "\n")
    return 0
