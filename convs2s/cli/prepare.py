"""``convs2s prepare``: from parallel text to training data."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from ..checkpoints.folders import CHECKPOINTS
from ..common.errors import UserError, WorkInterrupted
from ..common.installation import available_cores
from ..common.shards import Shard, make_shard
from ..text import settings as defaults
from ..text.binarize import count_tokens, count_unknown, training_folders
from ..text.cleaning import REASONS, Limits
from ..text.preparation import DATA, FILE_NAME, MARKS, SIDES, TEXT, Preparation
from ..text.settings import Settings
from ..text.sources import ParallelText, find_languages
from ..text.subwords import METHODS
from ..text.tokenizers import OF_CHARACTERS, TOKENIZERS, of_sides
from ..text.workflow import prepare
from .arguments import add_file, add_flag, add_folder, add_number

# If a larger share of training pairs is left out, someone should look at the text.
MANY = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = (
        "training text: a source and a target file with one sentence per line, or one file with "
        "tab-separated values; plain, .gz, .bz2, .xz or .zst, in UTF-8"
    )
    add_file(parser, "--train", text, nargs="+", required=True)
    text = "validation text (default: pairs of the training text)"
    add_file(parser, "--valid", text, nargs="+")
    add_file(parser, "--test", "test text (default: pairs of the training text)", nargs="+")
    add_folder(parser, "--out", "output folder", required=True)
    text = "source language (default: from the file names)"
    parser.add_argument("--source-lang", metavar="LANGUAGE", help=text)
    text = "target language (default: from the file names)"
    parser.add_argument("--target-lang", metavar="LANGUAGE", help=text)
    text = (
        "take tokenizer, sub-words and dictionaries from this earlier preparation, or from the one "
        "in the folder of a model, to train that model on other text"
    )
    add_folder(parser, "--like", text)
    text = (
        f"tokenizer: {', '.join(TOKENIZERS)}, or one for source and one for target, such as "
        "letters/none (default: moses; none with sentencepiece)"
    )
    parser.add_argument("--tokenizer", metavar="NAME", help=text)
    add_flag(parser, "--lowercase", "change all text to lower case")
    text = (
        "sub-words (default: subword_nmt; sentencepiece for languages without spaces; none with "
        "characters)"
    )
    parser.add_argument("--bpe", choices=("none", *METHODS), help=text)
    text = (
        "merges of subword_nmt, vocabulary size of sentencepiece (default: from 2,000 to 32,000, "
        "by the number of training pairs), or with --bpe none the largest size of a dictionary, "
        "with its four special symbols (50,000)"
    )
    add_number(parser, "--bpe-size", text)
    text = (
        "sample the sub-words of training text, such as 0.1: the probability of skipping a merge "
        "of subword_nmt, or the exponent of the probabilities of sentencepiece"
    )
    add_number(parser, "--bpe-dropout", text, metavar="P", kind=float)
    text = (
        "with --bpe-dropout: segmentations of the training text, which epochs use in turn; the "
        "first one is plain"
    )
    add_number(parser, "--segmentations", text, defaults.SEGMENTATIONS)
    text = "separate sub-words and a separate dictionary for each language (default: joint)"
    add_flag(parser, "--separate", text)
    text = (
        f"drop training pairs with more tokens on either side (default: {defaults.MAX_LENGTH}; "
        f"{defaults.MAX_CHARACTERS:,} characters)"
    )
    add_number(parser, "--max-length", text)
    text = "drop training pairs if one side has more than R times the tokens of the other"
    add_number(parser, "--max-ratio", text, defaults.MAX_RATIO, metavar="R")
    add_flag(parser, "--keep-duplicates", "keep pairs that occur more than once")
    text = "validation pairs to cut from the training text (default: 5%%, at most 2,000)"
    add_number(parser, "--valid-size", text)
    text = "test pairs to cut from the training text; 0 for none (default: 5%%, at most 2,000)"
    add_number(parser, "--test-size", text)
    text = "processes (default: one for each processor, at most 4)"
    add_number(parser, "--workers", text, least=1)
    text = (
        "share the text among N processes, each with its --shard-id; without --shard-id, do the "
        "steps that need the whole text, before and after the processes split it"
    )
    add_number(parser, "--num-shards", text, least=1)
    text = "the shard to work on, from 0 to N-1"
    add_number(parser, "--shard-id", text, metavar="I", least=0)
    add_flag(parser, "--overwrite", "replace an earlier preparation in DIR")


def run(args: argparse.Namespace) -> int:
    """Prepare the text, print the counts and the commands that follow."""
    if not args.out:
        raise UserError("--out is empty: give the name of a folder.")
    out, shard, settings = Path(args.out), _shard(args), _settings(args)
    workers = args.workers or min(4, available_cores())
    try:
        content = prepare(settings, out, workers, args.overwrite, args.num_shards, shard)
    except KeyboardInterrupt:
        print("Interrupted; the same command continues from here.", file=sys.stderr)
        return 130
    except WorkInterrupted as error:
        raise UserError(f"{error} The same command continues from here.") from error
    if content is not None:
        _report(content, out, args.like)
    elif shard is not None:
        print(f"Shard {shard.number} of {shard.total} is done. When all are done, run the same")
        print("command without --shard-id.")
    else:
        print("Sub-words are learned. Run all shards again, to split the text into them, and")
        print("then this command.")
    return 0


def _shard(args: argparse.Namespace) -> Shard | None:
    """The shard to work on; None for the rest.

    Raises:
        UserError: if options do not fit together.
    """
    if args.shard_id is None:
        return None
    if args.num_shards is None:
        raise UserError(f"--shard-id {args.shard_id} needs --num-shards, the number of shards.")
    if args.overwrite:
        raise UserError(
            f"--overwrite with --shard-id {args.shard_id} would remove the work of other shards: "
            "give it without --shard-id, before the shards start."
        )
    return make_shard(args.shard_id, args.num_shards)


def _settings(args: argparse.Namespace) -> Settings:
    texts = {
        name: ParallelText(f"--{name}", tuple(getattr(args, name)))
        for name in defaults.SPLITS
        if getattr(args, name) is not None
    }
    chosen = (_chosen if args.like is None else _as_before)(args, [*texts.values()])
    tokenizer = chosen["tokenizer"]
    source, target = of_sides(tokenizer)
    length = defaults.default_length(tokenizer) if args.max_length is None else args.max_length
    return Settings(
        **chosen,
        texts=texts,
        limits=Limits(
            length, args.max_ratio, args.keep_duplicates, (source == "none", target == "none")
        ),
        sizes={"valid": args.valid_size, "test": args.test_size},
        dropout=args.bpe_dropout,
        segmentations=args.segmentations,
    )


def _chosen(args: argparse.Namespace, texts: list[ParallelText]) -> dict[str, Any]:
    """The settings of languages, tokens and sub-words that options or names of files say."""
    languages = find_languages(texts, args.source_lang, args.target_lang)
    method = args.bpe or defaults.default_method(args.tokenizer, languages)
    tokenizer = defaults.default_tokenizer(method) if args.tokenizer is None else args.tokenizer
    return {
        "languages": languages,
        "tokenizer": tokenizer,
        "method": method,
        "size": args.bpe_size,
        "joint": not args.separate,
        "lowercase": args.lowercase,
    }


def _as_before(args: argparse.Namespace, texts: list[ParallelText]) -> dict[str, Any]:
    """The same settings, as the preparation ``--like`` has them.

    Raises:
        UserError: if there is none, the text is in other languages, or an option says otherwise.
    """
    for name in ("tokenizer", "lowercase", "bpe", "bpe_size", "separate"):
        if getattr(args, name) not in (None, False):
            option = f"--{name.replace('_', '-')}"
            raise UserError(
                f"--like {args.like} has chosen tokens, sub-words and dictionaries: omit {option}."
            )
    preparation = Preparation.read(args.like)
    content = preparation.content
    languages = tuple(content["languages"][side] for side in SIDES)
    names = args.source_lang, args.target_lang
    if texts[0].languages() is None:
        names = names[0] or languages[0], names[1] or languages[1]
    found = find_languages(texts, *names)
    if found != languages:
        raise UserError(
            f"--like {args.like} is for {languages[0]} and {languages[1]}, but the text is in "
            f"{found[0]} and {found[1]}: give text in the same languages, or name them with "
            "--source-lang and --target-lang."
        )
    if "moses" in of_sides(content["tokenizer"]) and not content.get(MARKS):
        raise UserError(
            f"--like {args.like} was made by an earlier version, whose tokens were others: prepare "
            "its text again."
        )
    subwords, files = content["subwords"], preparation.files()
    digests = {content["dictionaries"][side]["sha256"] for side in SIDES}
    return {
        "languages": languages,
        "tokenizer": content["tokenizer"],
        "method": subwords["method"],
        "size": subwords.get("size"),
        "joint": files.subwords[0] == files.subwords[1] and len(digests) == 1,
        "lowercase": bool(content.get("lowercase")),
        "like": files,
    }


def _report(content: dict[str, Any], out: Path, like: str | None) -> None:
    """Print the counts, the files, and the commands that follow."""
    from ..experiments.training.forecast import forecast
    from ..experiments.training.request import read_data

    read, pairs, left_out = content["read"], content["pairs"], content["left_out"]
    print(f"{read['train']:>11,} pairs of training text read")
    for reason, count in left_out.items():
        if count:
            print(f"{count:>11,} left out: {REASONS[reason]}")
    for name, count in pairs.items():
        origin = ", cut from the training text" if name not in read else ""
        print(f"{count:>11,} pairs in {name}{origin}")
    tokens = {content["dictionaries"][side]["tokens"] for side in ("source", "target")}
    print(f"{' and '.join(f'{n:,}' for n in sorted(tokens)):>11} tokens in the dictionary")
    dropped = sum(left_out.values())
    if dropped > MANY * read["train"]:
        print(
            f"Note: {dropped / read['train']:.0%} of the training pairs were left out. Check the "
            "text, or change --max-length and --max-ratio."
        )
    languages = content["languages"].values()
    for language in languages if like is not None else ():
        name = f"train.{'-'.join(languages)}.{language}"
        paths = [folder / name for folder in training_folders(out / DATA)]
        if unknown := sum(map(count_unknown, paths)):
            share = unknown / sum(map(count_tokens, paths))
            print(
                f"Note: {share:.2%} of the {language} tokens are not in the dictionary of {like}. "
                "The model reads and writes <unk> for them."
            )
    print(f"{out / FILE_NAME} records all choices.")
    folder = shlex.quote(str(out))
    if like is None:
        print(f"\nTrain{_duration(forecast(read_data(out)))}, translate, evaluate:\n")
        print(f"convs2s train {folder}")
    else:
        print("\nContinue the training of the model, translate, evaluate:\n")
        trained = Path(like) / CHECKPOINTS / "average.pt"
        model = shlex.quote(str(trained)) if trained.exists() else "MODEL"
        print(f"convs2s train {folder} --finetune-from-model {model}")
    # The outputs of a wider beam may end too early.
    beam = " --beam 1" if of_sides(content["tokenizer"])[1] in OF_CHARACTERS else ""
    print(f"convs2s translate --path {folder}{beam} --input FILE")
    if "test" in pairs:
        source, target = (
            shlex.quote(str(out / TEXT / f"test.{content['languages'][side]}")) for side in SIDES
        )
        print(f"convs2s evaluate {folder}{beam} --source {source} --references {target}")


def _duration(seconds: float | None) -> str:
    """A forecast of the time in words; "" if there is none."""
    if seconds is None:
        return ""
    minutes = max(1, round(seconds / 60))
    if minutes < 100:
        return f" (in about {minutes} minute{'s' if minutes > 1 else ''} on these processors)"
    return f" (in about {minutes / 60:.0f} hours on these processors)"
