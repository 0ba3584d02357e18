"""The metrics of ``convs2s evaluate`` against their libraries and hand-made counts."""

import random
from importlib import util
from urllib.error import URLError

import nltk
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER, bleu

from convs2s.common.errors import UserError
from convs2s.evaluation.comparison import evaluate, group_by_length
from convs2s.evaluation.metrics import (
    MetricOptions,
    cut_bytes,
    default_tokenizer,
    edit_distance,
    find_metrics,
    meteor,
)

HYPOTHESES = ["a dog runs over the grass .", "Two men see a dog .", "it 's green ."]
REFERENCES = ["a dog runs on the grass .", "two men see a small dog .", "it is green ."]


def scores(name, hypotheses, *references, **options):
    options = MetricOptions(**options)
    (metric,) = find_metrics([name], options)
    return metric.score(hypotheses, references, options)


def rouge(hypotheses, *references, **options):
    return scores("rouge", hypotheses, *references, **options).values


def test_sacrebleu_metrics():
    found = scores("bleu", HYPOTHESES, REFERENCES)
    assert found.values == {"BLEU": BLEU().corpus_score(HYPOTHESES, [REFERENCES]).score}
    assert found.settings.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
    lower = scores("bleu", HYPOTHESES, REFERENCES, lowercase=True)
    assert lower.values["BLEU"] > found.values["BLEU"] and "case:lc" in lower.settings
    expected = CHRF().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores("chrf", HYPOTHESES, REFERENCES).values == {"chrF": expected}
    found = scores("chrf++", HYPOTHESES, REFERENCES)
    expected = CHRF(word_order=2).corpus_score(HYPOTHESES, [REFERENCES]).score
    assert found.values == {"chrF++": expected} and "|nw:2|" in found.settings
    found = scores("ter", HYPOTHESES, REFERENCES)
    expected = TER().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert found.values == {"TER": expected} and "|tok:tercom|" in found.settings


def test_tokenizers():
    chinese = ["两只狗在草地上跑。"], ["两只狗在草地上奔跑。"]
    found = scores("bleu", *chinese, tokenize="zh")
    assert "tok:zh" in found.settings
    expected = BLEU(tokenize="zh").corpus_score(chinese[0], [chinese[1]]).score
    assert found.values == {"BLEU": expected}
    assert scores("bleu", *chinese).values["BLEU"] < expected
    # Tokenized BLEU is always that of tokens separated by spaces.
    assert "tok:none" in scores("tokenized_bleu", *chinese, tokenize="zh").settings


@pytest.mark.parametrize(
    "error, message",
    [
        (
            RuntimeError("\nMissing.\n\n    pip install sacrebleu[ja]\n"),
            r"ja-mecab \(--tokenize\): Missing\. pip install sacrebleu\[ja\]$",
        ),
        (URLError("no network"), "cannot download the model of the tokenizer ja-mecab"),
    ],
)
def test_a_tokenizer_that_is_not_installed(error, message, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(bleu, "_get_tokenizer", fail)
    with pytest.raises(UserError, match=message):
        find_metrics(["bleu"], MetricOptions(tokenize="ja-mecab"))


def test_the_default_tokenizer_is_that_of_sacrebleu():
    assert MetricOptions().tokenize == bleu.BLEU.TOKENIZER_DEFAULT == default_tokenizer("de")
    assert default_tokenizer("zh") == "zh"


def test_an_unknown_tokenizer():
    with pytest.raises(UserError, match="no tokenizer moses .* none, zh, 13a"):
        find_metrics(["bleu"], MetricOptions(tokenize="moses"))


def test_several_references():
    both = scores("bleu", HYPOTHESES, REFERENCES, HYPOTHESES)
    assert both.values["BLEU"] == pytest.approx(100) and both.settings.startswith("nrefs:2")


def test_tokenized_bleu_splits_at_spaces_and_smooths_nothing():
    # 13a splits "men." and finds a match that tokenized BLEU does not.
    same = scores("tokenized_bleu", ["two men .", "a b c d e"], ["two men.", "a b c d e"])
    other = scores("bleu", ["two men .", "a b c d e"], ["two men.", "a b c d e"])
    assert other.values["BLEU"] == pytest.approx(100)
    assert same.values["tokenized BLEU"] < 90
    # No 4-gram matches: BLEU as the papers print it is 0.
    assert scores("tokenized_bleu", ["a b c x"], ["a b c d"]).values == {"tokenized BLEU": 0}
    assert scores("bleu", ["a b c x"], ["a b c d"]).values["BLEU"] > 0


def test_error_rates_of_pronunciations():
    hypotheses = ["h a u s", "h u n t", "k a", ""]
    first = ["h a u s", "h u n d", "k a t s", "a"]
    found = scores("wer", hypotheses, first)
    assert found.values == {"WER": 75.0}
    # One substitution, and one and two deletions.
    assert scores("per", hypotheses, first).values == {"PER": 100 * (1 + 2 + 1) / 13}
    second = ["x", "h u n t", "k a", "a b"]
    assert scores("wer", hypotheses, first, second).values == {"WER": 25.0}
    assert scores("per", hypotheses, first, second).values == {"PER": 100 / (4 + 4 + 2 + 1)}


def test_error_rates_in_lower_case():
    for name, value in (("WER", 50.0), ("PER", 25.0)):
        texts = ["A b", "C d"], ["a b", "c e"]
        found = scores(name.lower(), *texts, lowercase=True)
        assert found.values == {name: value} and found.settings.endswith(", lower case")
        found = scores(name.lower(), *texts)
        assert found.values == {name: 100.0 if name == "WER" else 75.0}
        assert "lower case" not in found.settings


@pytest.mark.parametrize("seed", range(20))
def test_edit_distances_are_those_of_nltk(seed):
    draw = random.Random(seed)
    pair = [draw.choices("abc", k=draw.randint(0, 8)) for _ in range(2)]
    assert edit_distance(*pair) == nltk.edit_distance(*pair)


def test_rouge_by_hand():
    # 4 of 5 words of the reference are found, and 4 of 6 of the summary are right; of the bigrams
    # "a dog" alone is right; the longest common subsequence is "a dog on grass".
    found = rouge(["a dog sits there on grass"], ["a dog runs on grass"])
    f1 = lambda precision, recall: 200 * precision * recall / (precision + recall)  # noqa: E731
    assert found == pytest.approx(
        {
            "ROUGE-1 recall": 80,
            "ROUGE-1 F1": f1(4 / 6, 4 / 5),
            "ROUGE-2 recall": 100 * 2 / 4,
            "ROUGE-2 F1": f1(2 / 5, 2 / 4),
            "ROUGE-L recall": 80,
            "ROUGE-L F1": f1(4 / 6, 4 / 5),
        }
    )


def test_rouge_is_the_mean_over_summaries():
    found = rouge(["a dog runs", "a cat"], ["a dog runs", "two men"])
    assert found == dict.fromkeys(found, 50)


def test_rouge_of_several_references_takes_the_best():
    assert rouge(["a dog"], ["a cat"], ["a dog"])["ROUGE-1 F1"] == 100


def test_rouge_of_limited_length():
    summary, reference = ["a dog runs"], ["a dog runs"]
    assert rouge(summary, reference, summary_bytes=5)["ROUGE-1 recall"] == pytest.approx(
        100 * 2 / 3
    )
    assert rouge(summary, reference, summary_bytes=10)["ROUGE-1 recall"] == 100


@pytest.mark.parametrize(
    "references, kept",
    [
        (["两只狗", "Две собаки", "δύο σκύλοι"], "0 of their 21"),
        # A few names and numbers make no score.
        (["Две собаки и 3 CDs"], "4 of their 14"),
        ([". !"], "0 of their 0"),
    ],
)
def test_rouge_of_a_script_that_it_drops(references, kept):
    with pytest.raises(UserError, match=f"ROUGE cannot score these references: .* {kept}"):
        find_metrics(["rouge"], MetricOptions(), [["a dog"], references])
    find_metrics(["bleu"], MetricOptions(), [references])


def test_rouge_of_letters_with_accents():
    find_metrics(["rouge"], MetricOptions(), [["Größe", "tiếng Việt", "Łódź"]])


def test_stems_of_english_words():
    assert rouge(["dogs running"], ["dog runs"])["ROUGE-1 F1"] == 0
    assert rouge(["dogs running"], ["dog runs"], stem=True)["ROUGE-1 F1"] == 100


def test_bytes_are_cut_between_characters():
    assert cut_bytes("größe", 3) == "gr" and cut_bytes("größe", 4) == "grö"


def test_meteor_of_exact_matches():
    # One chunk: penalty 0.5 * (1/3)^3, and an F-mean of 1.
    three, two = (100 * (1 - 0.5 * (1 / words) ** 3) for words in (3, 2))
    found = meteor(["a dog runs"], [["a dog runs"]], MetricOptions()).values["METEOR"]
    assert found == pytest.approx(three)
    texts = ["a dog runs", "a cat"]
    found = meteor(texts, [texts], MetricOptions()).values["METEOR"]
    assert found == pytest.approx((three + two) / 2)


@pytest.mark.parametrize(
    "module, name, message",
    [("rouge_score", "rouge", "ROUGE needs rouge-score"), ("nltk", "meteor", "METEOR needs nltk")],
)
def test_missing_packages(module, name, message, monkeypatch):
    find = util.find_spec
    monkeypatch.setattr(
        "convs2s.evaluation.metrics.find_spec",
        lambda wanted: None if wanted == module else find(wanted),
    )
    with pytest.raises(UserError, match=message):
        find_metrics([name], MetricOptions())


def test_meteor_without_wordnet(monkeypatch, tmp_path):
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(UserError, match="METEOR needs WordNet .* nltk.downloader wordnet"):
        find_metrics(["meteor"], MetricOptions())


def test_unknown_metric():
    with pytest.raises(UserError, match="no metric bleurt .* bleu, chrf"):
        find_metrics(["bleu", "bleurt"], MetricOptions())


def test_one_sentence_is_not_tested():
    systems, lines = {"first": ["a b c"], "better": ["a b c d"]}, ["a b c d"]
    metrics = find_metrics(["bleu"], MetricOptions())
    groups = group_by_length([4])
    found = evaluate(systems, [lines], groups, "reference", metrics, MetricOptions())
    assert [each.tests for each in found.results] == [{}, {}]


def test_comparison_of_systems():
    systems = {"first": HYPOTHESES * 8, "same": HYPOTHESES * 8, "better": REFERENCES * 8}
    references = [REFERENCES * 8]
    groups = group_by_length([len(line.split()) for line in references[0]], [5])
    metrics = find_metrics(["bleu", "rouge"], MetricOptions())
    evaluation = evaluate(
        systems, references, groups, "reference", metrics, MetricOptions(), min_words=6
    )
    first, same, better = evaluation.results
    assert first.tests["BLEU"].p is None
    assert same.scores == first.scores and same.tests["BLEU"].p == 1
    assert better.scores["BLEU"] == pytest.approx(100) and better.tests["BLEU"].p < 0.01
    assert set(first.tests) == {"BLEU"} and "ROUGE-L F1" in first.scores
    assert first.length_ratio < 1 == better.length_ratio
    assert [(group.low, group.high, group.sentences) for group in first.by_length] == [
        (4, 4, 8),
        (7, 7, 16),
    ]
    long = [i for i in range(24) if i % 3 < 2]
    expected = BLEU().corpus_score(
        [systems["first"][i] for i in long], [[references[0][i] for i in long]]
    )
    assert first.by_length[1].bleu == expected.score
    assert (first.short, better.short) == (8, 8)
