"""The options that several commands have, and the kinds of options."""

import argparse
import os
from pathlib import Path
from typing import Any

from ..checkpoints.folders import split_paths
from ..common.errors import UserError
from ..common.limits import check_at_least, option_name
from ..translation.options import (
    AUTOCAST_DTYPES,
    BUFFER_SIZE,
    ENGINES,
    MAX_BEAM_TOKENS,
    MAX_TOKENS,
    TORCH,
    EnsembleOptions,
)

# The options of a ``Translator`` that the functions below add, by their names in Python.
PREPARATION = "data preparation bpe_codes raw source_lang target_lang".split()
HYPOTHESES = "beam lenpen min_len max_len_a max_len_b unnormalized".split()
MODEL = (
    PREPARATION
    + HYPOTHESES
    + "lexicon candidates_per_word frequent_candidates replace_unk max_tokens batch_size".split()
    + "autocast_dtype int8 device engine".split()
)
TRANSLATOR = [*MODEL, "buffer_size", "workers"]


class AtLeast(argparse.Action):
    """Stores a number that is not too small.

    Args:
        least: the smallest allowed value.
        options: those of ``argparse.Action``.
    Raises:
        UserError: if a smaller number is given.
    """

    def __init__(self, *, least: int, **options: Any):
        super().__init__(**options)
        self.least = least

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the number that was given."""
        setattr(namespace, self.dest, values)
        check_at_least(namespace, **{self.dest: self.least})


class Input(argparse.Action):
    """Stores what must exist, which is checked before a command imports anything large.

    Args:
        what: a file, a folder, or either, for the error.
        several: whether the option may be given several times.
        options: those of ``argparse.Action``.
    Raises:
        UserError: if it does not exist.
    """

    def __init__(self, *, what: str, several: bool = False, **options: Any):
        super().__init__(**options)
        self.what, self.several = what, several

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the path, or the paths, that were given."""
        for path in values if isinstance(values, list) else [values]:
            self.check(path, option_string)
        earlier = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*earlier, values] if self.several else values)

    def check(self, path: str, option: str | None) -> None:
        """Check that there is something with a name; an empty name is allowed."""
        if path and not os.path.exists(path):
            raise UserError(f"There is no {self.what} {path}{f' ({option})' if option else ''}.")


def add_flag(group: argparse._ActionsContainer, name: str, help: str) -> None:
    """Add an option without a value to a parser or a group."""
    group.add_argument(name, action="store_true", help=help)


def add_file(group: argparse._ActionsContainer, name: str, help: str, **more: Any) -> None:
    """Add an option with the name of a file to write; ``more`` is as for ``add_argument``."""
    names = (name, "-o") if name == "--output" else (name,)
    group.add_argument(*names, metavar="FILE", help=help, **more)


def add_input(
    group: argparse._ActionsContainer, name: str, help: str, what: str = "file", **more: Any
) -> None:
    """Add an option or an argument with the name of a file to read, or of a folder; see ``Input``.

    ``more`` is as for ``add_argument``.
    """
    group.add_argument(
        name, help=help, **{"metavar": "FILE", "action": Input, "what": what, **more}
    )


def add_folder(group: argparse._ActionsContainer, name: str, help: str, **more: Any) -> None:
    """Add an option with the name of a folder; ``more`` is as for ``add_argument``."""
    group.add_argument(name, metavar="DIR", help=help, **more)


def add_number(
    group: argparse._ActionsContainer,
    name: str,
    help: str,
    default: float | None = None,
    metavar: str = "N",
    kind: type | None = None,
    least: int | None = None,
) -> None:
    """Add an option with a number, of the type of its default unless ``kind`` gives another.

    The help ends with the default. ``least`` is the smallest allowed value, None if the command has
    other limits.
    """
    kind = kind or (float if isinstance(default, float) else int)
    shown = "" if default is None else " (default: %(default)s)"
    more: dict[str, Any] = {} if least is None else {"action": AtLeast, "least": least}
    group.add_argument(name, type=kind, default=default, metavar=metavar, help=help + shown, **more)


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the models."""
    models = parser.add_mutually_exclusive_group(required=True)
    text = "a trained model, or its folder; several are an ensemble"
    models.add_argument("--path", nargs="+", action="extend", metavar="CHECKPOINT", help=text)
    add_released(models)


def add_released(group: argparse._ActionsContainer) -> None:
    """Add the option that names a released model, in place of --path."""
    text = "a released model: multi30k-de-en, multi30k-en-de or pronunciation"
    group.add_argument("--model", metavar="NAME", help=text)


def ensemble_paths(args: argparse.Namespace) -> list[str]:
    """The checkpoints that the options of ``add_ensemble`` name.

    Raises:
        UserError: if there is no such file, or a released model cannot be fetched.
    """
    fast = getattr(args, "fast", False)
    if args.path is not None:
        return [path for value in args.path for path in split_paths(value, fast)]
    if fast:
        raise UserError("--fast needs --path: released models have 8 bits already. Omit --fast.")
    # It imports urllib, which would delay other commands.
    from ..translation.released import fetch

    return split_paths(str(fetch(args.model)))


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how text becomes tokens."""
    text = parser.add_argument_group(
        "preparation",
        "default: preparation.yaml in the folder of the checkpoint or of the dictionaries, or in "
        "the folder above it",
    )
    about = "folder of the preparation.yaml of `convs2s prepare`"
    add_input(text, "--preparation", about, "file or folder", metavar="DIR")
    add_dictionaries(text)
    add_input(text, "--bpe-codes", "segment tokenized text with these codes of subword-nmt")
    add_flag(text, "--raw", "the text consists of tokens separated by spaces")


def add_dictionaries(group: argparse._ActionsContainer) -> None:
    """Add the options that say where the dictionaries of a model are, to a parser or a group."""
    about = "folder of the dictionaries (default: found from the checkpoint)"
    add_input(group, "--data", about, "folder", metavar="DIR")
    add_languages(group, "the data do not say")


def add_languages(group: argparse._ActionsContainer, unless: str) -> None:
    """Add the options of the languages; ``unless`` says when they are needed."""
    group.add_argument("--source-lang", "-s", metavar="CODE", help=f"source language, if {unless}")
    group.add_argument("--target-lang", "-t", metavar="CODE", help="the same for the target")


def add_hypotheses(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options that decide which hypothesis is the best; return their group."""
    search = parser.add_argument_group("search")
    for name, text in (
        ("beam", "beam size"),
        ("lenpen", "exponent of the length in the score: above 1 favors long translations"),
        ("min_len", "smallest number of target tokens"),
        ("max_len_a", "target tokens allowed for each source token, in addition to --max-len-b"),
        ("max_len_b", "largest number of target tokens, or of those in addition to --max-len-a"),
    ):
        add_number(search, option_name(name), text, getattr(EnsembleOptions, name))
    add_flag(search, "--unnormalized", "scores without a length penalty")
    return search


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search."""
    search = add_hypotheses(parser)
    for name, text in (
        ("candidates_per_word", "with --lexicon: number of candidates of each source token"),
        ("frequent_candidates", "with --lexicon: number of frequent target tokens"),
    ):
        add_number(search, option_name(name), text, getattr(EnsembleOptions, name))
    add_input(search, "--lexicon", "restrict the target vocabulary to candidates")
    text = "replace unknown words with their source word, or with its translation in FILE"
    add_input(search, "--replace-unk", text, nargs="?", const="")


def add_speed(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options that change the speed of each batch; return their group."""
    speed = parser.add_argument_group("speed")
    default = f"{MAX_TOKENS}; with a beam of 1 or 2, {MAX_BEAM_TOKENS} divided by it"
    add_batches(speed, "largest number of source tokens in a batch", default)
    add_number(speed, "--batch-size", "largest number of sentences in a batch")
    speed.add_argument(
        "--autocast-dtype", choices=AUTOCAST_DTYPES, default="none", help="precision"
    )
    add_flag(speed, "--int8", "weights in 8 bits, on CPUs with VNNI or AMX")
    text = (
        "what computes: ctranslate2 is for models in ADL with the layers of a transformer, on a CPU"
    )
    speed.add_argument("--engine", choices=ENGINES, default=TORCH, help=text)
    return speed


def add_many_lines(speed: argparse._ArgumentGroup) -> None:
    """Add the options that change how many lines are translated at once, to those of the speed."""
    text = "number of lines that are sorted by length and translated together"
    add_number(speed, "--buffer-size", text, BUFFER_SIZE)
    text = (
        "number of processes that translate (default: for lines of a file, one for each GPU or, on "
        "a CPU, one for each thread if there are as many batches; otherwise 1)"
    )
    add_number(speed, "--workers", text)


def add_batches(
    group: argparse._ActionsContainer, text: str, default: str = str(MAX_TOKENS)
) -> None:
    """Add the size of the batches, which ``text`` explains, and the device that computes them."""
    add_number(group, "--max-tokens", f"{text} (default: {default})", kind=int)
    group.add_argument(
        "--device", metavar="NAME", help="cpu, cuda, cuda:1 (default: a GPU if there is one)"
    )


def given(args: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """The values of some options, such as PREPARATION, by their names in Python."""
    return {name: getattr(args, name) for name in names}


def files_of_text(args: argparse.Namespace) -> list[str]:
    """The files that the options of ``add_preparation`` name."""
    named = [args.bpe_codes] if args.bpe_codes else []
    return [*named, *files_of_folder(args.data), *files_of_folder(args.preparation)]


def files_of_translator(args: argparse.Namespace) -> list[str]:
    """The files that a ``Translator`` reads, without the checkpoints."""
    return [*filter(None, (args.lexicon, args.replace_unk)), *files_of_text(args)]


def files_of_folder(folder: str | None) -> list[str]:
    """The dictionaries and the preparation in the folder that an option names, if any."""
    if not folder or not os.path.isdir(folder):
        return []
    patterns = ("dict.*.txt", "preparation.yaml", "*codes.bpe", "*sentencepiece.model")
    return [str(path) for pattern in patterns for path in Path(folder).glob(pattern)]
