"""The content of an experiment file."""

from dataclasses import dataclass, field
from pathlib import Path

# A value of an option: True is a flag, False and None leave the option out.
Value = str | int | float | bool | None
Options = dict[str, Value]


@dataclass(frozen=True)
class DataSettings:
    """The data of an experiment: text to binarize, or binarized data.

    Attributes:
        source, target: languages, as in the names of the files.
        text: folder of the text.
        bin: folder of binarized data, to use instead of text.
        download: address of the text with "{name}" and "{language}".
        train, valid: names of a split, of which the first that exists is taken.
        test: patterns of the names of test sets.
        download_names: the names to download for "train", "valid" and "test".
        bpe_merges: number of BPE merges, learned on both languages; 0 for no BPE.
        joined_dictionary: both languages share a dictionary.
    """

    source: str | None = None
    target: str | None = None
    text: Path | None = None
    bin: Path | None = None
    download: str | None = None
    train: tuple[str, ...] = ("train",)
    valid: tuple[str, ...] = ("valid", "val")
    test: tuple[str, ...] = ("test*",)
    download_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bpe_merges: int = 0
    joined_dictionary: bool = False


@dataclass(frozen=True)
class Tuning:
    """How trials are trained.

    Attributes:
        updates: share of the updates of the system.
        seed: their seed.
        finalists: number of the best trials that are trained again with all updates; the best of
            these is chosen. 0 to choose the best trial at once.
    """

    updates: float = 0.25
    seed: int = 1
    finalists: int = 0


@dataclass(frozen=True)
class Averaging:
    """The checkpoints whose weights are averaged: the last one, and some before it.

    Attributes:
        checkpoints: their number, the last one included.
        every: share of the updates between two of them; None for those at the end of epochs.
        best: use the checkpoint that fairseq-train found best on the validation set instead.
    """

    checkpoints: int = 1
    every: float | None = None
    best: bool = False

    def interval(self, updates: int | None) -> int | None:
        """Updates between two checkpoints; None for those at the end of epochs."""
        if self.every is None or updates is None or self.checkpoints < 2:
            return None
        return max(1, round(self.every * updates))


@dataclass(frozen=True)
class System:
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
        smoke_train, smoke_generate: options of fairseq-train and fairseq-generate that replace the
            others in a smoke run, such as tiny sizes of the model.
    """

    name: str
    title: str
    updates: int | None = None
    train: Options = field(default_factory=dict)
    generate: Options = field(default_factory=dict)
    average: Averaging = Averaging()
    seeds: tuple[int, ...] = (1,)
    trials: tuple[Options, ...] = ()
    searches: tuple[Options, ...] = ()
    runs_of: str | None = None
    continues: str | None = None
    smoke_train: Options = field(default_factory=dict)
    smoke_generate: Options = field(default_factory=dict)

    @property
    def folder_name(self) -> str:
        """The name with underscores instead of blanks and commas."""
        return folder_name(self.name)


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    Attributes:
        title: title of the report.
        data: the data of all systems.
        systems: name -> system, in the order of the file.
        baseline: name of the system that the others are compared with.
        tuning: how trials are trained.
        limit_updates: maximum number of updates of each run, for a quick look.
    """

    title: str
    data: DataSettings
    systems: dict[str, System]
    baseline: str | None = None
    tuning: Tuning = Tuning()
    limit_updates: int | None = None


def folder_name(name: str) -> str:
    """The name of a system as a part of file names."""
    return "_".join(name.replace(",", " ").split())
