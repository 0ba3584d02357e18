"""``convs2s experiment`` from text to tables, on the tiny corpus."""

import gzip
import json
import shutil
import subprocess

import pytest

from tests.commands import server

CONVS2S = """
    train:
      arch: convs2s_iwslt_de_en
      encoder-embed-dim: 32
      decoder-embed-dim: 32
      decoder-out-embed-dim: 32
      encoder-layers: "[(32, 3)] * 2"
      decoder-layers: "[(32, 3)] * 2"
"""
EXPERIMENT = f"""
title: Numbers
data:
  source: de
  target: en
  text: text
  test: ["test*"]
  bpe_merges: 20
  joined_dictionary: true
train:
  task: convs2s_translation
  criterion: convs2s_cross_entropy
  optimizer: adam
  lr: 0.005
  lr-scheduler: polynomial_decay
  total-num-update: "{{updates}}"
  max-tokens: 200
  share-all-embeddings: true
  num-workers: 0
generate: {{beam: 2, max-tokens: 400, num-workers: 0}}
average: 2
seeds: [1, 2]
baseline: fconv
tuning: {{updates: 0.5, seed: 3}}
systems:
  convs2s:
    title: ConvS2S
    updates: 12
{CONVS2S.rstrip()}
    trials:
      - {{lr: 0.001}}
      - {{lr: 0.01, dropout: 0.3}}
  fconv:
    updates: 10
    average: 1
    train:
      task: translation
      criterion: cross_entropy
      arch: fconv_iwslt_de_en
      encoder-embed-dim: 16
      decoder-embed-dim: 16
      decoder-out-embed-dim: 16
      encoder-layers: "[(16, 3)]"
      decoder-layers: "[(16, 3)]"
      share-all-embeddings: null
  "ConvS2S, unnormalized":
    runs_of: convs2s
    generate: {{unnormalized: true}}
"""


@pytest.fixture
def folder(corpus, tmp_path):
    """A folder with the text, some of it compressed and with longer names, and a YAML file."""
    text = tmp_path / "text"
    text.mkdir()
    names = {"train": "train", "valid": "val.tok", "test": "test_1.lc.tok"}
    for split, name in names.items():
        for language in ("de", "en"):
            content = (corpus / f"{split}.{language}").read_bytes()
            (text / f"{name}.{language}.gz").write_bytes(gzip.compress(content))
    for language in ("de", "en"):
        shutil.copy(corpus / f"valid.{language}", text / f"test_2.lc.tok.{language}")
    (tmp_path / "numbers.yaml").write_text(EXPERIMENT, encoding="utf-8")
    return tmp_path


def command(*arguments):
    return [server().programs / "convs2s", "experiment", *map(str, arguments)]


def start(folder, *arguments, file="numbers.yaml"):
    """Run the command to its end."""
    return subprocess.run(
        command(file, *arguments), cwd=folder, capture_output=True, text=True, encoding="utf-8"
    )


def test_from_text_to_tables(folder):
    done = start(folder, "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr

    results = json.loads((folder / "numbers_out" / "results.json").read_text())["results"]
    assert len(results) == 8
