"""The values that an experiment file may have: types, ranges, and the options of programs."""

import itertools
import math
import re
import reprlib
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from ..common.errors import nearest
from ..common.names import NAME, is_name

# The options that the runs set themselves.
RESERVED = "user-dir source-lang target-lang cpu distributed-world-size".split()
RESERVED_IN_GENERATION = RESERVED + "path gen-subset results-path quiet scoring".split()
RESERVED_IN_TRAINING = (
    RESERVED
    + "seed max-update save-dir restore-file no-save log-format log-interval log-file".split()
    + "no-progress-bar keep-last-epochs keep-interval-updates".split()
    + "no-epoch-checkpoints no-last-checkpoints".split()
)
# OptionValues that write files elsewhere, send results to a server, or start a program.
REFUSED = "tensorboard-logdir aim-repo aim-run-hash wandb-project azureml-logging".split()
REFUSED += "use-plasma-view plasma-path".split()
# The most variants of a grid, systems, runs with their searches, and options of a section.
MAX_VARIANTS = MAX_SYSTEMS = MAX_OPTIONS = 1000
MAX_RUNS = 10_000
# Integers have no more digits.
MAX_DIGITS = 12


def shown(value: object) -> str:
    """A value for an error message, shortened."""
    return "empty" if value is None else reprlib.repr(value)


def wrong(expected: str) -> PydanticCustomError:
    """The error about a value that must be something else."""
    return PydanticCustomError("wrong", "{expected}", {"expected": expected})


def sentence(text: str) -> PydanticCustomError:
    """An error whose text follows the place of the value."""
    # Pydantic does not take the halves of a character that YAML can have.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return PydanticCustomError("sentence", "{text}", {"text": text})


def must(expected: str) -> WrapValidator:
    """Say in these words what a value must be if its type refuses it."""

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            raise wrong(expected) from error

    return WrapValidator(check)


def given_section(content: Any) -> Any:
    """A section, which may be empty."""
    return {} if content is None else content


def allowed_keys(keys: Collection[str], content: Any) -> Any:
    """Refuse what is not a section with these keys."""
    if not isinstance(content, dict):
        raise wrong(f"a section with {', '.join(keys)}")
    for key in content:
        if key not in keys:
            near, allowed = nearest(str(key), keys), ", ".join(keys)
            raise sentence(f" has an unknown key '{key}'{near}; allowed: {allowed}")
    return content


def _options(reserved: Collection[str], content: Any) -> Any:
    """Refuse what is not options of a program, or options that a run sets itself."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise wrong("options: names without '--', and values")
    if len(content) > MAX_OPTIONS:
        raise sentence(f" has {len(content):,} options: at most {MAX_OPTIONS:,} are allowed")
    for name in content:
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w-]*", name):
            raise sentence(f" has the option '{name}': write its name without '--'")
        plain = name.replace("_", "-").lower()
        # fairseq's parsers accept the beginning of an option's name.
        whole = next((x for x in sorted([*reserved, *REFUSED]) if x.startswith(plain)), None)
        if whole is not None:
            stands_for = "" if whole == plain else f", an abbreviation of {whole}"
            why = "which `convs2s experiment` sets itself"
            if whole == "scoring":
                why = "but `convs2s experiment` reads the BLEU of fairseq-generate"
            if whole in REFUSED:
                why = "which writes files elsewhere, uses a server, or starts a program"
            raise sentence(f" has the option {name}{stands_for}, {why}: remove it")
    return content


def variants(content: Any) -> Any:
    """The options that a list or a grid of values describes."""
    if isinstance(content, dict):
        for name, values in content.items():
            if not isinstance(values, list) or not values:
                raise sentence(
                    f".{name} is {shown(values)}: it must be a list of values, one for each variant"
                )
        number = math.prod(map(len, content.values()))
        if number > MAX_VARIANTS:
            raise sentence(f" has {number:,} variants: at most {MAX_VARIANTS:,} are allowed")
        content = [dict(zip(content, values)) for values in itertools.product(*content.values())]
    if content is not None and not isinstance(content, list | tuple):
        raise wrong("a list of options, or lists of values for options")
    if content is not None and len(content) > MAX_VARIANTS:
        raise sentence(f" has {len(content):,} variants: at most {MAX_VARIANTS:,} are allowed")
    return tuple(content or ())


def _listed(content: Any) -> Any:
    """A tuple of the items of a list, or of a single value."""
    return tuple(content if isinstance(content, list | tuple) else [content])


def _different(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) < len(values):
        raise ValueError
    return values


def check_language(text: str) -> str:
    if not is_name(text):
        raise wrong(NAME)
    return text


def _names(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not is_name(text):
            raise sentence(f" has {shown(text)}, which is not {NAME}")
    return texts


def short(number: int) -> int:
    if abs(number) >= 10**MAX_DIGITS:
        raise ValueError
    return number


def _increasing(shares: tuple[float, ...]) -> tuple[float, ...]:
    if any(second <= first for first, second in zip(shares, shares[1:])):
        raise ValueError
    return shares


def address(text: str) -> str:
    for part in ("{name}", "{language}"):
        if part not in text:
            raise sentence(f" has no '{part}', which is replaced by a part of the address")
    return text


def named_systems(content: Any) -> Any:
    """Systems, whose names can be names of folders."""
    if not isinstance(content, dict) or not content:
        raise wrong("at least one system: its name, and its settings")
    if len(content) > MAX_SYSTEMS:
        raise sentence(f" has {len(content):,} systems: at most {MAX_SYSTEMS:,} are allowed")
    folders: dict[str, str] = {}
    for name in map(str, content):
        folder = folder_name(name)
        if not re.fullmatch(r"[\w.-]+", folder) or folder.startswith(".") or not is_name(folder):
            raise sentence(
                f" has the name {shown(name)}: only letters, digits, '_', '-', '.', commas and "
                "blanks are allowed, and no '.' or '-' at its beginning"
            )
        if folder in folders:
            raise sentence(
                f" has '{folders[folder]}' and '{name}', whose results would be in the same folder "
                f"{folder}: rename one"
            )
        folders[folder] = name
    return {str(name): settings for name, settings in content.items()}


# A value of an option: True is a flag, False and None omit the option.
Value = Annotated[
    StrictStr | StrictInt | StrictFloat | StrictBool | None,
    must("text, a number, true, false or null"),
]
OptionValues = dict[str, Value]
TrainOptions = Annotated[
    OptionValues,
    BeforeValidator(
        partial(_options, RESERVED_IN_TRAINING), json_schema_input_type=OptionValues | None
    ),
]
GenerateOptions = Annotated[
    OptionValues,
    BeforeValidator(
        partial(_options, RESERVED_IN_GENERATION), json_schema_input_type=OptionValues | None
    ),
]
Variants = list[OptionValues] | dict[str, list[Value]] | None
Searches = Annotated[
    tuple[GenerateOptions, ...], BeforeValidator(variants, json_schema_input_type=Variants)
]
Text = Annotated[StrictStr, must("text (put it in quotes)")]
Title = Annotated[Text, BeforeValidator(lambda content: "" if content is None else content)]
Language = Annotated[Text, AfterValidator(check_language)]
Folder = Annotated[Path, must("text (put it in quotes)")]
Flag = Annotated[StrictBool, must("true or false")]
_OF_DIGITS = f" with at most {MAX_DIGITS} digits"
Count = Annotated[
    StrictInt, AfterValidator(short), Field(ge=0), must(f"an integer of at least 0{_OF_DIGITS}")
]
Positive = Annotated[
    StrictInt, AfterValidator(short), Field(ge=1), must(f"an integer of at least 1{_OF_DIGITS}")
]
Share = Annotated[
    StrictFloat, Field(gt=0, le=1), must("a share of the updates, above 0 and at most 1")
]
Shares = Annotated[
    tuple[Share, ...],
    Field(min_length=1),
    AfterValidator(_increasing),
    BeforeValidator(_listed, json_schema_input_type=float | list[float]),
    must("a share of the updates, above 0 and at most 1, or a list of shares that increase"),
]
AnyNames = Annotated[
    tuple[StrictStr, ...],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
    must("a list of names"),
    AfterValidator(_names),
]
Names = Annotated[
    tuple[StrictStr, ...],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
    must("a list of names"),
    AfterValidator(_names),
]
Seeds = Annotated[
    tuple[Count, ...],
    AfterValidator(_different),
    BeforeValidator(_listed, json_schema_input_type=int | list[int]),
    must("an integer of at least 0, or a list of different integers"),
]
Chosen = Annotated[
    dict[StrictStr, Seeds],
    BeforeValidator(given_section),
    must("systems, each with a seed or a list of seeds"),
]
Metric = Annotated[Literal["bleu", "wer"], must("bleu or wer")]
Sampler = Annotated[Literal["random", "tpe"], must("random or tpe")]


def folder_name(name: str) -> str:
    """The name of a system as a part of file names."""
    return "_".join(name.replace(",", " ").split())
