"""A small experiment, and what its output folder holds."""

import json

FILE = """
data: {source: de, target: en, text: text, bpe_merges: 20}
train: {task: convs2s_translation, lr: 2, total-num-update: "{updates}", fp16: true}
average: 2
seeds: [1, 2]
baseline: a
tuning: {updates: 0.5, seed: 3}
systems:
  a:
    updates: 8
    train: {arch: some, fp16: false}
    trials: {lr: [4, 3], dropout: [0.1]}
  "b, c":
    title: B
    updates: 5
    average: 1
    train: {arch: other}
  d:
    runs_of: a
    generate: {unnormalized: true}
"""
ALL = ["a.trial1", "a.trial2", "a.1", "a.2", "b_c.1", "b_c.2", "d.1", "d.2"]


def change(folder, old, new):
    """Change the experiment."""
    text = (folder / "words.yaml").read_text()
    assert old in text
    (folder / "words.yaml").write_text(text.replace(old, new))


def results(folder):
    """The results by the name of the run."""
    found = (folder / "words_out" / "runs").glob("*/result.json")
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def commands(folder):
    """The commands that were started."""
    lines = (folder / "words_out" / "commands.log").read_text().splitlines()
    return [line for line in lines if not line.startswith("# ")]
