"""The content of an experiment file: its sections, and what each value must be.

The classes check types and ranges; ``reader`` checks what depends on several values.
"""

import itertools
import math
import re
import reprlib
from collections.abc import Callable, Collection
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ArgsKwargs, PydanticCustomError

from ..common.errors import nearest
from ..common.names import NAME, is_name

# The options that the runs set themselves.
RESERVED = "user-dir source-lang target-lang cpu distributed-world-size".split()
RESERVED_IN_GENERATION = RESERVED + "path gen-subset results-path quiet".split()
RESERVED_IN_TRAINING = (
    RESERVED
    + "seed max-update save-dir restore-file no-save log-format log-interval log-file".split()
    + "no-progress-bar keep-last-epochs keep-interval-updates".split()
    + "no-epoch-checkpoints no-last-checkpoints".split()
)
# Options that write files elsewhere, send results to a server, or start a program.
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


def _given(content: Any) -> Any:
    """A section, which may be empty."""
    return {} if content is None else content


def _keys(keys: Collection[str], content: Any) -> Any:
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
        # fairseq's parsers take the beginning of an option for the option.
        whole = next((x for x in sorted([*reserved, *REFUSED]) if x.startswith(plain)), None)
        if whole is not None:
            stands_for = "" if whole == plain else f", an abbreviation of {whole}"
            why = "which `convs2s experiment` sets itself"
            if whole in REFUSED:
                why = "which writes files elsewhere, uses a server, or starts a program"
            raise sentence(f" has the option {name}{stands_for}, {why}: remove it")
    return content


def _variants(content: Any) -> Any:
    """The options that a list or a grid of values stands for."""
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
    """A tuple of the items of a list, or of a value that stands alone."""
    return tuple(content if isinstance(content, list | tuple) else [content])


def _different(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) < len(values):
        raise ValueError
    return values


def _averaging(content: Any) -> Any:
    """The section that a number or "best" stands for."""
    if content == "best":
        return Averaging(1, best=True)
    if isinstance(content, int) and not isinstance(content, bool) and content >= 0:
        return Averaging(max(content, 1))
    if isinstance(content, dict | Averaging):
        return content
    raise wrong("an integer of at least 0, 'best', or a section with checkpoints and every")


def _name(text: str) -> str:
    if not is_name(text):
        raise wrong(NAME)
    return text


def _names(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not is_name(text):
            raise sentence(f" has {shown(text)}, which is not {NAME}")
    return texts


def _short(number: int) -> int:
    if abs(number) >= 10**MAX_DIGITS:
        raise ValueError
    return number


def _address(text: str) -> str:
    for part in ("{name}", "{language}"):
        if part not in text:
            raise sentence(f" has no '{part}', which stands for a part of the address")
    return text


def _systems(content: Any) -> Any:
    """Systems by names that can be names of folders."""
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


# A value of an option: True is a flag, False and None leave the option out.
Value = Annotated[
    StrictStr | StrictInt | StrictFloat | StrictBool | None,
    must("text, a number, true, false or null"),
]
Options = dict[str, Value]
TrainOptions = Annotated[
    Options,
    BeforeValidator(partial(_options, RESERVED_IN_TRAINING), json_schema_input_type=Options | None),
]
GenerateOptions = Annotated[
    Options,
    BeforeValidator(
        partial(_options, RESERVED_IN_GENERATION), json_schema_input_type=Options | None
    ),
]
Variants = list[Options] | dict[str, list[Value]] | None
Trials = Annotated[
    tuple[TrainOptions, ...], BeforeValidator(_variants, json_schema_input_type=Variants)
]
Searches = Annotated[
    tuple[GenerateOptions, ...], BeforeValidator(_variants, json_schema_input_type=Variants)
]
Text = Annotated[StrictStr, must("text (put it in quotes)")]
Title = Annotated[Text, BeforeValidator(lambda content: "" if content is None else content)]
Language = Annotated[Text, AfterValidator(_name)]
Folder = Annotated[Path, must("text (put it in quotes)")]
Flag = Annotated[StrictBool, must("true or false")]
_OF_DIGITS = f" with at most {MAX_DIGITS} digits"
Count = Annotated[
    StrictInt, AfterValidator(_short), Field(ge=0), must(f"an integer of at least 0{_OF_DIGITS}")
]
Positive = Annotated[
    StrictInt, AfterValidator(_short), Field(ge=1), must(f"an integer of at least 1{_OF_DIGITS}")
]
Share = Annotated[
    StrictFloat, Field(gt=0, le=1), must("a share of the updates, above 0 and at most 1")
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


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Section:
    """A section of the file. Keys with ``SkipJsonSchema`` are not in the file."""

    @classmethod
    def keys(cls) -> list[str]:
        """The keys that are allowed in the file."""
        return [
            name
            for name, key in cls.__pydantic_fields__.items()  # type: ignore[attr-defined]
            if not any(type(each) is SkipJsonSchema for each in key.metadata)
        ]

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, content: Any) -> Any:
        return content if isinstance(content, ArgsKwargs) else _keys(cls.keys(), content)


@dataclass(frozen=True)
class DataSettings(Section):
    """The data of an experiment: text to binarize, or data that is binarized already.

    Attributes:
        source, target: languages, as in the names of the files.
        text: folder of the text.
        bin: folder of binarized data, to use instead of text.
        prepared: folder that ``convs2s prepare`` wrote, to use instead of text.
        download: address of the text with "{name}" and "{language}".
        train, valid: names of a split, of which the first that exists is taken.
        test: patterns of the names of test sets.
        download_names: the names to download for "train", "valid" and "test".
        bpe_merges: number of BPE merges, learned on both languages; 0 for no BPE.
        joined_dictionary: both languages share a dictionary.
    """

    source: Language | None = None
    target: Language | None = None
    text: Folder | None = None
    bin: Folder | None = None
    prepared: Folder | None = None
    download: Annotated[Text, AfterValidator(_address)] | None = None
    train: Names = ("train",)
    valid: Names = ("valid", "val")
    test: Names = ("test*",)
    download_names: Annotated[
        dict[Literal["train", "valid", "test"], Names],
        BeforeValidator(partial(_keys, ("train", "valid", "test"))),
        BeforeValidator(_given),
    ] = field(default_factory=dict)
    bpe_merges: Count = 0
    joined_dictionary: Flag = False

    @property
    def needs_text(self) -> bool:
        """No data is binarized yet."""
        return self.bin is None and self.prepared is None

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target, which text must have."""
        assert self.source is not None and self.target is not None
        return self.source, self.target


@dataclass(frozen=True)
class Tuning(Section):
    """How trials are trained.

    Attributes:
        updates: share of the updates of the system.
        seed: their seed.
        finalists: number of the best trials that are trained again with all updates; the best of
            these is chosen. 0 to choose the best trial at once.
    """

    updates: Share = 0.25
    seed: Count = 1
    finalists: Count = 0


@dataclass(frozen=True)
class Averaging(Section):
    """The checkpoints whose weights are averaged: the last one, and some before it.

    Attributes:
        checkpoints: their number, the last one included.
        every: share of the updates between two of them; None for those at the end of epochs.
        best: use the checkpoint that fairseq-train found best on the validation set instead.
    """

    checkpoints: Positive
    every: Share | None = None
    best: SkipJsonSchema[bool] = False

    def interval(self, updates: int | None) -> int | None:
        """Updates between two checkpoints; None for those at the end of epochs."""
        if self.every is None or updates is None or self.checkpoints < 2:
            return None
        return max(1, round(self.every * updates))


Average = Annotated[
    Averaging,
    BeforeValidator(_averaging, json_schema_input_type=int | Literal["best"] | Averaging),
]


@dataclass(frozen=True)
class Smoke(Section):
    """Options that replace the others in a smoke run, such as tiny sizes of the model.

    Attributes:
        train, generate: options of fairseq-train and fairseq-generate.
    """

    train: TrainOptions = field(default_factory=dict)
    generate: GenerateOptions = field(default_factory=dict)


@dataclass(frozen=True)
class System(Section):
    """A system: a model with its training and its search.

    Attributes:
        name: key in the file.
        title: name in tables.
        updates: number of updates of a training; None if a training option ends it.
        train, generate: options of fairseq-train and fairseq-generate, those of the whole
            experiment included.
        average: the checkpoints in the average.
        seeds: one run for each; none to train the trials alone.
        trials: options to try; those of the best trial are added to ``train``.
        searches: options of fairseq-generate to try on the validation set; those with the highest
            BLEU are added to ``generate``, for each run by itself.
        runs_of: name of the system whose trained models this one uses.
        continues: name of the system whose trained models this one goes on to train.
        smoke: options of a smoke run.
    """

    name: SkipJsonSchema[str] = ""
    title: Title = ""
    updates: Positive | None = None
    train: TrainOptions = field(default_factory=dict)
    generate: GenerateOptions = field(default_factory=dict)
    average: Average = Averaging(1)
    seeds: Seeds = (1,)
    trials: Trials = ()
    searches: Searches = ()
    runs_of: Text | None = None
    continues: Text | None = None
    smoke: Annotated[Smoke, BeforeValidator(_given)] = Smoke()

    @property
    def folder_name(self) -> str:
        """The name with underscores instead of blanks and commas."""
        return folder_name(self.name)

    @property
    def place(self) -> str:
        """The place in the file, for errors."""
        return f"systems.{self.name}"


@dataclass(frozen=True, kw_only=True)
class Experiment(Section):
    """An experiment.

    Attributes:
        title: title of the report.
        data: the data of all systems.
        train, generate, searches, average, seeds, smoke: those of all systems, see ``System``.
        baseline: name of the system that the others are compared with.
        tuning: how trials are trained.
        systems: name -> system, in the order of the file.
        limit_updates: maximum number of updates of each run, for a quick look.
    """

    title: Title = ""
    data: DataSettings
    train: TrainOptions = field(default_factory=dict)
    generate: GenerateOptions = field(default_factory=dict)
    searches: Searches = ()
    average: Average = Averaging(1)
    seeds: Seeds = (1,)
    baseline: Text | None = None
    tuning: Annotated[Tuning, BeforeValidator(_given)] = Tuning()
    smoke: Annotated[Smoke, BeforeValidator(_given)] = Smoke()
    systems: Annotated[dict[str, System], BeforeValidator(_systems)]
    limit_updates: SkipJsonSchema[int | None] = None


def folder_name(name: str) -> str:
    """The name of a system as a part of file names."""
    return "_".join(name.replace(",", " ").split())
