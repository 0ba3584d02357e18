"""The forecast of a training's time, from the operations of its network."""

import pytest
import torch

from convs2s.experiments.training import forecast
from convs2s.experiments.training.request import Data
from convs2s.models.convs2s.architectures import ARCHITECTURES
from convs2s.models.convs2s.network import ConvS2S
from convs2s.models.convs2s.options import ConvS2SOptions
from convs2s.models.interface import Vocabularies
from convs2s.nn.flops import count_matmul_flops
from convs2s.text.binarize import LARGE, count_tokens, write_numbers
from convs2s.text.vocabulary import Vocabulary

WORDS, SOURCE, TARGET = 3000, 40, 30


@pytest.mark.parametrize("name", ["convs2s_iwslt_de_en", "convs2s_wmt_en_de"])
def test_multiplications_are_those_of_the_network(name):
    options = ConvS2SOptions(**ARCHITECTURES[name].options)
    network = ConvS2S(options, Vocabularies(WORDS, WORDS))
    source, target = torch.full((1, SOURCE), 5), torch.full((1, TARGET), 5)
    counted = count_matmul_flops(lambda: network(source, target)).flops
    forecasted = 2 * forecast.multiplications(options, SOURCE, TARGET, WORDS)
    assert forecasted == pytest.approx(counted, rel=0.05)


@pytest.mark.parametrize("size", [100, LARGE])
def test_count_of_binarized_tokens(tmp_path, size):
    write_numbers(tmp_path / "train.de-en.de", [[5, 6, 2], [2], [7, 2]], size)
    assert count_tokens(tmp_path / "train.de-en.de") == 6


def test_more_text_takes_longer_and_a_gpu_is_not_forecast(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "matrix_speed", lambda: 1e11)
    monkeypatch.setattr(forecast, "count_gpus", lambda: 0)
    words = Vocabulary()
    words.add_symbol("a")
    seconds = []
    for tokens in (1000, 2000):
        for language in ("de", "en"):
            words.save(tmp_path / f"dict.{language}.txt")
            write_numbers(tmp_path / f"train.de-en.{language}", [[4] * tokens], 5)
        seconds.append(forecast.forecast(Data(tmp_path, ("de", "en"), 1, True)))
    assert seconds[1] == pytest.approx(2 * seconds[0])
    monkeypatch.setattr(forecast, "count_gpus", lambda: 1)
    assert forecast.forecast(Data(tmp_path, ("de", "en"), 1, True)) is None


def test_speed_of_matrices_is_that_of_a_processor():
    assert 1e8 < forecast.matrix_speed() < 1e15
