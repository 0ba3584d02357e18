"""examples/lenpen/tune.py on the tiny corpus."""

import re
import subprocess
import sys

from tests.support.commands import PLUGIN, generate

TUNE = PLUGIN.parent / "examples" / "lenpen" / "tune.py"


def test_best_value(corpus, trained):
    checkpoint = trained / "checkpoint_last.pt"
    done = subprocess.run(
        [
            *(sys.executable, TUNE, "--values", "0,1", "--gen-subset", "test"),
            *(corpus / "bin", "--path", checkpoint, "--cpu", "--max-tokens", "200"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    scores = dict(re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|$", done.stdout, re.MULTILINE))
    assert sorted(scores) == ["0", "1"]
    for alpha, score in scores.items():
        printed = generate(corpus, checkpoint, "--lenpen", alpha)
        assert score == re.search(r"BLEU4 = ([\d.]+)", printed).group(1)
    best = re.search(r"best: --lenpen (\S+)", done.stdout).group(1)
    assert float(scores[best]) == max(map(float, scores.values()))


def test_errors_of_fairseq_are_printed(corpus, tmp_path):
    done = subprocess.run(
        [sys.executable, TUNE, "--values", "1", corpus / "bin", "--path", tmp_path / "missing"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "fairseq-generate --lenpen 1.0 failed" in done.stderr
