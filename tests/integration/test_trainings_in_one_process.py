"""Several training runs in one process, as in a notebook or with hydra's multirun.

Each of them is like one in a process of its own.
"""

import json
import re
import subprocess

import pytest
import yaml

from tests.support.commands import (
    PLUGIN,
    assert_same_weights,
    fairseq,
    server,
    train,
    train_arguments,
)
from tests.support.commands import run as run_command

# Trains with each list of arguments in turn, and prints what happens in between.
NOTEBOOK = """
import json, sys
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train
for arguments in json.loads(sys.argv[1]):
    print("=== begin", flush=True)
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    try:
        train.main(convert_namespace_to_omegaconf(args))
    except ValueError as error:
        print("refused:", error)
"""
EPOCHS = ("--max-epoch", "3", "--no-epoch-checkpoints")
SLOW = (*EPOCHS, "--lr", "0.001")


def notebook(*trainings):
    """The output of each training; all run in one process."""
    words = json.dumps([[*map(str, arguments)] for arguments in trainings])
    done = subprocess.run(
        [server().programs / "python", "-c", NOTEBOOK, words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return (done.stdout + done.stderr).split("=== begin\n")[1:]


def test_the_second_is_like_one_alone(corpus, tmp_path):
    """Its best checkpoint is there, although the first one had a lower loss."""
    names = ("first", "second")
    logs = [("--log-file", tmp_path / f"{name}.log") for name in names]
    notebook(
        train_arguments(corpus, tmp_path / "first", *EPOCHS, *logs[0]),
        train_arguments(corpus, tmp_path / "second", *SLOW, "--patience", "1", *logs[1]),
    )
    train(corpus, tmp_path / "alone", *SLOW, "--patience", "1")
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        assert_same_weights(tmp_path / "alone" / name, tmp_path / "second" / name, atol=0, rtol=0)
    for name in names:
        assert len(re.findall("done training", (tmp_path / f"{name}.log").read_text())) == 1


def test_each_has_its_own_tensorboard(corpus, tmp_path):
    pytest.importorskip("tensorboardX")
    notebook(
        *(
            train_arguments(
                corpus,
                tmp_path / name,
                *("--max-epoch", "1", "--no-save"),
                *("--tensorboard-logdir", tmp_path / name / "board"),
            )
            for name in ("first", "second")
        )
    )
    for name in ("first", "second"):
        assert list((tmp_path / name / "board").rglob("events.out.tfevents.*"))


def test_the_folder_of_the_first_is_free_again(corpus, tmp_path):
    """Another process may train in it while the second one runs."""
    first, second = tmp_path / "first", tmp_path / "second"
    code = """
import fcntl, os, sys
from convs2s_plugin.compat import resuming
resuming.lock(sys.argv[1])
resuming.lock(sys.argv[2])
for folder in sys.argv[1:]:
    if os.fork() == 0:
        try:
            resuming.lock(folder)
        except ValueError:
            print("locked", folder, flush=True)
        os._exit(0)
    os.wait()
"""
    for folder in (first, second):
        folder.mkdir()
    done = subprocess.run(
        [server().programs / "python", "-c", code, first, second], capture_output=True, text=True
    )
    assert done.stdout == f"locked {second}\n", done.stderr[-2000:]


def test_the_second_without_the_task_that_reports_validations(corpus, tmp_path):
    """It is refused as it is alone, although the task of the first one is still there."""
    scheduler = ("--lr-scheduler", "reduce_lr_on_validation", "--max-epoch", "1", "--no-save")
    _, second = notebook(
        train_arguments(
            corpus, tmp_path / "first", *scheduler, "--task", "convs2s_translation", "--no-save"
        ),
        train_arguments(corpus, tmp_path / "second", *scheduler),
    )
    assert "refused: --lr-scheduler reduce_lr_on_validation is notified" in second


def test_the_second_after_a_failure(corpus, tmp_path):
    """A training that ended with an error leaves nothing behind, either."""
    folder = tmp_path / "folder"
    first, second = notebook(
        train_arguments(corpus, folder, *EPOCHS, "--best-checkpoint-metric", "x"),
        train_arguments(corpus, folder, *EPOCHS),
    )
    assert "refused: --best-checkpoint-metric is x" in first
    assert "done training" in second and (folder / "checkpoint_best.pt").exists()


@pytest.mark.parametrize("more", [(), ("checkpoint.patience=1",)], ids=["", "patience"])
def test_multirun_of_hydra(more, corpus, tmp_path):
    """The second run learns more slowly, so that all its losses are above those of the first."""
    small = {f"{side}_embed_dim": 16 for side in ("encoder", "decoder", "decoder_out")}
    layers = {"encoder_layers": "[(16, 3)]", "decoder_layers": "[(16, 3)]"}
    config = {
        "common": {"user_dir": str(PLUGIN), "cpu": True, "log_format": "simple"},
        "task": {"_name": "convs2s_translation", "data": str(corpus / "bin")},
        "dataset": {"max_tokens": 400, "num_workers": 0},
        "criterion": {"_name": "convs2s_cross_entropy"},
        "optimizer": {"_name": "adam"},
        "lr_scheduler": {"_name": "fixed"},
        "optimization": {"max_epoch": 3, "lr": [0.02]},
        "checkpoint": {"no_epoch_checkpoints": True},
        "model": {"_name": "convs2s_iwslt_de_en", **small, **layers},
    }
    text = "# @package _group_\n" + yaml.safe_dump(config)
    (tmp_path / "several.yaml").write_text(text, encoding="utf-8")
    fairseq(
        "hydra_train",
        *("-m", "--config-dir", tmp_path, "--config-name", "several"),
        *("optimization.lr=[0.02],[0.002]", *more),
        cwd=tmp_path,
    )
    folders = sorted({path.parent for path in (tmp_path / "multirun").rglob("*.pt")})
    assert len(folders) == 2
    for folder in folders:
        assert {path.name for path in folder.iterdir()} == {
            "checkpoint_best.pt",
            "checkpoint_last.pt",
        }
        assert_same_weights(
            folder / "checkpoint_best.pt", folder / "checkpoint_last.pt", atol=0, rtol=0
        )


def test_hydra_refuses_half_precision_on_a_cpu(corpus, tmp_path):
    done = run_command(
        "hydra_train",
        *("--config-dir", PLUGIN.parent / "examples" / "hydra", "--config-name", "convs2s_de_en"),
        *(f"task.data={corpus / 'bin'}", f"common.user_dir={PLUGIN}", "common.cpu=true"),
        "common.fp16=true",
        cwd=tmp_path,
    )
    assert done.returncode != 0 and "--fp16 trains only on GPUs" in done.stderr
