"""The list of words that pages and code must not have."""

import pytest

from docs.words import WORDS, texts, wrong_words
from tests.support.doc_blocks import ROOT

pytestmark = pytest.mark.docs

# One for each entry of the list, in its order.
WRONG = [
    "Short trainings favor less dropout.",
    "It is the length of a training, in updates.",
    "The fault is mended.",
    "If you do not know it, leave it out.",
    "It is the checkpoint, else the folder.",
    "Measured on a machine that does nothing else.",
    "The name stands for a layer.",
    "A folder is no file.",
    "The file has one sentence a line.",
    "The text is lower-cased.",
    "It suits some ten thousand pairs.",
    "Remove it to begin anew.",
    "Read the layers from below to above.",
    "It can not be read.",
]


@pytest.mark.parametrize("wrong, sentence", [*zip(WORDS, WRONG, strict=True)])
def test_each_entry_finds_its_sentence(wrong, sentence):
    (fault,) = wrong_words(sentence)
    assert fault.endswith(f"write '{WORDS[wrong]}'")


@pytest.mark.parametrize(
    "sentence",
    [
        "A training run takes an hour; training batches are short, and a training step shorter.",
        "There is no file, and it is no longer needed.",
        "`--trainings` and ``lower-case`` are names.",
        "Pairs with more tokens are left out.",
    ],
)
def test_others_pass(sentence):
    assert [*wrong_words(sentence)] == []


def test_a_sentence_may_have_several_lines():
    assert len([*wrong_words("the curves of\n    trainings, and of a\ntraining.")]) == 2


@pytest.mark.parametrize(
    "name, line, content",
    [
        ("a.py", 2, 'def f():\n    """The curves of trainings."""\n'),
        ("a.py", 1, 'add("--log", help="the curves of "\n    "trainings")\n'),
        (
            "a.py",
            2,
            "raise E(\n    f\"no log of {', '.join(names)}, in two \"\n    f'trainings'\n)\n",
        ),
        ("a.py", 2, "x = 1\n# The curves of\n# trainings.\n"),
        ("a.yaml", 2, "x: 1\ny: 2  # the curves of trainings\n"),
    ],
)
def test_strings_and_comments_of_a_file(tmp_path, name, line, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert [number for number, text in texts(path) for _ in wrong_words(text)] == [line]


def test_the_code_is_not_a_text(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("trainings = {name: trainings(name) for name in names}\n", encoding="utf-8")
    assert [text for _, text in texts(path) if text] == []


def test_lint_checks_them():
    assert "docs/check_pages.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "docs/check_pages.py" in (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
