"""What to train on which data, and the command of fairseq-train that does it."""

import json
import math
import shlex
import struct
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...common.errors import UserError
from ...common.names import is_name
from ...common.plain_files import check_can_exist, open_plain
from ...text.binarize import HEADER, MARK, count_tokens, training_data
from ...text.preparation import DATA, FILE_NAME, MARKS, check_counts, digest, read_content
from ...text.tokenizers import OF_CHARACTERS, of_sides
from ..commands import USER_DIR, find_machine
from ..options import Options, arguments
from .recipes import Recipe, find_recipe, model_options
from .start import LEARNING_RATE, LENGTH, Start

# Checkpoints of epochs that are kept for the average.
KEPT = 4
# Positions of a model's embeddings, without the end of sentence and the padding before it.
MAX_TOKENS = 1022

# The share of --max-tokens that batches have: 0.85 with Multi30k and batches of 1,000.
FILLED = 0.85

# Method of sub-words -> the value with which fairseq joins them.
JOINED = {"subword_nmt": "@@ ", "sentencepiece": "sentencepiece"}


class Data(NamedTuple):
    """Binarized data to train on.

    Attributes:
        folder: its folder.
        languages: source and target.
        pairs: number of training pairs.
        joined: whether both languages have one dictionary.
        tokenizer, subwords: the tokenizer and the kind of sub-words.
        longest: tokens of the longest line to validate or test on; 0 if unknown.
        marks_spaces: whether the tokenizer has marked spaces.
        is_prepared: whether ``convs2s prepare`` wrote it.
    """

    folder: Path
    languages: tuple[str, str]
    pairs: int
    joined: bool
    tokenizer: str = "none"
    subwords: str = "subword_nmt"
    longest: int = 0
    marks_spaces: bool = False
    is_prepared: bool = False

    def count_tokens(self) -> tuple[int, int]:
        """The tokens of the training text in the source and in the target language."""
        text = self.folder / f"train.{'-'.join(self.languages)}"
        source, target = (count_tokens(Path(f"{text}.{each}")) for each in self.languages)
        return source, target


def read_data(folder: Path) -> Data:
    """Describe the data that ``convs2s prepare`` or fairseq-preprocess wrote.

    Args:
        folder: the output folder of ``convs2s prepare``, or a folder of binarized data.
    Raises:
        UserError: if there is no data.
    """
    check_can_exist(str(folder))
    for place in (folder, folder.parent):
        if (place / FILE_NAME).is_file() and folder in (place, place / DATA):
            content = read_content(place / FILE_NAME)
            check_counts(content, place / FILE_NAME)
            held_out = [longest for name, longest in content["longest"].items() if name != "train"]
            return Data(
                place / DATA,
                (content["languages"]["source"], content["languages"]["target"]),
                content["pairs"]["train"],
                content["subwords"]["joint"],
                content["tokenizer"],
                content["subwords"]["method"],
                max(held_out, default=0),
                bool(content.get(MARKS)),
                is_prepared=True,
            )
    indexes = sorted(folder.glob("train.*-*.*.idx"))
    if not indexes:
        raise UserError(
            f"{folder} has no data to train on: give the folder that `convs2s prepare` or "
            "fairseq-preprocess wrote (--out, --destdir)."
        )
    source, _, target = indexes[0].name.split(".")[1].partition("-")
    words = [folder / f"dict.{language}.txt" for language in (source, target)]
    if not is_name(source) or not is_name(target):
        raise UserError(f"{indexes[0]} does not name two languages, such as train.de-en.de.idx.")
    try:
        joined = digest(words[0]) == digest(words[1])
        with open_plain(indexes[0]) as file:
            mark, _, _, pairs = HEADER.unpack(file.read(HEADER.size))
    except struct.error as error:
        raise UserError(f"{folder} is not complete: {error}.") from error
    except UserError as error:
        raise UserError(f"{folder} is not complete: {error}") from error
    if mark != MARK:
        raise UserError(f"{indexes[0]} is not an index of fairseq-preprocess.")
    return Data(folder, (source, target), pairs, joined)


@dataclass(frozen=True)
class Request:
    """What to train.

    Attributes:
        data: the data.
        checkpoints: folder for the checkpoints.
        arch: the architecture; None for one that suits the size of the data.
        adl: definitions of encoder and decoder, instead of ``arch``.
        epochs, minutes: the length of training; None for the recipe's number of epochs.
        options: further arguments of fairseq-train, which replace those of the recipe.
        start: the model to begin with, whose architecture it has; None for random weights.
    """

    data: Data
    checkpoints: Path
    arch: str | None = None
    adl: tuple[str, str] | None = None
    epochs: int | None = None
    minutes: float | None = None
    options: tuple[str, ...] = ()
    start: Start | None = None

    @property
    def chosen_arch(self) -> str | None:
        """The architecture, "adl" for definitions."""
        if self.start is not None:
            return self.start.arch
        return "adl" if self.adl is not None else self.arch

    def recipe(self) -> tuple[str | None, Recipe]:
        """The family, and the recipe for it."""
        return find_recipe(self.chosen_arch, self.data.pairs)

    def length(self) -> Options:
        """The options that end training, and those that depend on its length."""
        if self.minutes is not None:
            # Of 0, fairseq makes no limit.
            return {"stop-time-hours": max(0.0001, round(self.minutes / 60, 4))}
        recipe = self.recipe()[1]
        share = 1.0 if self.start is None else LENGTH
        epochs = self.epochs or math.ceil(share * recipe.epochs_for(self.data.pairs))
        length: Options = {"max-epoch": epochs}
        if recipe.batch_statistics is not None:
            length["statistics-updates"] = round(recipe.batch_statistics * self._updates(epochs))
        return length

    def _updates(self, epochs: int) -> float:
        """An estimate of the updates in some epochs."""
        recipe = self.recipe()[1].options

        def size(name: str, otherwise: float) -> float:
            """The value of an option, unless it is not a positive number."""
            given = self.settings.get(name, "")
            return int(given) if given.isdecimal() and int(given) else otherwise

        tokens = FILLED * size("max-tokens", recipe["max-tokens"])
        sentences = size("batch-size", size("max-sentences", max(1, self.data.pairs)))
        batches = max(max(self.data.count_tokens()) / tokens, self.data.pairs / sentences)
        updates = epochs * batches / size("update-freq", 1)
        return min(updates, size("max-update", updates))

    def train_options(self) -> Options:
        """Options of fairseq-train, without those that the user gave, and without the length."""
        family, recipe = self.recipe()
        options: Options = {
            "source-lang": self.data.languages[0],
            "target-lang": self.data.languages[1],
            "save-dir": str(self.checkpoints),
            "task": "convs2s_translation",
            **_criterion(family, self.data),
            **recipe.options,
            **model_options(recipe, family, self.chosen_arch),
            **validation_options(self.data),
            "keep-last-epochs": KEPT,
        }
        if self.adl is not None:
            options["encoder-adl"], options["decoder-adl"] = self.adl
        if family is not None:
            options["autocast-dtype"] = "bfloat16"
            options["share-all-embeddings"] = self.data.joined
        if self.start is not None:
            options |= self.start.options
            options["lr"] = round(LEARNING_RATE * options["lr"], 6)
            if "warmup-updates" in options:
                options["warmup-updates"] = round(LENGTH * options["warmup-updates"])
            options["finetune-from-model"] = str(self.start.path)
        if self.data.longest > MAX_TOKENS:
            options["skip-invalid-size-inputs-valid-test"] = True
        return options

    @property
    def settings(self) -> dict[str, str]:
        """Everything that the model depends on except data and length, to notice changes."""
        # The user's options, as far as they have the form of options with one value each.
        given: Options = {}
        for word in self.options:
            if word.startswith("--"):
                name, _, value = word[2:].partition("=")
                given[name] = value or True
            elif given:
                given[name] = word if given[name] is True else f"{given[name]} {word}"
        settings = self.train_options() | given
        return {name: str(value) for name, value in settings.items()}

    def command(self) -> list[object]:
        """The command of fairseq-train."""
        chosen = arguments(
            {**self.train_options(), **self.length(), "log-format": "json", "log-interval": 20}
        )
        own = [] if "--user-dir" in self.options else ["--user-dir", USER_DIR]
        machine = find_machine(1, dry=True).options
        data = training_data(self.data.folder)
        return ["fairseq-train", data, *own, *chosen, *machine, *self.options]


def _criterion(family: str | None, data: Data) -> Options:
    """The loss; a smoothed model of characters is so unsure of each one that short outputs win."""
    smoothing = 0.0 if of_sides(data.tokenizer)[1] in OF_CHARACTERS else 0.1
    ours = "convs2s_cross_entropy" if family else "label_smoothed_cross_entropy"
    return {"criterion": ours, "label-smoothing": smoothing}


def validation_options(data: Data) -> Options:
    """Options that score greedy translations of the validation set: BLEU of text.

    It is BLEU of words if others made the tokens, or without the package of the tokenizer.
    """
    tokenizer = of_sides(data.tokenizer)[1]
    options: Options = {
        "eval-bleu": True,
        "eval-bleu-args": json.dumps({"beam": 1}),
    }
    if data.subwords in JOINED:
        options["eval-bleu-remove-bpe"] = JOINED[data.subwords]
    if data.is_prepared and (not tokenizer.startswith("moses") or find_spec("sacremoses")):
        prepared = {
            "target_lang": data.languages[1],
            "prepared_tokenizer": tokenizer,
            "prepared_subwords": data.subwords,
            "marks_spaces": data.marks_spaces,
        }
        options |= {"eval-bleu-detok": "convs2s", "eval-bleu-detok-args": json.dumps(prepared)}
    return options


def in_lines(command: list[object], width: int = 90) -> str:
    """A command as one types it, in several lines that a shell reads as one."""
    words = [shlex.quote(str(word)) for word in command]
    words = ['"$(convs2s path)"' if word == str(USER_DIR) else word for word in words]
    lines = [words[0]]
    for index, word in enumerate(words[1:], 1):
        value = index + 1 < len(words) and not words[index + 1].startswith("--")
        needed = len(word) + (len(words[index + 1]) + 1 if word.startswith("--") and value else 0)
        if word.startswith("--") and len(lines[-1]) + needed + 1 > width:
            lines.append(" ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)
