"""Check commands of fairseq without carrying them out, for ``convs2s experiment``."""

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from fairseq import options, tasks
from fairseq.registry import REGISTRIES

from convs2s.checkpoints.folders import split_names
from convs2s.common.errors import UserError, nearest
from convs2s.experiments.values import RESERVED_IN_TRAINING
from convs2s.nn.uninitialized import without_memory
from convs2s.translation.options import CANDIDATE_SIZES, EnsembleOptions

from .compat.messages import user_message
from .loading import dictionary_of_size

PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
}
# Options that name large files, or depend on a dictionary that may not be there yet.
NOT_CHECKED = "lexicon encoder_embed_path decoder_embed_path".split()
NOT_CHECKED += "sequence_candidate_file adaptive_softmax_cutoff".split()
# Size of a dictionary that is not there yet.
WORDS = 1000
# The name of an option without "--", or None, and what is wrong.
Fault = tuple[str | None, str]


def check(commands: Sequence[Sequence[str]], joined: bool) -> list[list[Fault]]:
    """The faults of each command: wrong options, and models that cannot be built.

    Args:
        commands: the words of each command.
        joined: if the data is not there yet, whether both languages will have one dictionary.
    """
    with TemporaryDirectory() as folder:
        return [[*_faults(program, words, Path(folder), joined)] for program, *words in commands]


def _faults(program: str, words: list[str], folder: Path, joined: bool) -> Iterator[Fault]:
    parser = PARSERS[program]()
    # An abbreviation might mean another option than the one that was checked.
    parser.allow_abbrev = False
    parser.exit = _refuse
    try:
        args, unknown = options.parse_args_and_arch(parser, words, parse_known=True)
        yield from _unknown(parser, unknown, words, f"{program} has no such option")
        if program == "fairseq-train":
            _build(args, folder, joined)
    except Exception as error:
        # A fairseq model may compute with values, which the meta device does not have.
        of_meta = type(error) is RuntimeError and re.search(r"\bmeta\b", str(error))
        if not isinstance(error, NotImplementedError) and not of_meta:
            other = f"{type(error).__name__}: {' '.join(str(error).split())}"
            reason = (user_message(error) or other).strip().removesuffix(".")
            named = re.search(r"--([a-z][\w-]*)", reason)
            reason = re.sub(r"^argument --\S+: ", "", reason)
            yield named and named[1], reason.replace("invalid <lambda> value:", "not a number:")


def _refuse(status: int = 0, message: str = "") -> NoReturn:
    raise UserError(message.partition("error: ")[2])


def _unknown(
    parser: ArgumentParser, unknown: Sequence[str], words: Sequence[str], reason: str
) -> Iterator[Fault]:
    """The faults of words that a parser does not know: options, and values of flags."""
    known = parser._option_string_actions
    helps = {option.removeprefix("--"): each.help or "" for option, each in known.items()}
    for name in RESERVED_IN_TRAINING:
        helps.pop(name, None)
    for word in unknown:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--"):
            # --lr is the "learning rate for the first N epochs".
            start = re.sub("[-_]", " ", name) + " "
            described = [each for each in helps if helps[each].startswith(start)]
            near = nearest(described[0], described) if described else nearest(name, helps)
            yield name, reason + near
        for before, value in zip(words, words[1:]):
            is_flag = before in known and known[before].nargs == 0
            if value == word and is_flag and not word.startswith("--"):
                yield (
                    before.removeprefix("--"),
                    f"this is a flag, which must be true or false, not {word}",
                )


def _build(args: Namespace, folder: Path, joined: bool) -> None:
    """Build the model of a training run, which takes no memory, and the criterion.

    Args:
        args: the options of fairseq-train.
        folder: a folder for dictionaries that are not there yet.
        joined: whether both are the same.
    """
    if args.max_tokens is None and args.batch_size is None:
        raise UserError("there is neither --max-tokens nor --batch-size")
    if args.optimizer is None:
        raise UserError("there is no --optimizer")
    for kind, registry in REGISTRIES.items():
        settings = registry["dataclass_registry"].get(getattr(args, kind, None))
        for each in fields(settings) if settings else ():
            if each.type in (int, float, str) and getattr(args, each.name, 0) is None:
                option, chosen = each.name.replace("_", "-"), getattr(args, kind)
                raise UserError(f"there is no --{option}, which {kind} {chosen} needs")
    if getattr(args, "lexicon", None) is not None:
        # Its candidates, which would be refused without it, are not checked either.
        vars(args).update({name: getattr(EnsembleOptions, name) for name in CANDIDATE_SIZES})
    vars(args).update({name: None for name in NOT_CHECKED if hasattr(args, name)})
    names = [f"dict.{language}.txt" for language in (args.source_lang, args.target_lang)]
    if not all((Path(split_names(args.data)[0]) / name).exists() for name in names):
        args.data = str(folder)
        for name, size in zip(names, (WORDS, WORDS if joined else WORDS + 1)):
            dictionary_of_size(size).save(str(folder / name))
    # fairseq-train turns these into a hydra configuration, which takes longer than everything here.
    task = tasks.setup_task(args)
    with without_memory():
        task.build_model(args)
        task.build_criterion(args)


def main() -> None:
    """Check what standard input asks for: the arguments of ``check`` in JSON."""
    with redirect_stdout(sys.stderr):
        found = check(**json.load(sys.stdin))
    print(json.dumps(found))
