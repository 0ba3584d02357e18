"""``--int8`` and ``convs2s quantize``: the translations of trained models stay the same."""

import pytest
import torch

from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from convs2s.nn.int8 import is_supported
from tests.conftest import WORDS
from tests.support.commands import (
    PLUGIN,
    TASK,
    alignments,
    fairseq,
    generate,
    hypotheses,
    refused,
    run,
    train_arguments,
)
from tests.support.translation import FIXTURES, LINES, MODELS, translate

needs_int8 = pytest.mark.skipif(not is_supported(), reason="needs a CPU with VNNI or AMX")


@pytest.fixture(scope="module")
def checkpoint(trained):
    return trained / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def small(checkpoint, tmp_path_factory):
    """The same model in int8."""
    path = tmp_path_factory.mktemp("int8") / "int8.pt"
    assert convs2s(["quantize", str(checkpoint), str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory):
    path = tmp_path_factory.mktemp("lexicon") / "lexicon.de-en"
    path.write_text("".join(f"{word} {word}-th 0.9\n" for word in WORDS), encoding="utf-8")
    return path


def assert_nearly_same_texts(printed, others):
    """The best hypotheses are the same, but for a sentence that the model is not sure of."""
    found, expected = (
        {number: best[0][1] for number, best in hypotheses(text).items()}
        for text in (printed, others)
    )
    assert found.keys() == expected.keys()
    assert sum(found[number] != expected[number] for number in expected) <= 1


@needs_int8
@pytest.mark.parametrize("name", MODELS)
def test_every_family_translates_as_in_single_precision(name, tmp_path):
    path, file = FIXTURES / f"{name}.pt", tmp_path / "int8.pt"
    expected = translate(path, LINES, tmp_path, "--scores")
    rows = translate(path, LINES, tmp_path, "--scores", "--int8")
    assert rows != expected
    for row, other in zip(rows, expected, strict=True):
        (score, text), (other_score, other_text) = row.split("\t"), other.split("\t")
        assert text == other_text
        assert float(score) == pytest.approx(float(other_score), abs=0.15)
    assert convs2s(["quantize", str(path), str(file)]) == 0
    assert translate(file, LINES, tmp_path, "--scores") == rows
    assert translate(file, LINES, tmp_path, "--scores", "--int8", "--workers", "2") == rows


@needs_int8
def test_the_command_itself(corpus, checkpoint):
    arguments = (corpus / "bin", "--user-dir", PLUGIN, *TASK, "--cpu", "--max-tokens", "200")
    printed = fairseq("generate", *arguments, "--path", checkpoint, "--int8")
    assert_nearly_same_texts(printed, generate(corpus, checkpoint))
    assert hypotheses(printed) != hypotheses(generate(corpus, checkpoint))


@needs_int8
def test_candidates_and_alignments(corpus, checkpoint, small, lexicon):
    arguments = ("--beam", "4", "--nbest", "2", "--print-alignment", "hard", *TASK)
    expected = generate(corpus, checkpoint, *arguments, "--lexicon", lexicon)
    assert len(alignments(expected)) == 24
    for path, options in ((checkpoint, ("--int8",)), (small, ())):
        found = generate(corpus, path, *arguments, *options, "--lexicon", lexicon)
        assert_nearly_same_texts(found, expected)
        assert alignments(found).keys() == alignments(expected).keys()
        everything = (*options, "--lexicon", lexicon, "--frequent-candidates", "1000")
        assert generate(corpus, path, *arguments, *everything) == generate(
            corpus, path, *arguments, *options
        )


@needs_int8
def test_ensembles(corpus, trained, checkpoint, small, tmp_path):
    earlier, its_small = trained / "checkpoint10.pt", tmp_path / "earlier.pt"
    assert convs2s(["quantize", str(earlier), str(its_small)]) == 0
    found = generate(corpus, f"{checkpoint}:{earlier}", *TASK, "--int8")
    assert_nearly_same_texts(found, generate(corpus, f"{checkpoint}:{earlier}", *TASK))
    assert generate(corpus, f"{small}:{its_small}", *TASK) == found
    assert generate(corpus, f"{small}:{earlier}", *TASK, "--int8") == found
    assert generate(corpus, small, *TASK) != found


def test_a_quantized_checkpoint_is_plain_data(checkpoint, small):
    old, new = (torch.load(path, weights_only=True) for path in (checkpoint, small))
    assert new["last_optimizer_state"] is None
    assert new["cfg"]["model"] == old["cfg"]["model"]
    integers = [tensor for tensor in new["model"].values() if tensor.dtype == torch.int8]
    assert sum(tensor.numel() for tensor in integers) > 0.8 * sum(
        tensor.numel() for tensor in old["model"].values()
    )


def test_training_is_not_continued_in_int8(corpus, small, checkpoint, tmp_path):
    arguments = train_arguments(corpus, tmp_path, "--max-update", "2", "--no-save", *TASK)
    reset = ("--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler")
    sentence = refused(run("train", *arguments, "--restore-file", small, *reset))
    assert "A model in int8 cannot be trained" in sentence
    assert "--int8 is for generation" in refused(run("train", *arguments, "--int8"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("quantize", "SMALL", "NEW"), "cannot be quantized once more"),
        (("average", "--inputs", "SMALL", "--output", "NEW"), "cannot be averaged"),
    ],
)
def test_what_cannot_be_done_with_int8(arguments, message, small, tmp_path, capsys):
    paths = {"SMALL": str(small), "NEW": str(tmp_path / "new")}
    assert convs2s([paths.get(argument, argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "the checkpoint that `convs2s quantize` read" in error


@needs_int8
def test_half_precision_is_refused(corpus, small, checkpoint):
    half = ("--autocast-dtype", "bfloat16", *TASK)
    with pytest.raises(UserError, match="--int8 cannot be combined with half precision"):
        generate(corpus, checkpoint, *half, "--int8")
    with pytest.raises(UserError, match="A checkpoint in int8 cannot be combined"):
        generate(corpus, small, *half)
