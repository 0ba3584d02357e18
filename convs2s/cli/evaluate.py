"""``convs2s evaluate``: scores of translations, summaries and alignments."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.output_files import atomic_write, check_outputs, make_folder, write_lines
from ..common.progress import show_progress
from ..common.quiet import quiet
from ..common.tables import number, show
from ..evaluation import comparison, links
from ..evaluation.comet import comet
from ..evaluation.metrics import (
    DEFAULT_METRICS,
    METRICS,
    Metric,
    MetricOptions,
    References,
    default_tokenizer,
    find_metrics,
)
from ..evaluation.systems import (
    System,
    parse_systems,
    read_matching,
    read_references,
)
from ..evaluation.test_sets import find_test_set
from ..translation.results import cut_off_remark
from .arguments import (
    TRANSLATOR,
    add_file,
    add_flag,
    add_folder,
    add_input,
    add_many_lines,
    add_number,
    add_preparation,
    add_search,
    add_speed,
    files_of_translator,
    given,
)
from .plugin import load_model

if TYPE_CHECKING:
    from ..translation.translator import Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = (
        "[NAME=]FILE with translations, one per line, or a model, which translates --source: "
        "[NAME=]CHECKPOINT.pt or its folder; CHECKPOINT.pt:CHECKPOINT.pt is an ensemble. Others "
        "are compared with the first system"
    )
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=text)
    files = parser.add_argument_group("files")
    text = "references; give the option again for further sets of references"
    add_input(files, "--references", text, several=True)
    add_input(files, "--source", "source text, for checkpoints; BLEU by length takes its lengths")
    add_file(files, "--output", "write all results as JSON")
    add_flag(files, "--json", "print the results as JSON instead of tables")
    text = "write the translations of checkpoints to this folder, one file per system"
    add_folder(files, "--translations", text)
    scores = parser.add_argument_group("scores")
    text = f"any of {', '.join(METRICS)}, separated by commas (default: %(default)s)"
    scores.add_argument("--metrics", default=",".join(DEFAULT_METRICS), metavar="NAMES", help=text)
    text = (
        "also score with this model of COMET, such as MODEL/checkpoints/model.ckpt; needs --source "
        "and the program comet-score"
    )
    add_input(scores, "--comet", text)
    add_flag(scores, "--lowercase", "compare in lower case")
    text = (
        "sacreBLEU's tokenizer for BLEU, also by length, such as zh for Chinese; "
        "tokenized_bleu always splits at spaces (default: that of sacreBLEU for --language-pair, "
        f"otherwise {MetricOptions.tokenize})"
    )
    scores.add_argument("--tokenize", metavar="NAME", help=text)
    text = (
        "largest length of each group of BLEU by length but the last, such as 10,20,30 "
        "(default: five groups of about the same size)"
    )
    scores.add_argument("--length-bounds", metavar="NUMBERS", help=text)
    text = "print only the first score of each system, one per line"
    scores.add_argument("--score-only", "-b", action="store_true", help=text)
    summaries = parser.add_argument_group("summaries")
    text = "cut summaries to N bytes before ROUGE; 75 in DUC 2004"
    add_number(summaries, "--summary-bytes", text, least=1)
    add_number(summaries, "--min-words", "count the outputs with fewer than N words", least=1)
    add_flag(summaries, "--stem", "compare the stems of English words in ROUGE")
    alignments = parser.add_argument_group("alignments")
    text = "gold alignment of source and reference: 0-0 is sure, 1p2 is only possible"
    add_input(alignments, "--gold-links", text)
    text = (
        "alignment to score against --gold-links: 0-0 1-2, source-target, counted from 0; "
        "or [NAME=]CHECKPOINT.pt, whose attention aligns --source with --references; give the "
        "option again for further alignments"
    )
    alignments.add_argument("--links", action="append", metavar="[NAME=]FILE", help=text)
    add_flag(alignments, "--gold-from-one", "positions of the gold alignment are counted from 1")
    add_preparation(parser)
    add_search(parser)
    add_many_lines(add_speed(parser))
    # In sacreBLEU, -t is the test set. It is here, too, instead of the target language.
    test_sets = parser.add_argument_group("test sets of sacreBLEU", conflict_handler="resolve")
    text = "name, such as wmt17, of source and references that sacreBLEU has downloaded"
    test_sets.add_argument("--test-set", "-t", metavar="NAME", help=text)
    text = "language pair, such as en-de"
    test_sets.add_argument("--language-pair", "-l", metavar="PAIR", help=text)


@quiet()
def run(args: argparse.Namespace) -> int:
    """Print the tables, and write the results."""
    _check(args)
    if args.test_set:
        source, args.references = find_test_set(args.test_set, args.language_pair)
        args.source = args.source or source
    systems = parse_systems(args.systems)
    _check_outputs(args, systems)
    content: dict[str, Any] = {}
    if systems:
        evaluation = _evaluate(args, systems)
        content.update(asdict(evaluation))
        if not args.json:
            _print(evaluation, args)
    if args.links:
        scores = _alignment_scores(args)
        content["alignments"] = {name: each._asdict() for name, each in scores.items()}
        if not args.json:
            print(show(links.alignment_table(scores)))
    if args.json:
        print(json.dumps(content, indent=1))
    if args.output:
        with atomic_write(args.output) as file:
            json.dump(content, file, indent=1)
            file.write("\n")
    return 0


def _print(evaluation: comparison.Evaluation, args: argparse.Namespace) -> None:
    if args.score_only:
        for result in evaluation.results:
            print(number(next(iter(result.scores.values()))))
        return
    print(show(comparison.main_table(evaluation)))
    print("\n".join(comparison.remarks(evaluation, args.min_words)))
    print(f"\nBLEU by length:\n\n{show(comparison.length_table(evaluation))}")
    for line in comparison.length_remarks(evaluation):
        print(line)


def _check(args: argparse.Namespace) -> None:
    if not args.systems and not args.links:
        raise UserError(
            "There is nothing to evaluate: give translations or checkpoints with --references, "
            "or alignments with --links and --gold-links."
        )
    if args.language_pair and not args.test_set:
        raise UserError(f"--language-pair {args.language_pair} needs --test-set NAME.")
    if args.test_set and args.references:
        raise UserError(
            f"--test-set {args.test_set} has references of its own: omit it, or --references; the "
            "target language is --target-lang."
        )
    if args.score_only and args.json:
        raise UserError("--score-only and --json print different things: omit one of them.")
    if args.score_only and (args.links or not args.systems):
        raise UserError("--score-only prints scores of systems: omit it, or --links.")
    if args.systems and not (args.references or args.test_set):
        raise UserError("Systems need --references FILE or --test-set NAME.")
    if bool(args.links) != bool(args.gold_links):
        raise UserError("--links needs --gold-links FILE, and --gold-links needs --links.")
    if args.gold_from_one and not args.gold_links:
        raise UserError("--gold-from-one needs --gold-links FILE, whose positions it counts.")
    if not args.systems or "rouge" not in args.metrics.split(","):
        for option, value in (("--summary-bytes", args.summary_bytes), ("--stem", args.stem)):
            if value:
                found = f"--metrics is {args.metrics}" if args.systems else "there are no systems"
                raise UserError(
                    f"{option} is an option of ROUGE, but {found}: give systems and --metrics "
                    f"rouge, or omit {option}."
                )
    for option, value, what in (
        ("--min-words", args.min_words, "counts short outputs of"),
        ("--length-bounds", args.length_bounds, "groups the sentences of"),
        ("--comet", args.comet, "scores"),
        ("--tokenize", args.tokenize, "is for BLEU of"),
        ("--lowercase", args.lowercase or None, "is for scores of"),
    ):
        if value is not None and not args.systems:
            raise UserError(f"{option} {what} systems, but there are none: omit it.")


def _check_outputs(args: argparse.Namespace, systems: Sequence[System]) -> None:
    """Check that the files can be written, and that none of them is also read."""
    read = [
        args.source,
        args.comet,
        args.gold_links,
        *(args.references or ()),
        *files_of_translator(args),
    ]
    for system in (*systems, *parse_systems(args.links or (), "alignments")):
        read += [system.file, *system.checkpoints]
    if args.translations == "":
        raise UserError("--translations is empty: give the name of a file.")
    outputs = {"--output": args.output}
    if args.translations and not any(system.checkpoints for system in systems):
        raise UserError(
            f"--translations {args.translations} is for the translations of checkpoints, but no "
            "system is one: omit it."
        )
    if args.translations:
        names: dict[str, str] = {}
        for system in systems:
            if system.checkpoints:
                path = _translations_file(args.translations, system)
                if (other := names.setdefault(path, system.name)) != system.name:
                    raise UserError(
                        f"The systems {other} and {system.name} would both write {path}: give one "
                        "another name, as in NAME=CHECKPOINT.pt."
                    )
                if os.path.isdir(args.translations):
                    outputs[f"the file of {system.name} in --translations"] = path
    check_outputs(outputs, read)


def _evaluate(args: argparse.Namespace, systems: Sequence[System]) -> comparison.Evaluation:
    references = read_references(args.references)
    count = len(references[0])
    source = read_matching(args.source, args.references[0], count) if args.source else None
    lengths = [len(line.split()) for line in source or references[0]]
    groups = comparison.group_by_length(lengths, _bounds(args.length_bounds))
    target = (args.language_pair or "").partition("-")[2]
    tokenize = args.tokenize or default_tokenizer(target)
    options = MetricOptions(args.lowercase, args.summary_bytes, args.stem, tokenize)
    # Before checkpoints translate, which may take a long time.
    metrics = find_metrics(args.metrics.split(","), options, references)
    if args.comet:
        metrics.append(_comet(args.comet, source, references))
    translations = {
        system.name: _translate(args, system.checkpoints, source)
        if system.file is None
        else read_matching(system.file, args.references[0], count)
        for system in systems
    }
    if args.translations:
        _write(args.translations, systems, translations)
    return comparison.evaluate(
        translations,
        references,
        groups,
        "source" if args.source else "reference",
        metrics,
        options,
        args.min_words,
        with_tests=bool(args.output) or not args.score_only,
    )


def _comet(model: str, source: Sequence[str] | None, references: References) -> Metric:
    """COMET with a model."""
    if source is None:
        raise UserError(f"--comet {model} needs the source text: give it with --source.")
    if len(references) > 1:
        raise UserError(
            f"--comet {model} compares with one set of references: give --references once."
        )
    return comet(model, source)


def _bounds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"--length-bounds is {text}: give numbers of tokens such as 10,20,30."
        ) from None


def _translate(
    args: argparse.Namespace, checkpoints: Sequence[str], source: Sequence[str] | None
) -> list[str]:
    """The translations of the source text by a model or an ensemble."""
    if source is None:
        raise UserError(f"{checkpoints[0]} has nothing to translate: give the text with --source.")
    translator = _translator(args, checkpoints)
    with show_progress(unit="sentences", desc=checkpoints[0], total=len(source)) as progress:
        translations = list(translator.stream(source, progress.update))
    if num_cut_off := sum(translation.is_cut_off for translation in translations):
        longest = translator.ensemble.max_target_tokens
        remark = cut_off_remark(num_cut_off, args.max_len_b, max_target_tokens=longest)
        print(f"{checkpoints[0]}: {remark}", file=sys.stderr)
    return [translation.text for translation in translations]


def _translator(args: argparse.Namespace, checkpoints: Sequence[str]) -> "Translator":
    from ..translation.translator import Translator

    return Translator(checkpoints, load=load_model, **given(args, TRANSLATOR))


def _write(folder: str, systems: Sequence[System], translations: dict[str, list[str]]) -> None:
    """Write the translations of all checkpoints."""
    make_folder(folder)
    for system in systems:
        if system.checkpoints:
            write_lines(_translations_file(folder, system), translations[system.name])


def _translations_file(folder: str, system: System) -> str:
    return str(Path(folder, f"{system.name.replace('/', '_')}.txt"))


def _alignment_scores(args: argparse.Namespace) -> dict[str, links.AlignmentScores]:
    gold = links.read_gold(args.gold_links, int(args.gold_from_one))
    scores = {}
    for name, checkpoints, file in parse_systems(args.links, "alignments"):
        if file is None:
            found = _model_links(args, checkpoints, len(gold))
        else:
            found = links.read_links(file, args.gold_links)
        scores[name] = links.alignment_scores(found, gold)
    return scores


def _model_links(
    args: argparse.Namespace, checkpoints: Sequence[str], count: int
) -> list[set[links.Link]]:
    """The links of a model or an ensemble between the source text and the first references."""
    if not args.source or not args.references:
        raise UserError(
            f"{checkpoints[0]} has nothing to align (--links): give the sentence pairs with "
            "--source and --references."
        )
    source, target = (
        read_matching(path, args.gold_links, count) for path in (args.source, args.references[0])
    )
    from ..translation.forced import model_links

    translator = _translator(args, checkpoints)
    return model_links(translator.ensemble, translator.text, source, target)
