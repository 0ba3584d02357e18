"""Sequence-level training on Multi30k continues the models of recipes.yaml."""

from pathlib import Path

import pytest

from convs2s.experiments.reader import read_experiment
from convs2s.experiments.runs import all_runs

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "multi30k"


def runs(name):
    """The first run of each system of a file."""
    return {run.system.name: run for run in reversed(all_runs(read_experiment(EXAMPLE / name)))}


@pytest.mark.parametrize("system", ["convs2s", "transformer"])
def test_models_are_trained_as_in_the_recipes(system):
    continued, recipe = (runs(name)[system] for name in ("sequence.yaml", "recipes.yaml"))
    for key in ("arch", "lr", "dropout"):
        assert continued.system.train[key] == recipe.system.train[key]
    assert continued.system.updates == recipe.system.updates
