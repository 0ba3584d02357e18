"""N-best lists, their features, and minimum Bayes risk."""

import numpy as np
import pytest

from convs2s.common.errors import UserError
from convs2s.evaluation.nbest import (
    Hypothesis,
    NBest,
    first_texts,
    join,
    marked,
    read_nbest,
)
from convs2s.evaluation.reranking import Features, basic_features, expected_utilities, read_scores
from convs2s.evaluation.sentence_scores import SENTENCE_SCORES

OF_FAIRSEQ = """INFO: a line of the log
S-1\tb
T-1\tR@@ eference
H-1\t-0.5\tx@@ y z
D-1\t-0.5\tx@@ y z .
P-1\t-0.5 -0.5
S-0\ta a
T-0\tother
H-0\t-1.5\tu
D-0\t-1.5\tu !
H-0\t-2.5\t
D-0\t-2.5\t
"""


def test_lists_of_fairseq_in_the_order_of_the_text(tmp_path):
    path = tmp_path / "lists"
    path.write_text(OF_FAIRSEQ, encoding="utf-8")
    first, second = read_nbest(str(path), "subword_nmt")
    assert first.hypotheses == [Hypothesis("u !", "u", -1.5), Hypothesis("", "", -2.5)]
    assert (second.source, second.reference) == ("b", "Reference")
    assert second.hypotheses == [Hypothesis("xy z .", "x@@ y z", -0.5)]
    assert join("▁ein e ▁Zeile", "sentencepiece") == join("eine Zeile", "sentencepiece")
    assert join("eine Zeile", "sentencepiece") == "eine Zeile"
    features = basic_features([first, second])
    assert features.values["score"].tolist() == [-1.5, -2.5, -0.5]
    assert features.values["words"].tolist() == [2, 0, 3]
    assert features.best({"score": 1.0, "words": 0.0}).tolist() == [0, 2]
    assert features.best({"score": -1.0, "words": 0.0}).tolist() == [1, 2]
    with pytest.raises(UserError, match="for score, .* hypotheses have score, w"):
        features.best({"score": 1.0})


def test_marked_lines():
    assert marked(OF_FAIRSEQ, "H") == {1: ["-0.5\tx@@ y z"], 0: ["-1.5\tu", "-2.5\t"]}
    assert marked(OF_FAIRSEQ, "S") == {1: ["b"], 0: ["a a"]}
    assert marked(OF_FAIRSEQ, "P") == {1: ["-0.5 -0.5"]} and marked("H-\nH-1 a\n", "H") == {}


def test_lists_of_translate(tmp_path):
    path = tmp_path / "lists"
    path.write_text("1\t-0.5\ta b\n1\t-0.7\ta\n2\t-1.0\t\n", encoding="utf-8")
    assert [len(each.hypotheses) for each in read_nbest(str(path))] == [2, 1]


WRONG = {
    "": "has no n-best lists",
    "H-0\tx\ty\n": "line 1: 'x' is not the score of a hypothesis",
    "H-0\tnan\ty\n": "line 1: 'nan' is not the score of a hypothesis",
    f"H-{'9' * 15}\t-1\ta\n": "no hypothesis for sentence 0",
    "0\t-1\ta\n2\t-1\tb\n": "no hypothesis for sentence 1 .counted from 0; 1 of 3",
    "1.2.3\t-1.2.3\ta\n": "has no n-best lists",
    "H-0\t-1\ta\nH-2\t-1\tb\n": "no hypothesis for sentence 1 .counted from 0; 1 of 3",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_lists(text, tmp_path):
    (tmp_path / "lists").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=WRONG[text]):
        read_nbest(str(tmp_path / "lists"))


def test_scores_of_a_file(tmp_path):
    path = tmp_path / "scores"
    path.write_text("-1\n2.5\n", encoding="utf-8")
    assert read_scores(str(path), 2).tolist() == [-1, 2.5]
    with pytest.raises(UserError, match="has 2 scores, .* 3 hypotheses"):
        read_scores(str(path), 3)
    for text in ("x", "nan", "inf"):
        path.write_text(f"-1\n{text}\n", encoding="utf-8")
        with pytest.raises(UserError, match=f"line 2: '{text}' is not the score"):
            read_scores(str(path), 2)


def test_impossible_hypotheses(tmp_path):
    """Their scores are minus infinity, which no weight and no probability makes a NaN."""
    path = tmp_path / "lists"
    path.write_text("1\t-0.5\ta\n1\t-inf\tb\n2\t-inf\tc\n2\t-inf\td\n", encoding="utf-8")
    lists = read_nbest(str(path))
    features = basic_features(lists)
    values = {**features.values, "other": np.array([1.0, 0.0, 0.0, 1.0])}
    features = Features(values, features.bounds)
    assert features.best({"score": 0.0, "words": 0.0, "other": 1.0}).tolist() == [0, 3]
    assert features.best({"score": 1.0, "words": 0.0, "other": 0.0}).tolist() == [0, 2]
    utility = SENTENCE_SCORES["chrf"]()
    found = [expected_utilities(each.hypotheses, utility, 0.5).tolist() for each in lists]
    assert found == [[1.0, 0.0], [0.5, 0.5]]


@pytest.mark.parametrize("name", SENTENCE_SCORES)
def test_expected_utility(name):
    """Against the definition; the hypothesis that the others resemble has the highest one."""
    texts = ["a dog runs", "two cats sleep here", "a dog runs fast", "a dog jumps"]
    lists = NBest([Hypothesis(text, text, -i / 2) for i, text in enumerate(texts)])
    utility = SENTENCE_SCORES[name]()
    weights = [2 ** (-i / 2 / 0.5) for i in range(4)]
    expected = [
        sum(w * utility.score(one, other) for w, other in zip(weights, texts)) / sum(weights)
        for one in texts
    ]
    found = expected_utilities(lists.hypotheses, utility, 0.5)
    np.testing.assert_allclose(found, expected)
    equal = expected_utilities(lists.hypotheses, utility)
    means = [np.mean([utility.score(one, other) for other in texts]) for one in texts]
    np.testing.assert_allclose(equal, means)
    assert texts[int(equal.argmax())].startswith("a dog runs")


def test_one_text_of_each_sentence_in_the_output_of_fairseq_generate():
    """Text of a progress bar before a mark, and other lines, are passed over."""
    output = (
        "S-2\tx y\nT-2\tr s\nH-2\t-0.5\tb c\nH-2\t-0.7\tworse\nD-2\t-0.5\tbc\n"
        "S-0\tz\nT-0\t\nH-0\t-1\t\n| 12% H-1\t-0.1\tq\nGenerate: BLEU4 = 1.0\n"
    )
    assert first_texts(output, "H") == ["", "", "b c"]
    assert first_texts(output, "T", 4) == ["", "", "r s", ""]
    assert first_texts(output, "S", 1) == ["z"]
    assert first_texts("", "H") == []
