"""Candidates from n-best lists that are damaged, or lack what the training needs."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s_plugin.criterions.sequences.candidate_file import CandidateFile
from tests.support.sequence_training import SYMBOLS

SOURCE = torch.tensor([SYMBOLS.index("w3"), SYMBOLS.eos()])
LIST = "S-0\tw3\nH-0\t-1\tw1\nH-0\t-2\tw2\n"


def read(tmp_path, text, number=0):
    """The candidates of a sentence in a file with this text."""
    path = tmp_path / "train.nbest"
    path.write_text(text, encoding="utf-8")
    sample = {"id": torch.tensor([number]), "net_input": {"src_tokens": SOURCE.unsqueeze(0)}}
    (found,) = CandidateFile(str(path), SYMBOLS, SYMBOLS, 4, True)(sample)
    return [SYMBOLS.string(tokens) for tokens in found]


def test_candidates_in_the_order_of_the_file(tmp_path):
    assert read(tmp_path, LIST) == ["w1", "w2"]
    assert read(tmp_path, LIST + "H-0\t-3\t\n") == ["w1", "w2", ""]
    more = "".join(f"H-0\t-{number}\tw{number}\n" for number in range(3, 7))
    assert read(tmp_path, LIST + more) == ["w1", "w2", "w3", "w4"]


def test_a_number_beyond_the_data_needs_no_memory(tmp_path):
    far = LIST.replace("-0\t", f"-{10**17}\t")
    assert read(tmp_path, far + LIST) == ["w1", "w2"]
    assert read(tmp_path, far + LIST, number=10**17) == ["w1", "w2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LIST + "S-1\tw3\n", "no candidates for sentence 1 of the training data"),
        (LIST + "S-2\tw3\nH-2\t-1\tw1\n", "no candidates for sentence 1 of the training data"),
        (LIST + "S-1\tw3\nH-1\tw1 w2\n", "a line H-1 has 'w1 w2'"),
        (LIST + "S-1\tw3\nH-1\t-1\tw1 </s>\n", "1 has the word </s>, which is a special symbol"),
    ],
)
def test_a_sentence_without_candidates_is_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, text, number=1)
