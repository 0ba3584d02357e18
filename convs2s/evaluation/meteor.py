"""METEOR of English text, by nltk.

Banerjee and Lavie, "METEOR: An Automatic Metric for MT Evaluation with Improved Correlation with
Human Judgments", ACL 2005 workshop. The parameters are those of nltk, which are not the tuned ones
of METEOR 1.5, so the scores do not compare with those of its Java program.
"""

from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec

from ..common.errors import UserError


def check_installed() -> None:
    """Check that nltk and WordNet are installed; nothing is downloaded.

    Raises:
        UserError: if one of them is not.
    """
    if find_spec("nltk") is None:
        raise UserError(
            'METEOR needs nltk: run `pip install "convs2s-plugin[evaluate]"`, or leave out the '
            "metric meteor."
        )
    try:
        import_module("nltk.corpus").wordnet.ensure_loaded()
    except LookupError as error:
        raise UserError(
            "METEOR needs WordNet for its synonyms: run `python -m nltk.downloader wordnet`, or "
            "leave out the metric meteor."
        ) from error


def version() -> str:
    """The version of nltk."""
    return metadata.version("nltk")


def meteor(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Mean METEOR of sentences in percent.

    Args:
        hypotheses: N translations; tokens are separated by spaces.
        references: one list of N references for each set of references; the best one counts.
    """
    score = import_module("nltk.translate.meteor_score").meteor_score
    values = [
        score([target.split() for target in targets], hypothesis.split())
        for hypothesis, *targets in zip(hypotheses, *references)
    ]
    return 100 * sum(values) / len(values)
