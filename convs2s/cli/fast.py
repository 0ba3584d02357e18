"""``convs2s fast``: a fast copy of a model, which loses no quality on the validation text."""

import argparse
import shlex
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..checkpoints.folders import FAST, fast_copy, find_checkpoints
from ..common.errors import UserError
from ..common.limits import option_name
from ..common.output_files import check_writable
from ..common.progress import show_progress
from ..common.quiet import quiet
from ..common.tables import Table, number, show
from ..common.text_files import read_lines, read_parallel
from ..evaluation.metrics import MetricOptions, default_tokenizer, sacrebleu_score
from ..text.lexicon.files import write_lexicon
from ..text.preparation import TEXT, TOKENS, Preparation
from ..translation.options import EnsembleOptions
from .arguments import HYPOTHESES, add_hypotheses, add_input, given
from .lexicon import MAX_PER_WORD

# The most sentence pairs that the model aligns for its lexicon.
MAX_PAIRS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = "folder that `convs2s prepare` wrote, with the text that the model was trained on"
    add_input(parser, "prepared", text, "folder", metavar="PREPARED", type=Path)
    text = "the trained model, or its folder (default: PREPARED)"
    add_input(parser, "--path", text, "checkpoint or folder", metavar="CHECKPOINT")
    add_hypotheses(parser)


@quiet()
def run(args: argparse.Namespace) -> int:
    """Measure what makes the model faster, print a table, and write the fast copy."""
    search = given(args, HYPOTHESES)
    EnsembleOptions(**search).check()
    path = find_checkpoints(Path(args.path or args.prepared))[0]
    output = path.parent / FAST
    check_writable(str(output), [str(path)])
    preparation = Preparation.read(args.prepared)
    languages = preparation.source.language, preparation.target.language
    train, source, target = _texts(args.prepared, languages)
    lines, references = list(read_lines(str(source))), list(read_lines(str(target)))
    from ..checkpoints.files import save_checkpoint
    from ..checkpoints.quantized import read_unquantized
    from ..text.lexicon.counts import LinkCounts
    from ..translation.fast import align, fast_checkpoint, fastest, measure
    from ..translation.text import find_preparation, near

    # Before the text is aligned, which may take a long time.
    read_unquantized(str(path))
    options = MetricOptions(tokenize=default_tokenizer(languages[1]))

    def score(texts: list[str]) -> float:
        return float(sacrebleu_score("BLEU", texts, [references], options)[0].score)

    with TemporaryDirectory() as folder:
        lexicon = str(Path(folder, "lexicon"))
        pairs = ((source, target) for _, (source, target) in read_parallel(list(map(str, train))))
        counts = LinkCounts()
        for pair in align(str(path), args.prepared, list(islice(pairs, MAX_PAIRS))):
            counts.add(pair)
        write_lexicon(lexicon, counts.entries(0.0, MAX_PER_WORD))
        found = []
        with show_progress(unit="ways to translate") as progress:
            for each in measure(str(path), args.prepared, lexicon, lines, score, search):
                found.append(each)
                progress.update()
        chosen = fastest(found)
        rows = [[each.what, number(each.bleu), number(each.speed, 0)] for each in found]
        print(show(Table(["model", "BLEU (validation)", "sentences/s of a core"], rows)))
        save_checkpoint(fast_checkpoint(str(path), args.prepared, chosen.options), str(output))
    what = chosen.what
    if chosen is found[0]:
        what = "the model as it is, since nothing is faster without a loss of quality"
    print(f"{output}: {what}. Translate with it:")
    command = ["convs2s", "translate"]
    if find_preparation(near(str(path))) is None:
        command += ["--preparation", str(args.prepared)]
    print(shlex.join([*command, *_named(output), *_changed(search), "--input", "FILE"]))
    return 0


def _named(output: Path) -> list[str]:
    """The words of `convs2s translate` that name a fast copy."""
    # `--fast` needs a model whose name is looked for in a folder.
    with suppress(UserError):
        if fast_copy(output.parent) == output:
            return ["--path", str(output.parent), "--fast"]
    return ["--path", str(output)]


def _changed(search: dict[str, Any]) -> list[str]:
    """The options of a search that are not the defaults, as words of a command."""
    words = []
    for name, value in search.items():
        if value != getattr(EnsembleOptions, name):
            # With fewer digits, 1000000 would be 1e+06, which is not an integer.
            words += [option_name(name)] if value is True else [option_name(name), f"{value:.12g}"]
    return words


def _texts(prepared: Path, languages: tuple[str, str]) -> tuple[list[Path], Path, Path]:
    """The files of tokens to learn from, and of text to measure with, source and target each.

    Raises:
        UserError: if one is missing.
    """
    train = [prepared / TOKENS / f"train.{language}" for language in languages]
    source, target = (prepared / TEXT / f"valid.{language}" for language in languages)
    for file in (*train, source, target):
        if not file.is_file():
            raise UserError(
                f"There is no {file}, from which `convs2s fast` learns or measures: prepare the "
                "text again with `convs2s prepare`."
            )
    return train, source, target
