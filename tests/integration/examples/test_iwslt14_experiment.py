"""examples/iwslt14: the experiment file, on the tiny corpus."""

import json
import subprocess

import pytest
import yaml
from fairseq import options

from tests.integration.examples.conftest import EXAMPLES
from tests.support.commands import server
from tests.support.doc_blocks import commands

FILE = EXAMPLES / "iwslt14" / "iwslt14.yaml"
SYSTEMS = yaml.safe_load(FILE.read_text(encoding="utf-8"))["systems"]


@pytest.fixture
def experiment(corpus, tmp_path):
    """A function that runs the experiment on the tiny corpus."""
    text = tmp_path / "text"
    text.mkdir()
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            (text / f"{split}.{language}").write_bytes(
                (corpus / f"{split}.{language}").read_bytes()
            )

    def experiment(*arguments):
        command = [server().programs / "convs2s", "experiment", FILE, "--text", text]
        done = subprocess.run(
            [*map(str, (*command, *arguments))], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return experiment


def test_fairseq_accepts_the_options_of_all_systems(experiment):
    trained, translated = [], []
    for program, *arguments in commands(experiment("--dry-run")):
        if program == "fairseq-train":
            parser = options.get_training_parser()
            trained.append(options.parse_args_and_arch(parser, input_args=arguments))
        elif program == "fairseq-generate":
            parser = options.get_generation_parser()
            translated.append(options.parse_args_and_arch(parser, input_args=arguments))
    assert [args.arch for args in trained] == [
        system["train"]["arch"] for system in SYSTEMS.values()
    ]
    assert len(translated) == 2 * len(SYSTEMS)
    # The paper's search has no length penalty, and the others divide by the length.
    assert sum(args.unnormalized for args in translated) == 4
    sixteen = [args for args in trained if args.batch_size == 16]
    assert {args.max_cells for args in sixteen} == {16 * 90 * 90} and len(sixteen) == 2


def test_two_updates(experiment, tmp_path):
    experiment("--systems", "convs2s", "--limit-updates", 2)
    results = json.loads((tmp_path / "iwslt14_out" / "results.json").read_text())["results"]
    assert [result["system"] for result in results] == ["convs2s"]
    # Both languages have a dictionary of their own.
    data_bin = tmp_path / "iwslt14_out" / "data" / "data-bin"
    assert (data_bin / "dict.de.txt").read_bytes() != (data_bin / "dict.en.txt").read_bytes()
