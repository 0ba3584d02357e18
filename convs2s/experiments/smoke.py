"""The smoke run of an experiment: every step on generated text, with tiny models."""

import random
from dataclasses import replace
from pathlib import Path

from .file import DataSettings, Experiment, System

UPDATES = 2
SEED = 1
BPE_MERGES = 20
SIZES = {"train": 60, "valid": 6, "test": 6}
WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


def smoke_run(experiment: Experiment, folder: Path) -> Experiment:
    """An experiment that tries each system of another one in little time.

    Args:
        experiment: the other one.
        folder: an empty folder for the generated text.
    """
    data = experiment.data
    assert data.source is not None and data.target is not None
    write_text(folder, (data.source, data.target))
    return replace(
        experiment,
        title=f"{experiment.title} (smoke run: generated text, tiny models)",
        data=DataSettings(
            source=data.source,
            target=data.target,
            text=folder,
            bpe_merges=min(data.bpe_merges, BPE_MERGES),
            joined_dictionary=data.joined_dictionary,
        ),
        systems={name: _smoke(system) for name, system in experiment.systems.items()},
        limit_updates=min(experiment.limit_updates or UPDATES, UPDATES),
    )


def _smoke(system: System) -> System:
    return replace(
        system,
        train={**system.train, **system.smoke.train},
        generate={**system.generate, **system.smoke.generate},
        seeds=system.seeds[:1],
    )


def write_text(folder: Path, languages: tuple[str, str]) -> None:
    """Write parallel text: the target is the source backwards, in other words."""
    numbers = random.Random(SEED)
    for split, size in SIZES.items():
        sources = [numbers.sample(WORDS, numbers.randint(2, 7)) for _ in range(size)]
        targets = [[f"{word}th" for word in reversed(words)] for words in sources]
        for language, lines in zip(languages, (sources, targets)):
            text = "".join(" ".join(line) + "\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
