"""examples/iwslt14: the experiment file, on the tiny corpus."""

import json
import shlex
import subprocess

import pytest
import yaml
from fairseq import options

from tests.integration.examples.conftest import EXAMPLES
from tests.support.commands import server

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
    lines = experiment("--dry-run").splitlines()
    trained, translated = [], []
    for line in lines:
        program, *arguments = shlex.split(line, comments=True) or [""]
        if program == "fairseq-train":
            parser = options.get_training_parser()
            trained.append(options.parse_args_and_arch(parser, input_args=arguments))
        elif program == "fairseq-generate":
            parser = options.get_generation_parser()
            # The shell redirects the output.
            translated.append(options.parse_args_and_arch(parser, arguments[:-2]))
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


def test_estimate(load, monkeypatch, capsys):
    estimate = load("iwslt14/estimate.py")
    monkeypatch.setattr(
        estimate, "count_step", lambda *batch: estimate.Step(10**12, 10**9, 1000, 10**7)
    )
    monkeypatch.setattr("sys.argv", ["estimate.py"])
    estimate.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == list(SYSTEMS)
    # 40 epochs of batches of 16 pairs.
    assert dict(zip(SYSTEMS, (row[1] for row in rows)))["pervasive"] == "400,598"
    # To start 1000 operations takes 10 ms, and 2 * 10^11 FLOP take 26 ms on an A100, 7 on an H100.
    step = estimate.Step(2 * 10**11, 1, 1000, 1)
    assert [estimate.seconds(step, gpu) for gpu in estimate.GPUS.values()] == pytest.approx(
        [2e11 / (0.4 * 19.5e12), 0.01]
    )


def test_a_counted_step(load):
    step = load("iwslt14/estimate.py").count_step("convs2s_iwslt_de_en", 1, 4)
    # Three matrix multiplications with each weight, about: forward, and backward twice.
    assert step.operations > 100 and step.elements > step.parameters
    assert 0.5 < step.flops / (6 * 4 * step.parameters) < 1.5
