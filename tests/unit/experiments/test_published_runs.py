"""The finished runs in examples/multi30k are those of its files, with their scores."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

import pytest

from convs2s.cli import main
from convs2s.common.text_files import read_text
from convs2s.evaluation.scores import score
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.run import Workplace
from convs2s.experiments.runs import all_runs

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "multi30k"
FILE, RESULTS = EXAMPLE / "compare.yaml", EXAMPLE / "results"
SWEEPS = sorted((EXAMPLE / "sweep_results").iterdir())


def finished(results: Path) -> list[str]:
    """The names of the finished runs in a folder."""
    return sorted(path.parent.name for path in results.glob("runs/*/result.json"))


FINISHED = finished(RESULTS)


@pytest.mark.parametrize("results", [RESULTS, *SWEEPS], ids=lambda folder: folder.name)
def test_every_run_has_the_settings_of_the_file(results):
    workplace = Workplace(results, data=None, programs=None, machine=None)
    # The folder of a sweep with another number of merges has this number behind its name.
    file = FILE if results == RESULTS else EXAMPLE / f"sweep_{results.name.split('_')[0]}.yaml"
    runs = {run.name: run for run in all_runs(read_experiment(file))}
    names = finished(results)
    assert names
    for name in names:
        run = workplace.completed(runs[name])
        assert run is not None and (results / "runs" / name / "settings.json").exists()
        workplace.check(run)


@pytest.mark.parametrize("name", FINISHED)
def test_scores_are_those_of_the_translations(name):
    folder = RESULTS / "runs" / name
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    tests = [split for split in result["splits"] if split != "valid"]
    # Trials do not see the test set.
    assert tests == ([] if result["trial"] is not None else ["test"])
    for split in tests:
        lines = [
            read_text(str(path)).splitlines()
            for path in (folder / f"{split}.hyp", RESULTS / "references" / split)
        ]
        found = score(*lines)
        assert found["sacrebleu"] == pytest.approx(result["splits"][split]["sacrebleu"])
        assert found["chrf"] == pytest.approx(result["splits"][split]["chrf"])


def test_recipes_have_the_options_that_the_comparison_chose():
    compared = read_experiment(FILE).systems
    recipes = read_experiment(EXAMPLE / "recipes.yaml").systems
    # Options from before the trials, in single precision.
    del recipes["single_precision"]
    assert len(recipes) == 7
    for name, recipe in recipes.items():
        trials = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in RESULTS.glob(f"runs/{name}.trial*/result.json")
        ]
        assert len(trials) == 4
        best = max(trials, key=lambda trial: trial["splits"]["valid"]["bleu"])
        assert recipe.train == {**compared[name].train, **best["trial_options"]}
        assert recipe.searches == compared[name].searches
        assert recipe.updates == compared[name].updates


def test_a_copy_gives_the_tables(tmp_path, capsys):
    out = tmp_path / "compare_out"
    shutil.copytree(RESULTS, out)
    assert main(["experiment", str(FILE), "--report", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    seeds = defaultdict(list)
    for name in FINISHED:
        result = json.loads((RESULTS / "runs" / name / "result.json").read_text(encoding="utf-8"))
        bleu = result["splits"]["valid"]["bleu"]
        if result["trial"] is not None or result["searches"]:
            assert f" {bleu:.2f} |" in printed
        else:
            # No table has the single seeds of a system that chooses no search.
            seeds[result["title"]].append(bleu)
    for title, scores in seeds.items():
        (line,) = [line for line in printed.splitlines() if line.startswith(f"| {title} ")]
        assert f" {mean(scores):.2f} ± {stdev(scores):.2f} |" in line
