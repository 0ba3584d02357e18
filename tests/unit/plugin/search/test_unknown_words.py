"""Unknown words are replaced by the source word with the most attention, or its translation."""

import torch

from convs2s_plugin.search.unknown_words import UnknownWords
from tests.support.adapters import dictionary


def replacer(translations=()):
    source, target = dictionary(), dictionary()
    return UnknownWords(source, target, (len(source), len(target)), dict(translations))


def test_the_aligned_word_is_translated_or_copied():
    words = replacer({"w1": "w7", "w2": "new"})
    source = torch.tensor([1, 4, 5, 6, 2])  # padding, w0, w1, w2, end of sentence
    attention = torch.eye(5)[[1, 2, 3, 1]].t()  # to w0, w1, w2, w0
    tokens = torch.tensor([3, 3, 3, 9])
    replaced = words.replace(tokens, source, attention)
    assert words.target.string(replaced) == "w0 w7 new w5"
    assert tokens.tolist() == [3, 3, 3, 9]
    assert len(words.target) == len(dictionary()) + 1


def test_padding_and_end_of_sentence_never_count():
    words = replacer()
    attention = torch.tensor([[0.5], [0.1], [0.0], [0.4]])
    replaced = words.replace(torch.tensor([3]), torch.tensor([1, 4, 5, 2]), attention)
    assert words.target.string(replaced) == "w0"
    assert words.replace(torch.tensor([3]), torch.tensor([1, 2]), attention[:2]).tolist() == [3]


def test_a_word_without_text_stays_unknown_with_one_warning(caplog):
    words = replacer()
    for _ in range(2):
        replaced = words.replace(torch.tensor([3]), torch.tensor([3, 2]), torch.ones(2, 1))
        assert replaced.tolist() == [3]
    assert caplog.text.count("Some unknown words stay <unk>") == 1
