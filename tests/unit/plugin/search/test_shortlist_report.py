"""The mean size of shortlists is logged when a generator is no longer used."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from convs2s.text.lexicon.files import Entry
from convs2s.translation.shortlist import build_shortlist
from convs2s_plugin.search.generator import TranslationGenerator, log_mean_size
from tests.support.adapters import dictionary, make
from tests.support.batches import random_batch


@torch.no_grad()
def translate():
    """Translate two batches with shortlists; returns the generator."""
    symbols = dictionary()
    shortlist = build_shortlist([Entry("w0", "w1", 1.0)], "file", symbols, symbols, 1, 9)
    models = [make("convs2s")]
    generator = TranslationGenerator(
        models, symbols, vocab_size=len(symbols), shortlist=shortlist, beam_size=2, max_len_b=5
    )
    for _ in range(2):
        generator.generate(models, random_batch([(3, 4), (5, 2)]))
    return generator


def reports(caplog):
    return [line for line in caplog.messages if line.startswith("candidate vocabularies")]


def test_the_report_comes_once_when_the_generator_is_deleted(caplog):
    with caplog.at_level("INFO"):
        generator = translate()
        assert not reports(caplog)
        del generator
    (report,) = reports(caplog)
    assert report.endswith("2 batches")


def test_a_batch_is_needed_for_a_report(caplog):
    with caplog.at_level("INFO"):
        log_mean_size([], 35)
        assert not reports(caplog)
        log_mean_size([6, 7, 10], 35)
    expected = "candidate vocabularies: 8 of 35 tokens on average (21.9%), 3 batches"
    assert reports(caplog) == [expected]


@pytest.mark.parametrize("close", [False, True])
def test_at_exit_the_report_is_written_unless_the_log_is_closed(close, tmp_path):
    code = (
        "import logging, sys\n"
        "log = open(sys.argv[1], 'w')\n"
        "logging.basicConfig(stream=log, level='INFO', force=True)\n"
        f"from {__name__} import translate\n"
        "generator = translate()\n"
        f"{'log.close()' if close else ''}\n"
    )
    root, log = Path(__file__).parents[4], tmp_path / "log"
    done = subprocess.run([sys.executable, "-c", code, log], cwd=root, capture_output=True)
    assert done.returncode == 0 and b"Logging error" not in done.stderr, done.stderr
    assert ("candidate vocabularies" in log.read_text()) != close
