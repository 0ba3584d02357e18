"""Experiments that are killed and started again end as if undisturbed, in every number.

CONVS2S_KILLS is the number of kills at random times; ``make faults`` sets it to 50.
"""

import os
import random
import shutil
import time

import pytest

from tests.support.killing import KilledExperiment

KILLS = int(os.environ.get("CONVS2S_KILLS", "0"))

# An epoch has 4 updates, so that the last checkpoints are those after 4, 8 and 10 updates.
EXPERIMENT = """
data: {source: de, target: en, text: text}
train:
  task: convs2s_translation
  criterion: convs2s_cross_entropy
  arch: convs2s_iwslt_de_en
  encoder-embed-dim: 16
  decoder-embed-dim: 16
  decoder-out-embed-dim: 16
  encoder-layers: "[(16, 3)]"
  decoder-layers: "[(16, 3)]"
  optimizer: adam
  lr: 0.02
  dropout: 0.1
  max-tokens: 500
  num-workers: 0
generate: {beam: 2, max-tokens: 400, num-workers: 0}
average: 3
systems:
  a: {updates: 10}
"""
MORE = """  b:
    updates: 10
    trials: {lr: [0.003, 0.02]}
    searches: [{beam: 1}, {lenpen: 2}]
tuning: {updates: 1.0}
"""


@pytest.fixture
def experiment(corpus, tmp_path):
    """Makes experiments on the corpus."""

    def make(name, text):
        (tmp_path / name / "text").mkdir(parents=True)
        for split in ("train", "valid", "test"):
            for language in ("de", "en"):
                shutil.copy(corpus / f"{split}.{language}", tmp_path / name / "text")
        return KilledExperiment(tmp_path / name, text)

    return make


@pytest.mark.slow
def test_kills_at_chosen_moments(experiment):
    expected = experiment("whole", EXPERIMENT).finish()
    assert expected["a.1"]["updates"] == 10
    killed = experiment("killed", EXPERIMENT)
    run = "e_out/runs/a.1"
    # Before the checkpoint after 8 updates has its name.
    killed.kill_while_saving("before 2")
    # After the last one, which the log does not mention yet; it continues after 4 updates.
    killed.kill_while_saving("after 2")
    log = (killed.folder / run / "train.log").read_text(encoding="utf-8")
    assert "done training" not in log and log.count("Saved checkpoint") == 2
    for name in ("average.log", "average.pt", "valid.out", "training.json"):
        killed.kill_when(f"{run}/{name}")
    assert killed.finish() == expected
    log = (killed.folder / run / "train.log").read_text(encoding="utf-8")
    assert "had already ended: num_updates: 10 >= max_update: 10" in log


@pytest.mark.slow
def test_a_training_run_that_alone_gets_ctrl_c_is_not_done(experiment):
    expected = experiment("whole", EXPERIMENT).finish()
    interrupted = experiment("interrupted", EXPERIMENT)
    interrupted.interrupt_training("after 1")
    log = (interrupted.folder / "e_out/runs/a.1/train.log").read_text(encoding="utf-8")
    assert "Interrupted: saving after this update" in log and "done training" not in log
    assert "Failed: a.1" in interrupted.printed
    assert interrupted.finish() == expected


@pytest.mark.skipif(not KILLS, reason="only `make faults` kills at random times")
def test_kills_at_random_moments(experiment):
    whole = experiment("whole", EXPERIMENT + MORE)
    start = time.monotonic()
    expected = whole.finish()
    seconds = time.monotonic() - start
    kills = number = 0
    numbers = random.Random(1)
    while kills < KILLS:
        number += 1
        killed = experiment(f"killed{number}", EXPERIMENT + MORE)
        while kills < KILLS and killed.kill_after(numbers.uniform(0, 0.7 * seconds)):
            kills += 1
        assert killed.finish() == expected, (number, kills)
        print(f"{kills} kills in {number} experiments: equal", flush=True)
        shutil.rmtree(killed.folder)
