"""examples/papers: fairseq knows the options of all experiments, and every file has a smoke run.

With CONVS2S_CASES, as ``make properties`` sets it, the smoke runs have more systems.
"""

import argparse
import json
import os
import shutil
import subprocess

import pytest
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY

from convs2s.cli import experiment as command
from convs2s.experiments import checks
from convs2s.experiments.reader import read_experiment
from convs2s.models.convs2s.layer_lists import parse_attention, parse_layers
from convs2s.models.convs2s.options import ConvS2SOptions
from convs2s_plugin.checks import check as find_faults
from convs2s_plugin.models.options import network_options
from tests.integration.examples.conftest import EXAMPLES
from tests.support.commands import server
from tests.support.doc_blocks import commands

PAPERS = EXAMPLES / "papers"
FILES = sorted(PAPERS.glob("*/*.yaml"))
# Systems to run in files with many: those that differ in more than sizes, or the last of these.
# Others run whole.
MANY = "CONVS2S_CASES" in os.environ
SOME = {
    "adl/iwslt16_en_de.yaml": ["transformer", "rnmt", "cnn_glu", "self_att_combined"],
    "adl/wmt17.yaml": ["increasing", "rnn_multi_att"],
    "convs2s/ablations.yaml": ["base", "no_positions"],
    "convs2s/multi30k.yaml": ["base", "attention_135"],
    "pervasive/iwslt14_de_en.yaml": ["max_attn", "k3_l16", "gated"],
    "pervasive/iwslt14_en_de.yaml": ["pervasive", "convs2s", "transformer", "rnnsearch"],
    "pervasive/multi30k.yaml": ["pervasive", "avg", "attn"],
}


@pytest.fixture(autouse=True)
def checks_in_this_process(monkeypatch):
    """The options of experiments are checked, and the models built, in this process."""
    monkeypatch.setattr(checks, "find_faults", find_faults)


def name(path):
    return str(path.relative_to(PAPERS))


@pytest.fixture
def dry_run(corpus, tmp_path, capsys):
    """A function that returns the commands of an experiment, each as a list of words."""
    folder = tmp_path / "bin"
    shutil.copytree(corpus / "bin", folder)
    # One dictionary for both languages, as some of the models need.
    shutil.copyfile(folder / "dict.de.txt", folder / "dict.en.txt")

    def dry_run(path):
        languages = ["--source", "de", "--target", "en"]
        words = [path, "--data-bin", folder, *languages, "--seeds", "1", "--dry-run"]
        return commands_of(words, capsys)

    return dry_run


def commands_of(arguments, capsys):
    """The commands that a dry run prints, each as a list of words."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args([*map(str, arguments)])) == 0
    return commands(capsys.readouterr().out)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_fairseq_knows_the_options(path, dry_run):
    printed = dry_run(path)
    trained = [words[1:] for words in printed if words[:1] == ["fairseq-train"]]
    systems = [s for s in read_experiment(path).systems.values() if s.runs_of is None]
    assert len(trained) == len(systems)
    for arguments in trained:
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=arguments)
        if args.arch.startswith("convs2s"):
            # An architecture with the name of the model has the defaults of its options only here.
            model = network_options(
                ConvS2SOptions, MODEL_DATACLASS_REGISTRY["convs2s"].from_namespace(args)
            )
            parse_layers(model.encoder_layers)
            layers = parse_layers(model.decoder_layers)
            parse_attention(model.decoder_attention, len(layers))
    # Without the checkpoint and the split, many translations are the same.
    searches = {
        tuple(words[words.index("--gen-subset") + 2 :])
        for words in printed
        if words[:1] == ["fairseq-generate"]
    }
    assert searches
    for search in searches:
        parser = options.get_generation_parser()
        user_dir = ["--user-dir", str(EXAMPLES.parent / "convs2s_plugin")]
        options.parse_args_and_arch(parser, ["data-bin", "--path", "x", *user_dir, *search])


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_system_is_on_its_page(path):
    page = (path.parent / "README.md").read_text(encoding="utf-8")
    assert path.name in page
    # The page names the depths of Figures 2, 7 and 8 in general.
    systems = [each for each in read_experiment(path).systems if "x" not in each or "_x" in each]
    if len(systems) > 1:
        assert [each for each in systems if f"`{each}`" not in page] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_models_of_smoke_runs_are_small(path, tmp_path, capsys):
    dictionary = Dictionary()
    for language in ("source", "target"):
        dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    languages = ["--source", "source", "--target", "target"]
    printed = commands_of([path, *languages, "--smoke", "--dry-run"], capsys)
    trained = [words[2:] for words in printed if words[:1] == ["fairseq-train"]]
    systems = [s for s in read_experiment(path).systems.values() if s.runs_of is None]
    assert len(trained) == len(systems)
    # The sizes of a smoke run make many systems the same.
    for arguments in {tuple(words[: words.index("--save-dir")]) for words in trained}:
        parser = options.get_training_parser()
        args = options.parse_args_and_arch(parser, input_args=[str(tmp_path), *arguments])
        model = tasks.setup_task(args).build_model(args)
        assert sum(each.numel() for each in model.parameters()) < 600_000
        assert args.max_update == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=name)
def test_smoke_run(path, tmp_path):
    chosen = SOME.get(name(path), [])[0 if MANY else -1 :]
    done = subprocess.run(
        [
            server().programs / "convs2s",
            "experiment",
            path,
            "--smoke",
            "--out",
            "out",
            *(["--systems", *chosen] if chosen else []),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    systems = {result["system"] for result in results}
    assert systems == (set(chosen) or read_experiment(path).systems.keys())
    assert all(result["updates"] == 2 for result in results)
