"""``convs2s rerank``: choose translations from n-best lists."""

import argparse
import json
import math
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..common.errors import UserError
from ..common.output_files import check_text_writable, write_lines
from ..common.quiet import quiet
from ..evaluation.nbest import NBest, read_nbest
from ..evaluation.systems import read_matching, read_sentences
from ..translation.options import EnsembleOptions
from .arguments import add_batches, add_file, add_input, add_number, files_of_folder
from .plugin import load_model

if TYPE_CHECKING:
    from ..evaluation.reranking import Features

# The names in SENTENCE_SCORES.
UTILITIES = ("bleu", "chrf")
BPE = ("subword_nmt", "sentencepiece", "none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = "n-best lists, of `fairseq-generate --nbest N` or `convs2s translate --nbest N`"
    add_input(parser, "lists", text)
    add_file(parser, "--output", "chosen translations (default: standard output)")
    text = "sub-words that are joined in translations (default: %(default)s)"
    parser.add_argument("--remove-bpe", choices=BPE, default=BPE[0], help=text)
    features = parser.add_argument_group("what the choice depends on")
    text = (
        "expected utility, for minimum Bayes risk: the mean score of a hypothesis if another "
        "one of the list were the reference"
    )
    features.add_argument("--utility", choices=UTILITIES, help=text)
    text = (
        "with --utility: probabilities of hypotheses are proportional to 2^(score / T) (default: "
        "all are equal)"
    )
    add_number(features, "--temperature", text, metavar="T", kind=float)
    text = "scores of the hypotheses, one per line; give the option again for further ones"
    features.add_argument("--scores", action="append", default=[], metavar="NAME=FILE", help=text)
    features.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=CHECKPOINT",
        help="score the hypotheses with this model, which needs lists of fairseq-generate without "
        "--remove-bpe; give the option again for further models",
    )
    weights = parser.add_argument_group("weights")
    text = (
        "choose the largest weighted sum of these: JSON such as "
        '{"score": 1, "words": 0.1, "other": 0.5}, with a number for each score and for words'
    )
    add_input(weights, "--weights", text)
    text = "references, one per line (default: those in the lists, if there are any)"
    add_input(weights, "--references", text)
    model = parser.add_argument_group("models")
    add_input(model, "--data", "folder of the dictionaries", "folder", metavar="DIR")
    add_batches(model, "largest number of tokens in a batch")


def run(args: argparse.Namespace) -> int:
    """Choose, write the translations, and print scores if there are references."""
    _check(args)
    lists = read_nbest(args.lists, args.remove_bpe)
    references = _references(args, lists)
    features = _features(args, lists)
    texts = [hypothesis.text for each in lists for hypothesis in each.hypotheses]
    if args.weights:
        weights = _read_weights(args.weights)
    else:
        weights = {name: float(name == args.utility) for name in features.values}
    chosen = [texts[place] for place in features.best(weights)]
    if references is not None:
        _report(lists, chosen, references)
    if args.output:
        write_lines(args.output, chosen)
    else:
        sys.stdout.writelines(f"{line}\n" for line in chosen)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the options, before anything is computed."""
    if args.temperature is not None and not args.temperature > 0.0:
        raise UserError(
            f"--temperature is {args.temperature}, but must be above 0; omit it for equal "
            "probabilities."
        )
    if args.temperature is not None and not args.utility:
        raise UserError("--temperature has no effect without --utility bleu or --utility chrf.")
    if not args.weights:
        if args.scores or args.model:
            raise UserError("--scores and --model need weights: give them with --weights FILE.")
        if not args.utility:
            raise UserError(
                "There is nothing to choose by: give --utility bleu or --utility chrf, or "
                "--weights FILE."
            )
    features = [text.partition("=")[2] for text in (*args.scores, *args.model)]
    read = [args.lists, args.references, args.weights, *features, *files_of_folder(args.data)]
    if args.output:
        check_text_writable(args.output, read)


def _references(args: argparse.Namespace, lists: Sequence[NBest]) -> list[str] | None:
    if args.references:
        return read_matching(args.references, f"the text of {args.lists}", len(lists))
    found = [each.reference for each in lists if each.reference is not None]
    return found if len(found) == len(lists) else None


@quiet()
def _features(args: argparse.Namespace, lists: Sequence[NBest]) -> "Features":
    """The features that the options ask for."""
    import numpy as np

    from ..evaluation.reranking import basic_features, expected_utilities, model_scores, read_scores
    from ..evaluation.sentence_scores import SENTENCE_SCORES

    features = basic_features(lists)
    ensemble_options = EnsembleOptions(max_tokens=args.max_tokens, device=args.device)
    values = dict(features.values)
    if args.utility:
        utility = SENTENCE_SCORES[args.utility]()
        values[args.utility] = np.concatenate(
            [expected_utilities(each.hypotheses, utility, args.temperature) for each in lists]
        )
    for text in args.scores:
        name, path = _named("scores", text, values)
        values[name] = read_scores(path, int(features.bounds[-1]))
    for text in args.model:
        name, path = _named("model", text, values)
        values[name] = model_scores(path, args.data, lists, ensemble_options, load_model)
    return replace(features, values=values)


def _named(option: str, text: str, taken: Collection[str]) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator or not name or not path:
        raise UserError(f"--{option} is '{text}', but must be NAME=FILE, such as second={text}.")
    if name in taken or name in UTILITIES:
        raise UserError(
            f"--{option} {text}: there is another feature called {name}; choose another name "
            f"(score, words and {', '.join(UTILITIES)} are those of the command)."
        )
    return name, path


def _read_weights(path: str) -> dict[str, float]:
    text = "\n".join(read_sentences(path))
    try:
        weights = {str(name): float(weight) for name, weight in json.loads(text).items()}
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f'{path} has no weights: give JSON such as {{"score": 1, "words": 0.1}} (--weights).'
        ) from error
    for name, weight in weights.items():
        if not math.isfinite(weight):
            raise UserError(f"The weight of {name} in {path} is {weight}: give a finite number.")
    return weights


def _report(lists: Sequence[NBest], chosen: Sequence[str], references: Sequence[str]) -> None:
    """Print the scores of the first hypotheses, of the chosen and of the best ones."""
    from ..evaluation.scores import score
    from ..evaluation.sentence_scores import SentenceBLEU

    first = [each.hypotheses[0].text for each in lists]
    bleu = SentenceBLEU()
    best = [
        max(
            (hypothesis.text for hypothesis in each.hypotheses),
            key=partial(bleu.score, reference=reference),
        )
        for each, reference in zip(lists, references)
    ]
    for name, texts in (("first", first), ("chosen", chosen), ("best by sentence BLEU", best)):
        scores = score(texts, references)
        print(f"{name}: BLEU {scores['sacrebleu']:.2f}, chrF {scores['chrf']:.2f}", file=sys.stderr)
