"""fairseq-train, fairseq-validate and fairseq-hydra-train with ConvS2S."""

import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import yaml

from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    TINY,
    assert_same_weights,
    command,
    fairseq,
    kill_forks,
    quick_command,
    run,
    train,
    train_arguments,
    weights,
)


def perplexities(log):
    return [
        float(line.split(" | ppl ")[1].split()[0])
        for line in log.splitlines()
        if "valid on" in line
    ]


def test_training_learns_with_default_task_and_criterion(trained):
    log = (trained / "log").read_text(encoding="utf-8")
    values = perplexities(log)
    assert len(values) == 12 and values[-1] < values[0] / 3


def test_the_checkpoint_is_plain_data(trained):
    model = weights(trained / "checkpoint_last.pt")
    assert model["encoder.embed.words.weight"].shape[1] == 32


def test_validate_reports_the_loss_of_the_training(trained, corpus):
    log = (trained / "log").read_text(encoding="utf-8")
    output = fairseq(
        "validate",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        trained / "checkpoint_last.pt",
        "--task",
        "translation",
        "--max-tokens",
        "400",
        "--cpu",
        "--log-format",
        "simple",
    )
    reported = float(output.split(" | ppl ")[1].split()[0])
    assert reported == pytest.approx(perplexities(log)[-1], abs=0.02)


def test_label_smoothing_and_accuracy(corpus, tmp_path):
    log = train(
        corpus,
        tmp_path,
        "--criterion",
        "label_smoothed_cross_entropy",
        "--label-smoothing",
        "0.1",
        "--report-accuracy",
        "--max-epoch",
        "1",
    )
    assert "accuracy" in log and (tmp_path / "checkpoint_best.pt").exists()


def test_the_optimization_of_the_paper(corpus, tmp_path):
    """Nesterov momentum; each plateau divides the learning rate 0.25 by 10, down to 1e-4."""
    log = train(
        corpus,
        tmp_path,
        "--optimizer",
        "nag",
        "--lr",
        "0.25",
        "--momentum",
        "0.99",
        "--clip-norm",
        "0.1",
        "--lr-scheduler",
        "reduce_lr_on_plateau",
        "--lr-shrink",
        "0.1",
        "--stop-min-lr",
        "1e-4",
        # With a high threshold, plateaus come soon.
        "--lr-threshold",
        "0.3",
        "--max-epoch",
        "60",
        "--no-save",
    )
    rates = [
        float(line.split(" | lr ")[1].split()[0]) for line in log.splitlines() if " | lr " in line
    ]
    assert sorted(set(rates), reverse=True) == [0.25, 0.025, 0.0025, 0.00025]
    assert rates == sorted(rates, reverse=True) and len(rates) < 60


WHOLE_CORPUS = TINY[:-2] + ("--batch-size", "240", "--optimizer", "sgd", "--dropout", "0.0")
HALF_CORPUS = TINY[:-2] + ("--batch-size", "120", "--optimizer", "sgd", "--dropout", "0.0")


TASKS = pytest.mark.parametrize("task", [(), (*TASK, *CRITERION)], ids=["fairseq's", "ours"])


@TASKS
def test_update_freq_equals_a_larger_batch(task, corpus, tmp_path):
    common = ("--max-update", "2", "--disable-validation")
    train(corpus, tmp_path / "one", *common, options=WHOLE_CORPUS)
    train(corpus, tmp_path / "two", *common, *task, "--update-freq", "2", options=HALF_CORPUS)
    assert_same_weights(
        tmp_path / "one" / "checkpoint_last.pt",
        tmp_path / "two" / "checkpoint_last.pt",
        atol=1e-6,
        rtol=1e-4,
    )


def test_a_killed_run_resumes_to_the_same_end(corpus, tmp_path):
    common = ("--max-update", "40", "--save-interval-updates", "5", "--disable-validation")
    train(corpus, tmp_path / "whole", *common)
    killed = tmp_path / "killed"
    arguments = train_arguments(corpus, killed, *common)
    process = subprocess.Popen(
        quick_command("train", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert any("Saved checkpoint" in line for line in process.stdout), "no checkpoint"
        kill_forks()
    assert process.returncode != 0, "the run ended before it could be killed"
    log = fairseq("train", *arguments)
    assert "Loaded checkpoint" in log
    assert_same_weights(
        tmp_path / "whole" / "checkpoint_last.pt", killed / "checkpoint_last.pt", atol=0, rtol=0
    )


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@TASKS
def test_two_workers_equal_one_with_twice_the_batch(task, corpus, tmp_path):
    common = ("--max-update", "2", "--disable-validation")
    port = free_port()

    def worker(rank):
        return run(
            "train",
            *train_arguments(corpus, tmp_path / "two", *common, *task, options=HALF_CORPUS),
            "--distributed-init-method",
            f"tcp://127.0.0.1:{port}",
            "--distributed-rank",
            rank,
            "--distributed-world-size",
            "2",
            "--distributed-no-spawn",
            "--distributed-backend",
            "gloo",
            "--ddp-backend",
            "legacy_ddp",
        )

    with ThreadPoolExecutor(2) as pool:
        workers = list(pool.map(worker, range(2)))
    for done in workers:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    train(corpus, tmp_path / "one", *common, options=WHOLE_CORPUS)
    assert_same_weights(
        tmp_path / "two" / "checkpoint_last.pt",
        tmp_path / "one" / "checkpoint_last.pt",
        atol=1e-6,
        rtol=1e-4,
    )


def test_the_rate_of_a_single_epoch_ends_at_zero(corpus, tmp_path):
    options = ("--lr-scheduler", "budgeted", "--max-epoch", "1", "--update-freq", "2")
    more = ("--max-tokens", "100", "--log-interval", "1", "--no-save", "--disable-validation")
    log = train(corpus, tmp_path, *options, *more)
    rates = [float(rate) for rate in re.findall(r"lr=([\d.e-]+)", log)]
    assert len(rates) > 4 and rates[0] > rates[1] > rates[-2] > rates[-1] == 0.0


def test_bf16_on_a_cpu(corpus, tmp_path):
    log = train(corpus, tmp_path, "--bf16", "--max-epoch", "3", "--no-epoch-checkpoints")
    first, *_, last = perplexities(log)
    assert last < 0.8 * first
    # fairseq saves weights in single precision.
    for name, value in weights(tmp_path / "checkpoint_last.pt").items():
        assert value.equal(value.to(torch.bfloat16).float()), name


TRANSFORMER = (
    "--arch",
    "transformer_iwslt_de_en",
    "--encoder-layers",
    "1",
    "--decoder-layers",
    "1",
    *TINY[-8:],
)


@pytest.mark.parametrize("options", [TINY, TRANSFORMER], ids=["convs2s", "fairseq's"])
def test_training_with_fairseq_as_it_is(options, corpus, tmp_path):
    arguments = train_arguments(corpus, tmp_path, "--max-update", "2", options=options)
    log = fairseq("train", *arguments, env={**os.environ, "CONVS2S_COMPAT": "0"})
    assert "num_updates 2" in log and (tmp_path / "checkpoint_last.pt").exists()


def test_tensorboard(corpus, tmp_path):
    train(corpus, tmp_path, "--max-epoch", "1", "--tensorboard-logdir", tmp_path / "board")
    assert list((tmp_path / "board").rglob("events.out.tfevents.*"))


HYDRA_FOLDER = PLUGIN.parent / "examples" / "hydra"


def hydra_arguments(corpus, folder, config_folder, *overrides):
    """The arguments of fairseq-hydra-train for one epoch."""
    return (
        "--config-dir",
        config_folder,
        "--config-name",
        "convs2s_de_en",
        f"task.data={corpus / 'bin'}",
        f"common.user_dir={PLUGIN}",
        "common.cpu=true",
        "optimization.max_epoch=1",
        "dataset.num_workers=0",
        *overrides,
        f"checkpoint.save_dir={folder / 'checkpoints'}",
    )


def hydra(corpus, folder, config_folder, *overrides):
    """fairseq-hydra-train for one epoch; returns the trained weights."""
    arguments = hydra_arguments(corpus, folder, config_folder, *overrides)
    assert "valid" in fairseq("hydra_train", *arguments, cwd=folder)
    return weights(folder / "checkpoints" / "checkpoint_last.pt")


def test_hydra_with_the_shipped_yaml(corpus, tmp_path):
    layers = ('model.encoder_layers="[(16, 3)] * 2"', 'model.decoder_layers="[(16, 3)]"')
    model = hydra(corpus, tmp_path, HYDRA_FOLDER, *layers)
    assert model["encoder.blocks.convolutions.1.linear.weight_v"].shape == (32, 48)


def test_hydra_with_the_name_of_an_architecture(corpus, tmp_path):
    text = (HYDRA_FOLDER / "convs2s_de_en.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    config["model"] = {"_name": "convs2s_iwslt_de_en", "decoder_attention": True}
    (tmp_path / "convs2s_de_en.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    model = hydra(corpus, tmp_path, tmp_path)
    assert model["encoder.blocks.convolutions.3.linear.weight_v"].shape == (512, 768)
    assert len(model["decoder.embed.positions.weight"]) == 1025


def test_an_interrupted_run_of_hydra_saves(corpus, tmp_path):
    layers = ('model.encoder_layers="[(16, 3)]"', 'model.decoder_layers="[(16, 3)]"')
    more = ("dataset.max_tokens=20", "common.log_format=simple", "common.log_interval=1")
    arguments = hydra_arguments(corpus, tmp_path, HYDRA_FOLDER, *layers, *more)
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command("hydra_train", *arguments), cwd=tmp_path, stdout=file, stderr=file
        )
        try:
            deadline = time.monotonic() + 300
            while "num_updates=2" not in log.read_text():
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=300) == 130, log.read_text()
        finally:
            process.kill()
    assert "saving after this update" in log.read_text()
    assert "done training" not in log.read_text()
    last = torch.load(tmp_path / "checkpoints" / "checkpoint_last.pt", weights_only=True)
    assert last["extra_state"]["train_iterator"]["iterations_in_epoch"] >= 2
