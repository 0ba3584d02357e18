"""examples/papers: fairseq knows the options of all experiments, and one of each family runs."""

import argparse
import json
import shlex
import subprocess

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from convs2s_plugin.cli import experiment as command
from convs2s_plugin.convs2s.layer_lists import parse_attention, parse_layers
from convs2s_plugin.experiments.reader import read_experiment
from tests.commands import server
from tests.integration.examples.conftest import EXAMPLES

PAPERS = EXAMPLES / "papers"
FILES = sorted(PAPERS.glob("*/*.yaml"))


def name(path):
    return str(path.relative_to(PAPERS))


@pytest.fixture
def dry_run(corpus, capsys):
    """A function that returns the commands of an experiment, each as a list of words."""

    def dry_run(path):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        languages = ["--source", "de", "--target", "en"]
        words = [path, "--data-bin", corpus / "bin", *languages, "--seeds", "1", "--dry-run"]
        assert command.run(parser.parse_args([*map(str, words)])) == 0
        return [shlex.split(line, comments=True) for line in capsys.readouterr().out.splitlines()]

    return dry_run


@pytest.mark.parametrize("path", FILES, ids=name)
def test_fairseq_knows_the_options(path, dry_run):
    printed = dry_run(path)
    trained = [words[1:] for words in printed if words[:1] == ["fairseq-train"]]
    systems = [s for s in read_experiment(path).systems.values() if s.runs_of is None]
    assert len(trained) == len(systems)
    for arguments in trained:
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=arguments)
        if args.arch.startswith("convs2s"):
            # As fairseq-train does: an architecture with the name of the model has the defaults
            # of its options only here.
            model = convert_namespace_to_omegaconf(args).model
            parse_layers(model.encoder_layers)
            layers = parse_layers(model.decoder_layers)
            parse_attention(model.decoder_attention, len(layers))
    # Without the redirection, the checkpoint and the split, many translations are the same.
    searches = {
        tuple(words[words.index("--gen-subset") + 2 : words.index(">")])
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


@pytest.mark.parametrize(
    "path, system, trained",
    [
        ("convs2s/wmt14_en_fr.yaml", "greedy", "convs2s"),
        ("pervasive/iwslt14_en_de.yaml", "pervasive", "pervasive"),
        ("adl/iwslt16_en_de.yaml", "rnmt", "rnmt"),
    ],
)
def test_smoke_run(path, system, trained, tmp_path):
    done = subprocess.run(
        [
            *(server().programs / "convs2s", "experiment", PAPERS / path),
            *("--smoke", "--systems", system, "--out", "out"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert {result["system"] for result in results} == {system, trained}
    assert all(result["updates"] == 2 and result["parameters"] < 50_000 for result in results)
