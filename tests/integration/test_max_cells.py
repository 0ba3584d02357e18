"""``--max-cells``: no batch has a larger grid than the option allows."""

import re

import pytest

from convs2s.common.errors import UserError
from tests.integration.test_pervasive_fairseq import TINY
from tests.support.commands import TASK, generate, hypotheses, refused, run, train, train_arguments


def updates(log):
    return int(re.findall(r"num_updates (\d+)", log)[-1])


def test_training_validation_and_generation(corpus, tmp_path):
    arguments = ("--max-epoch", "1", "--num-layers", "2", "--batch-size", "24")
    without = train(corpus, tmp_path / "without", *arguments, "--no-save", options=TINY)
    log = train(corpus, tmp_path, *arguments, "--max-cells", "200", options=TINY)
    # Source and target have 2 to 7 words and an end of sentence.
    assert updates(without) == 10 and updates(log) >= 2 * 10
    words = re.compile(r"valid on .*? \| wpb ([\d.]+)")
    assert float(words.search(log).group(1)) < float(words.search(without).group(1))
    path = tmp_path / "checkpoint_last.pt"
    found = hypotheses(generate(corpus, path, *TASK, "--max-cells", "64"))
    assert sorted(found) == list(range(24))
    with pytest.raises(UserError, match="8 x 8 = 64 cells"):
        generate(corpus, path, *TASK, "--max-cells", "63")
    skip = "--skip-invalid-size-inputs-valid-test"
    lines = (corpus / "test.de").read_text("utf-8").splitlines()
    found = hypotheses(generate(corpus, path, *TASK, "--max-cells", "63", skip))
    assert sorted(found) == [i for i, line in enumerate(lines) if len(line.split()) < 7]


@pytest.mark.parametrize(
    "limit, said",
    [("20", "8 x 8 = 64 cells (source length times"), ("0", "--max-cells is 0, but must be")],
)
def test_impossible_limits_are_refused(corpus, tmp_path, limit, said):
    done = run(
        "train",
        *train_arguments(corpus, tmp_path, "--max-cells", limit, options=TINY),
    )
    assert said in refused(done)
