"""The runs in results are those of the files in examples, with their scores."""

import re
from collections import defaultdict
from statistics import mean, stdev

import pytest

from convs2s.cli import main
from convs2s.common.text_files import read_text
from convs2s.evaluation.scores import error_rates, score
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.results import Workplace
from convs2s.experiments.runs import all_runs
from docs import runs
from docs.results import EXAMPLES

COMPARE, RECIPES = EXAMPLES / "multi30k" / "compare.yaml", EXAMPLES / "multi30k" / "recipes.yaml"
NAMES = sorted(path.stem for path in runs.RESULTS.glob("*.jsonl"))
COMPARED = runs.read("multi30k_compare")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folders of all published experiments, by their names."""
    out = tmp_path_factory.mktemp("unpacked")
    for name in NAMES:
        runs.unpack(name, out / name)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_every_run_has_the_settings_of_the_file(name, unpacked):
    files = {
        runs.name_of(str(path.relative_to(EXAMPLES))): path for path in EXAMPLES.rglob("*.yaml")
    }
    # Runs with another number of merges, or in another direction, have it behind the name.
    file = files.get(name) or files[re.sub(r"_(\d+|[a-z]{2}_[a-z]{2})$", "", name)]
    experiment = read_experiment(file)
    planned = all_runs(experiment)
    workplace = Workplace(unpacked / name, {}, None, None, metric=experiment.metric)
    published = runs.read(name)
    assert published and not set(published) - {run.name for run in planned}
    for run in planned:
        if run.name in published:
            assert published[run.name]["settings"]
            completed = workplace.completed(run)
            assert completed is not None
            workplace.check(completed)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_translations(name, unpacked):
    for run, parts in runs.read(name).items():
        result = parts["result"]
        tests = [split for split in result["splits"] if split != "valid"]
        # Trials do not see the test set, and systems of the other direction have no scores.
        is_scored = result["trial"] is None and "reverse" not in parts["settings"]
        assert tests == (["test"] if is_scored else [])
        for split in tests:
            files = (
                unpacked / name / "runs" / run / f"{split}.hyp",
                unpacked / name / "references" / (result.get("data_set") or "") / split,
            )
            texts = [read_text(str(path)).splitlines() for path in files]
            expected = result["splits"][split]
            for found in (score(*texts), error_rates(*texts) if "wer" in expected else {}):
                for metric in ("sacrebleu", "chrf", "wer", "per"):
                    if metric in found:
                        assert found[metric] == pytest.approx(expected[metric])


def test_recipes_have_the_options_that_the_comparison_chose():
    compared = read_experiment(COMPARE).systems
    recipes = read_experiment(RECIPES).systems
    # Options from before the trials, in single precision.
    del recipes["single_precision"]
    assert len(recipes) == 7
    for name, recipe in recipes.items():
        trials = [
            parts["result"]
            for run, parts in COMPARED.items()
            if re.fullmatch(rf"{name}\.trial\d+", run)
        ]
        assert len(trials) == 4
        best = max(trials, key=lambda trial: trial["splits"]["valid"]["bleu"])
        assert recipe.train == {**compared[name].train, **best["trial_options"]}
        assert recipe.searches == compared[name].searches
        assert recipe.updates == compared[name].updates


def test_an_unpacked_folder_gives_the_tables(unpacked, capsys):
    out = unpacked / "multi30k_compare"
    assert main(["experiment", str(COMPARE), "--report", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    main_table = printed.partition("\n## ")[0]
    seeds = defaultdict(list)
    for parts in COMPARED.values():
        result = parts["result"]
        bleu = result["splits"]["valid"]["bleu"]
        if result["trial"] is not None or result["searches"]:
            assert f" {bleu:.2f} |" in printed
        else:
            # No table has the single seeds of a system that chooses no search.
            seeds[result["title"]].append(bleu)
    for title, scores in seeds.items():
        (line,) = [line for line in main_table.splitlines() if line.startswith(f"| {title} ")]
        assert f" {mean(scores):.2f} ± {stdev(scores):.2f} |" in line
