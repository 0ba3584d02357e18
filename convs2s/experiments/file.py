"""The content of an experiment file: its sections.

The classes check types and ranges, with the ``values`` that are allowed; ``reader`` checks what
depends on several values.
"""

from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, model_validator
from pydantic.json_schema import SkipJsonSchema

from .trials import Adaptive, Trials
from .values import (
    AnyNames,
    Chosen,
    Count,
    Flag,
    Folder,
    GenerateOptions,
    Language,
    Metric,
    Names,
    Positive,
    Sampler,
    Searches,
    Seeds,
    Share,
    Shares,
    Text,
    Title,
    TrainOptions,
    address,
    allowed_keys,
    folder_name,
    given_section,
    named_systems,
    wrong,
)

# The keys with the data of an experiment, and those in which a name takes the place of "{set}".
FOLDERS = ("text", "bin", "prepared")
PATHS = (*FOLDERS, "monolingual")
PLACE_OF_SET = "{set}"


def _averaging(content: Any) -> Any:
    """The section that a number or "best" abbreviates."""
    if content == "best":
        return Averaging(1, best=True)
    if isinstance(content, int) and not isinstance(content, bool) and content >= 0:
        return Averaging(max(content, 1))
    if isinstance(content, dict | Averaging):
        return content
    raise wrong("an integer of at least 0, 'best', or a section with checkpoints and every")


class Section:
    """A section of the file. Keys with ``SkipJsonSchema`` are not in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @classmethod
    def keys(cls) -> list[str]:
        """The keys that are allowed in the file."""
        mark = SkipJsonSchema()  # type: ignore[type-arg]
        return [
            key.name
            for key in fields(cls)  # type: ignore[arg-type]
            if mark not in getattr(key.type, "__metadata__", ())
        ]

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, content: Any) -> Any:
        return allowed_keys(cls.keys(), content)


@dataclass(frozen=True)
class DataSettings(Section):
    """The data of an experiment: text to binarize, or data that is binarized already.

    Attributes:
        source, target: languages, as in the names of the files.
        text: folder of the text.
        bin: folder of binarized data, to use instead of text.
        prepared: folder that ``convs2s prepare`` wrote, to use instead of text.
        sets: names of several data sets, each of which has its own models; each takes the place of
            "{set}" in the paths of this section. Scores are means over them.
        monolingual: file with text of the target language, for systems to translate back.
        download: address of the text with "{name}" and "{language}".
        train, valid: names of a split; the first one that exists is used.
        test: patterns of the names of test sets.
        download_names: the names to download for "train", "valid" and "test".
        bpe_merges: number of BPE merges, learned on both languages; 0 for no BPE.
        joined_dictionary: whether both languages share a dictionary.
        generated: whether the text is that of a smoke run, which is the same in any folder.
    """

    source: Language | None = None
    target: Language | None = None
    text: Folder | None = None
    bin: Folder | None = None
    prepared: Folder | None = None
    monolingual: Folder | None = None
    sets: AnyNames = ()
    download: Annotated[Text, AfterValidator(address)] | None = None
    train: Names = ("train",)
    valid: Names = ("valid", "val")
    test: Names = ("test*",)
    download_names: Annotated[
        dict[Literal["train", "valid", "test"], Names],
        BeforeValidator(partial(allowed_keys, ("train", "valid", "test"))),
        BeforeValidator(given_section),
    ] = field(default_factory=dict)
    bpe_merges: Count = 0
    joined_dictionary: Flag = False
    generated: SkipJsonSchema[bool] = False

    @property
    def needs_text(self) -> bool:
        """Whether no data is binarized yet."""
        return self.bin is None and self.prepared is None

    def of(self, data_set: str) -> "DataSettings":
        """The settings of one of the data sets; "" for the only one."""
        if not data_set:
            return self
        folders: dict[str, Any] = {
            name: Path(str(folder).replace(PLACE_OF_SET, data_set))
            for name in PATHS
            if (folder := getattr(self, name)) is not None
        }
        return replace(self, sets=(), **folders)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target, which text must have."""
        assert self.source is not None and self.target is not None
        return self.source, self.target


@dataclass(frozen=True)
class Tuning(Section):
    """How trials are trained.

    Attributes:
        updates: share of the updates of the system; several for as many rounds, each with the best
            trials of the one before (successive halving).
        keep: share of the trials of a round that are trained in the next one.
        sample: number of trials of each system, which are drawn or chosen from those that it lists,
            or from its ranges; 0 for all. If there are fewer, all are tried.
        sampler: "random" draws them, "tpe" chooses them from the results of others, see
            ``Adaptive``.
        parallel: number of trials of a system that "tpe" chooses at the same time.
        seed: seed of the trials, and of the choice.
        sets: names of the data sets to try them on; none for all.
    """

    updates: Shares = (0.25,)
    keep: Share = 0.5
    sample: Count = 0
    sampler: Sampler = "random"
    parallel: Positive = 1
    seed: Count = 1
    sets: AnyNames = ()


@dataclass(frozen=True)
class Averaging(Section):
    """The checkpoints whose weights are averaged: the last one, and some before it.

    Attributes:
        checkpoints: number of checkpoints, the last one included.
        every: share of the updates between two of them; None for those at the end of epochs.
        best: whether to use the checkpoint that fairseq-train found best on the validation set
            instead.
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
class TrainingText(Section):
    """The pairs of sentences that a system trains on.

    Attributes:
        text: whether to use the pairs of the training text.
        translations: systems and seeds of their trained models, each of which translates one side
            of the training text; each translation makes a pair with what was translated.
        back_translations: systems that translate to the source language, and seeds: the pairs of
            the monolingual text and its translations by each of these models.
        tag: whether the sources of these pairs begin with a token that no others have.
    """

    text: Flag = True
    translations: Chosen = field(default_factory=dict)
    back_translations: Chosen = field(default_factory=dict)
    tag: Flag = False


@dataclass(frozen=True)
class System(Section):
    """A system: a model with its training run and its search.

    Attributes:
        name: key in the file.
        title: name in tables.
        updates: number of updates of a training run; None if a training option ends it.
        train, generate: options of fairseq-train and fairseq-generate, those of the whole
            experiment included.
        average: the checkpoints in the average.
        seeds: one run for each; none to train the trials alone.
        trials: options to try, and numbers of ``updates``; those of the best trial are added to
            ``train``. Ranges and lists from which others are chosen are in ``adaptive``.
        searches: options of fairseq-generate to try on the validation set; those with the best
            score are added to ``generate``, separately for each run.
        runs_of: name of the system whose trained models this one uses.
        ensemble: systems and the seeds of their trained models, which translate together.
        gpus, nodes: GPUs of each machine, and machines, that train a model; without a GPU, each of
            the workers has a part of the cores.
        continues: name of the system whose trained models this one trains further.
        train_on: the pairs that it trains on.
        reverse: whether it translates from the target language to the source language, for systems
            that train on its translations; it is then not in the tables.
        smoke: options of a smoke run.
        adaptive: chooses further trials; None for none.
        needs_models: whether the training runs of its models needed models of others.
    """

    name: SkipJsonSchema[str] = ""
    title: Title = ""
    updates: Positive | None = None
    train: TrainOptions = field(default_factory=dict)
    generate: GenerateOptions = field(default_factory=dict)
    average: Average = field(default_factory=partial(Averaging, 1))
    seeds: Seeds = (1,)
    gpus: Positive = 1
    nodes: Positive = 1
    trials: Trials = ()
    searches: Searches = ()
    runs_of: Text | None = None
    ensemble: Chosen = field(default_factory=dict)
    continues: Text | None = None
    train_on: Annotated[TrainingText, BeforeValidator(given_section)] = field(
        default_factory=TrainingText
    )
    reverse: Flag = False
    smoke: Annotated[Smoke, BeforeValidator(given_section)] = field(default_factory=Smoke)
    adaptive: SkipJsonSchema[Adaptive | None] = None
    needs_models: SkipJsonSchema[bool] = False

    @property
    def folder_name(self) -> str:
        """The name with underscores instead of blanks and commas."""
        return folder_name(self.name)

    @property
    def place(self) -> str:
        """The place in the file, for errors."""
        return f"systems.{self.name}"

    @property
    def trains_with_models(self) -> bool:
        """Whether it continues another system's model, or trains on translations by one."""
        text = self.train_on
        return bool(self.continues or text.translations or text.back_translations)


@dataclass(frozen=True, kw_only=True)
class Experiment(Section):
    """An experiment.

    Attributes:
        title: title of the report.
        data: the data of all systems.
        metric: the score that chooses among trials and searches, and stands first in the tables:
            BLEU, or the word error rate, the share of lines that are not exactly right.
        train, generate, searches, average, seeds, smoke: those of all systems, see ``System``.
        baseline: name of the system that the others are compared with.
        tuning: how trials are trained.
        systems: name -> system, in the order of the file.
        limit_updates: maximum number of updates of each run, for a quick look.
    """

    title: Title = ""
    data: DataSettings
    metric: Metric = "bleu"
    train: TrainOptions = field(default_factory=dict)
    generate: GenerateOptions = field(default_factory=dict)
    searches: Searches = ()
    average: Average = field(default_factory=partial(Averaging, 1))
    seeds: Seeds = (1,)
    baseline: Text | None = None
    tuning: Annotated[Tuning, BeforeValidator(given_section)] = field(default_factory=Tuning)
    smoke: Annotated[Smoke, BeforeValidator(given_section)] = field(default_factory=Smoke)
    systems: Annotated[dict[str, System], BeforeValidator(named_systems)]
    limit_updates: SkipJsonSchema[int | None] = None
