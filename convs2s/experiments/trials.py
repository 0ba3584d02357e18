"""The options of trials: a list, a grid, or ranges that they are drawn or chosen from."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from ..common.errors import UserError
from .choices import Result, is_number
from .options import Options
from .values import (
    MAX_DIGITS,
    OptionValues,
    TrainOptions,
    Value,
    Variants,
    allowed_keys,
    sentence,
    short,
    shown,
    variants,
)

# The trials that are drawn at random before others are chosen from their results.
FIRST_TRIALS = 5
# Significant digits of numbers from a range.
DIGITS = 4
# The keys of a range in the file.
KEYS = ("from", "to", "log")
# Attempts to draw a combination that was not drawn before.
ATTEMPTS = 100


@dataclass(frozen=True)
class Range:
    """A range of numbers, integers if both ends are.

    Attributes:
        first, last: its ends, both included.
        log: whether numbers are drawn evenly on a logarithmic scale.
    """

    first: float
    last: float
    log: bool = False

    @classmethod
    def of(cls, given: Any) -> "Range":
        """The range in the file.

        Raises:
            PydanticCustomError: if it is wrong.
        """
        allowed_keys(KEYS, given)
        for key in ("from", "to"):
            end = given.get(key)
            if not is_number(end) or not abs(end) < 10**MAX_DIGITS:
                raise sentence(
                    f".{key} is {shown(end)}: it must be a number with at most {MAX_DIGITS} "
                    "digits before the point, such as 0.001 (YAML reads 1e-3 as text)"
                )
        first, last, log = given["from"], given["to"], given.get("log", False)
        if not isinstance(log, bool):
            raise sentence(f".log is {shown(log)}: it must be true or false")
        if first >= last:
            raise sentence(f" is from {first} to {last}: 'from' must be less than 'to'")
        if log and first <= 0:
            raise sentence(f".from is {first}: with log, it must be above 0")
        return cls(first, last, log)

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are integers."""
        return isinstance(self.first, int) and isinstance(self.last, int)

    def has(self, value: Any) -> bool:
        """Whether a value is in the range."""
        fits = isinstance(value, int) or not self.is_whole
        return is_number(value) and fits and self.first <= value <= self.last

    def draw(self, numbers: random.Random) -> float:
        """A number that is drawn at random."""
        half = 0.5 * self.is_whole
        ends = self.first - half, self.last + half
        if self.log:
            return self.nearest(math.exp(numbers.uniform(*map(math.log, ends))))
        return self.nearest(numbers.uniform(*ends))

    def nearest(self, value: float) -> float:
        """The number of the range, with few digits, that is nearest to a value."""
        plain = round(value) if self.is_whole else float(f"{value:.{DIGITS}g}")
        return min(max(plain, self.first), self.last)


@dataclass(frozen=True)
class Space:
    """The values that options may have.

    Attributes:
        values: name of an option -> its values, or their range.
    """

    values: dict[str, tuple[Value, ...] | Range]

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Space":
        """The lists and ranges in the file.

        Raises:
            PydanticCustomError: if one is wrong.
        """
        values: dict[str, tuple[Value, ...] | Range] = {}
        for name, each in given.items():
            if isinstance(each, dict):
                try:
                    values[name] = Range.of(each)
                except PydanticCustomError as error:
                    raise sentence(f".{name}{error.message()}") from error
            elif isinstance(each, list) and each:
                values[name] = tuple(each)
            else:
                raise sentence(
                    f".{name} is {shown(each)}: it must be a list of values, or a range such as "
                    "{from: 0.1, to: 0.3}"
                )
        return cls(values)

    @property
    def has_ranges(self) -> bool:
        """Whether some values are a range."""
        return any(isinstance(each, Range) for each in self.values.values())

    @property
    def size(self) -> float:
        """The number of combinations."""
        return math.prod(
            len(each)
            if isinstance(each, tuple)
            else each.last - each.first + 1
            if each.is_whole
            else math.inf
            for each in self.values.values()
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The values as data, to notice changes."""
        return {
            name: dict(zip(KEYS, astuple(each))) if isinstance(each, Range) else list(each)
            for name, each in self.values.items()
        }

    def has(self, options: Options) -> bool:
        """Whether the options are a combination of these values."""
        return options.keys() == self.values.keys() and all(
            each.has(options[name]) if isinstance(each, Range) else options[name] in each
            for name, each in self.values.items()
        )

    def examples(self) -> tuple[Options, ...]:
        """Combinations that together have each value, and both ends of each range."""
        columns = [
            (each.first, each.last) if isinstance(each, Range) else each
            for each in self.values.values()
        ]
        return tuple(
            {name: column[number % len(column)] for name, column in zip(self.values, columns)}
            for number in range(max(map(len, columns)))
        )

    def grid(self) -> tuple[Options, ...]:
        """All combinations, of which there must be a finite number."""
        columns = [
            range(int(each.first), int(each.last) + 1) if isinstance(each, Range) else each
            for each in self.values.values()
        ]
        return tuple(dict(zip(self.values, values)) for values in itertools.product(*columns))

    def draws(self, number: int, seed: int) -> tuple[Options, ...]:
        """Different combinations drawn at random; a larger number begins with the same ones."""
        numbers = random.Random(seed)
        found: list[Options] = []
        for _ in range(number):
            found.append(self.draw(numbers, found))
        return tuple(found)

    def draw(self, numbers: random.Random, before: Sequence[Options]) -> Options:
        """A combination that is drawn at random and differs from those before."""
        for _ in range(ATTEMPTS):
            options = {
                name: each.draw(numbers) if isinstance(each, Range) else numbers.choice(each)
                for name, each in self.values.items()
            }
            if options not in before:
                break
        return options


@dataclass(frozen=True)
class Adaptive:
    """Trials that are chosen from the results of others: a tree-structured Parzen estimator.

    Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NIPS 2011. The choice depends on
    the seed, the number of the trial, and those results alone, so a search that was stopped
    continues as it would have.

    Attributes:
        space: the values.
        number: number of trials.
        seed: seed of all choices.
        parallel: number of trials that may run at the same time.
    """

    space: Space
    number: int
    seed: int
    parallel: int

    def last_known(self, trial: int) -> int:
        """The last of the trials whose results a trial is chosen from; 0 if it is drawn."""
        return 0 if trial <= FIRST_TRIALS else max(FIRST_TRIALS, trial - self.parallel)

    def choose(self, trial: int, ranked: Sequence[Result], diverged: Sequence[Result]) -> Options:
        """The options of a trial.

        Args:
            trial: its number, counted from 1.
            ranked: the results of the trials to ``last_known``, best first, without those that
                diverged.
            diverged: those that diverged.
        """
        found = {each["trial"]: each["trial_options"] for each in (*ranked, *diverged)}
        # Others that may run at the same time are chosen first.
        for number in range(self.last_known(trial) + 1, trial + 1):
            known = self.last_known(number)
            found[number] = self._ask(
                number,
                [each["trial_options"] for each in ranked if each["trial"] <= known],
                [each["trial_options"] for each in diverged if each["trial"] <= known],
                [found[other] for other in range(known + 1, number)],
            )
        return found[trial]

    def _ask(
        self,
        trial: int,
        ranked: Sequence[Options],
        diverged: Sequence[Options],
        running: Sequence[Options],
    ) -> Options:
        """What Optuna chooses, or a random draw if that was tried before."""
        check_optuna()
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        numbers = random.Random(f"{self.seed} {trial}")
        distributions = {name: _distribution(each) for name, each in self.space.values.items()}
        seed = numbers.getrandbits(32)
        sampler = optuna.samplers.TPESampler(n_startup_trials=0, constant_liar=True, seed=seed)
        study = optuna.create_study(sampler=sampler)
        states = optuna.trial.TrialState

        def add(options: Options, state: Any, place: int | None = None) -> None:
            study.add_trial(
                optuna.trial.create_trial(
                    state=state, params=options, distributions=distributions, value=place
                )
            )

        # The estimator asks for the order alone.
        for place, options in enumerate(ranked):
            add(options, states.COMPLETE, place)
        for options in diverged:
            add(options, states.PRUNED)
        for options in running:
            add(options, states.RUNNING)
        found = study.ask(distributions).params
        chosen = {
            name: each.nearest(found[name]) if isinstance(each, Range) else found[name]
            for name, each in self.space.values.items()
        }
        before = [*ranked, *diverged, *running]
        return self.space.draw(numbers, before) if chosen in before else chosen


def _distribution(values: tuple[Value, ...] | Range) -> Any:
    """The values as a distribution of Optuna."""
    from optuna import distributions

    if not isinstance(values, Range):
        return distributions.CategoricalDistribution(values)
    kind = distributions.IntDistribution if values.is_whole else distributions.FloatDistribution
    return kind(values.first, values.last, log=values.log)


def check_optuna() -> None:
    """Check that Optuna is installed.

    Raises:
        UserError: if it is not.
    """
    if find_spec("optuna") is None:
        raise UserError(
            "tuning.sampler 'tpe' needs Optuna: run `pip install \"convs2s-plugin[optuna]\"`, or "
            "omit the sampler."
        )


def _given(content: Any) -> Any:
    """The options that are tried, or with ranges examples of them, whose values can be checked."""
    if isinstance(content, dict) and any(isinstance(each, dict) for each in content.values()):
        return Space.of(content).examples()
    return variants(content)


def _with_updates(trials: tuple[OptionValues, ...]) -> tuple[OptionValues, ...]:
    """Whether trials may have other numbers of updates."""
    for options in trials:
        updates = options.get("updates", 1)
        if not isinstance(updates, int) or isinstance(updates, bool) or updates < 1:
            raise sentence(f" has updates {shown(updates)}: it must be an integer of at least 1")
        short(updates)
    return trials


Trials = Annotated[
    tuple[TrainOptions, ...],
    BeforeValidator(
        _given,
        json_schema_input_type=Variants
        | dict[str, list[Value] | dict[Literal["from", "to", "log"], float | bool]],
    ),
    AfterValidator(_with_updates),
]
