"""What fairseq-interactive keeps of the lines that it has translated."""

from argparse import Namespace

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli import interactive

from convs2s_plugin.compat import enable_all
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.adapters import dictionary

CONFIG = Namespace(
    generation=Namespace(constraints=None),
    dataset=Namespace(max_tokens=50, batch_size=None, skip_invalid_size_inputs_valid_test=False),
)


@pytest.mark.parametrize(
    ("task_class", "config"),
    [(TranslationTask, TranslationConfig), (ConvS2STranslationTask, ConvS2STranslationConfig)],
)
def test_nothing_is_kept(task_class, config):
    enable_all()
    task = task_class(config(), dictionary(), dictionary())
    cached = {"a training set": "its batches"}
    task.dataset_to_epoch_iter.update(cached)
    for _ in range(3):
        lines = ["w1 w2 w3", "w4", "w5 w6"] * 10
        batches = list(interactive.make_batches(lines, CONFIG, task, (100, 100), str))
        assert len(batches) > 1 and sum(len(batch.ids) for batch in batches) == len(lines)
        assert task.dataset_to_epoch_iter == cached
