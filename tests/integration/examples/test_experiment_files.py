"""The experiments in examples/: fairseq knows their options, and one of them runs."""

import argparse
import json
import re
import subprocess
from collections import Counter

import pytest
from fairseq import options

from convs2s.cli import experiment as command
from convs2s.experiments import checks
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.runs import round_sizes
from convs2s_plugin.checks import check as find_faults
from tests.integration.examples.conftest import EXAMPLES
from tests.support.commands import server
from tests.support.doc_blocks import DOCS, blocks, commands

# The files of examples/hydra are for fairseq-hydra-train.
FILES = sorted(path for path in EXAMPLES.glob("*/*.yaml") if path.parent.name != "hydra")
ADL_TABLES = EXAMPLES / "adl" / "tables.yaml"
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
}


@pytest.fixture
def text(corpus, tmp_path):
    """The tiny corpus with two test sets, which are small: a new model ends no sentence."""
    folder = tmp_path / "text"
    folder.mkdir()
    names = {"train": "train", "val": "valid", "test": "test", "test_2017_flickr": "valid"}
    for name, split in names.items():
        for language in ("de", "en"):
            lines = (corpus / f"{split}.{language}").read_text(encoding="utf-8").splitlines()
            kept = lines if name == "train" else lines[:4]
            (folder / f"{name}.{language}").write_text("\n".join(kept) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def dry_run(text, tmp_path, capsys, monkeypatch):
    """Prints the commands of an experiment and returns each as a list of words.

    Their options are checked in this process, and the models are built.
    """
    monkeypatch.setattr(checks, "find_faults", find_faults)

    def dry_run(path):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        words = [path, "--text", text, "--out", tmp_path / "out", "--dry-run", "--speed"]
        words += ["--source", "de", "--target", "en"]
        experiment = read_experiment(path)
        if experiment.data.sets:
            names = experiment.tuning.sets or [text.name]
            for name in names:
                (text.parent / name).exists() or (text.parent / name).symlink_to(text)
            words[2] = text.parent / "{set}"
            words += ["--sets", *names]
        assert command.run(parser.parse_args([*map(str, words)])) == 0
        assert not (tmp_path / "out").exists()
        return commands(capsys.readouterr().out)

    return dry_run


def check(printed):
    """fairseq's parsers accept the commands; returns the number of trainings."""
    trainings = 0
    for program, *arguments in printed:
        trainings += program == "fairseq-train"
        if program in PARSERS:
            options.parse_args_and_arch(PARSERS[program](), input_args=arguments)
    return trainings


def test_there_are_experiments():
    assert ADL_TABLES in FILES and EXAMPLES / "multi30k" / "compare.yaml" in FILES


def test_files_of_one_name_have_output_folders_of_their_own():
    """The tables of one would otherwise take the place of another's."""
    names = Counter(path.name for path in EXAMPLES.rglob("*.yaml"))
    shared = {name for name, number in names.items() if number > 1}
    outputs = {}
    for page in EXAMPLES.rglob("*.md"):
        text = page.read_text(encoding="utf-8").replace("\\\n", "")
        for path, given in re.findall(r"convs2s experiment (examples/\S+\.yaml)(.*)", text):
            if EXAMPLES.parent.joinpath(path).name in shared and "--smoke" not in given:
                out = re.search(r"--out (\S+)", given)
                assert out is not None, f"{page}: {path}{given}"
                outputs.setdefault(out[1], set()).add(path)
    assert len(outputs) > 3 and all(len(paths) == 1 for paths in outputs.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_fairseq_knows_the_options(path, dry_run):
    experiment = read_experiment(path)
    trained = [s for s in experiment.systems.values() if s.runs_of is None and not s.ensemble]
    trainings = [
        len(s.seeds) + len(s.trials) + sum(round_sizes(s, experiment.tuning)[1:]) for s in trained
    ]
    sets = max(1, len(experiment.tuning.sets))
    # --speed trains each system in three rounds, except those that have trials only and those that
    # translate to the source language.
    measured = [s for s in trained if s.seeds and not s.reverse]
    expected = sets * sum(trainings) + 3 * len(measured)
    assert check(dry_run(path)) == expected


def test_systems_of_the_readme(dry_run, tmp_path):
    added = entries(EXAMPLES / "adl" / "README.md")
    path = tmp_path / "tables.yaml"
    path.write_text(ADL_TABLES.read_text(encoding="utf-8") + added, encoding="utf-8")
    systems = read_experiment(path).systems
    assert list(systems)[-2:] == ["increasing", "mine"]
    # Each has two seeds and three measurements of speed; ConvS2S has three trials as well.
    assert check(dry_run(path)) == 5 * len(systems) + 3


def test_systems_of_the_page(dry_run, tmp_path):
    page = DOCS / "experiments.md"
    (file,) = (block.code for block in blocks(page) if block.title == "small.yaml")
    path = tmp_path / "small.yaml"
    path.write_text(file + entries(page), encoding="utf-8")
    assert list(read_experiment(path).systems) == [
        *("convs2s", "fconv", "transformer", "unnormalized"),
        *("teacher", "teachers", "backward", "distilled", "diversified"),
    ]
    # Seven systems are trained with two seeds, six of them have three measurements of speed, and
    # two of them two trials.
    assert check(dry_run(path)) == 7 * 2 + 6 * 3 + 2 * 2


def entries(page):
    """The systems that a page adds to a file."""
    text = page.read_text(encoding="utf-8")
    return "".join(re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.slow
def test_two_architectures_of_table_5(text, tmp_path):
    systems = ["cnn_cnn", "self_att_none"]
    done = subprocess.run(
        [
            *(server().programs / "convs2s", "experiment", ADL_TABLES, "--text", text),
            *("--systems", *systems, "--seeds", "1", "--limit-updates", "2", "--jobs", "2"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = tmp_path / "tables_out"
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))["results"]
    assert sorted(result["system"] for result in results) == systems
    for result in results:
        assert result["updates"] == 2
        assert list(result["splits"]) == ["valid", "test", "test_2017_flickr"]
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "| CNN, CNN " in table and "No run has more than 2 updates." in table
