"""fairseq-generate, fairseq-interactive and from_pretrained with a ConvS2S checkpoint."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from convs2s.cli import main as convs2s
from convs2s_plugin.models import ConvS2SModel
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
)

SENTENCES = 24


@pytest.fixture(scope="module")
def checkpoint(trained):
    return trained / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def model(checkpoint):
    (loaded,), _ = checkpoint_utils.load_model_ensemble([str(checkpoint)])
    return loaded.eval()


@pytest.fixture(scope="module")
def task(corpus):
    cfg = TranslationConfig(data=str(corpus / "bin"), source_lang="de", target_lang="en")
    return TranslationTask.setup_task(Namespace(**vars(cfg)))


def test_the_command_itself(corpus, checkpoint):
    """A new interpreter prints the same hypotheses as the in-process call of the other tests."""
    printed = fairseq(
        "generate",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        checkpoint,
        "--cpu",
        "--max-tokens",
        "200",
    )
    found = hypotheses(printed)
    assert sorted(found) == list(range(SENTENCES))
    assert "BLEU4 = " in printed
    assert found == hypotheses(generate(corpus, checkpoint))


@torch.no_grad()
def test_greedy_is_the_argmax_of_the_full_pass(corpus, checkpoint, model, task):
    found = hypotheses(generate(corpus, checkpoint, "--beam", "1", "--max-len-b", "20"))
    words = task.target_dictionary
    sources = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(sources):
        tokens = task.source_dictionary.encode_line(line, add_if_not_exist=False).long()
        prefix, total = [words.eos()], 0.0
        while len(prefix) == 1 or (prefix[-1] != words.eos() and len(prefix) <= 20):
            logits, _ = model(tokens.unsqueeze(0), None, torch.tensor([prefix]))
            scores = logits[0, -1].log_softmax(-1)
            scores[words.pad()] = -math.inf
            if len(prefix) == 1:
                scores[words.eos()] = -math.inf
            best = int(scores.argmax())
            total += float(scores[best])
            prefix.append(best)
        (score, text) = found[i][0]
        assert text == words.string(torch.tensor(prefix[1:]))
        assert score == pytest.approx(total / (len(prefix) - 1) / math.log(2), abs=1e-3)


WAYS = {
    "beam": (("--beam", 5), 1),
    "nbest": (("--beam", 4, "--nbest", 3), 3),
    "lenpen": (("--beam", 4, "--lenpen", 0.6), 1),
    "unnormalised": (("--beam", 4, "--unnormalized"), 1),
    "sampling": (("--sampling", "--sampling-topk", 5, "--beam", 3, "--nbest", 3), 3),
    "diverse groups": (("--diverse-beam-groups", 2, "--beam", 4, "--nbest", 4), 4),
    "diverse siblings": (("--diversity-rate", 0.5, "--beam", 4), 1),
    "one by one": (("--batch-size", 1), 1),
    "no repeated bigrams": (("--no-repeat-ngram-size", 2), 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_search_options(way, corpus, checkpoint):
    arguments, nbest = WAYS[way]
    printed = generate(corpus, checkpoint, *arguments)
    assert generate(corpus, checkpoint, *arguments, *TASK) == printed
    found = hypotheses(printed)
    assert sorted(found) == list(range(SENTENCES))
    for best in found.values():
        assert len(best) == nbest
        assert all(math.isfinite(score) and words for score, words in best)


@pytest.mark.parametrize("search", [("--beam", 5), WAYS["diverse groups"][0]])
def test_batches_do_not_change_translations(corpus, checkpoint, search):
    together, some, alone = (
        hypotheses(generate(corpus, checkpoint, *search, "--max-len-b", 20, *batches))
        for batches in ((), ("--batch-size", 3), ("--batch-size", 1))
    )
    for other in (some, alone):
        for i in together:
            for (score, words), (same_score, same_words) in zip(together[i], other[i]):
                assert words == same_words
                assert score == pytest.approx(same_score, abs=1e-4)


def test_prefixes_are_kept(corpus, checkpoint):
    printed = generate(corpus, checkpoint, "--prefix-size", 2, "--beam", 3)
    references = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    found = hypotheses(printed)
    assert sorted(found) == list(range(SENTENCES))
    for i, best in found.items():
        assert best[0][1].split()[:2] == references[i].split()[:2]


def test_score_reference_is_the_loss(corpus, checkpoint, model, task):
    printed = generate(corpus, checkpoint, "--score-reference")
    references = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    sources = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    found = hypotheses(printed)
    words = task.target_dictionary
    with torch.no_grad():
        for i, (source, reference) in enumerate(zip(sources, references)):
            tokens = task.source_dictionary.encode_line(source, add_if_not_exist=False).long()
            target = words.encode_line(reference, add_if_not_exist=False).long()
            prefix = torch.cat([target[-1:], target[:-1]])
            logits, _ = model(tokens.unsqueeze(0), None, prefix.unsqueeze(0))
            scores = logits[0].log_softmax(-1).gather(1, target.unsqueeze(1))
            assert found[i][0][0] == pytest.approx(float(scores.mean() / math.log(2)), abs=1e-3)
            assert found[i][0][1] == reference


def test_hard_alignments_point_at_source_tokens(corpus, checkpoint):
    printed = generate(corpus, checkpoint, "--print-alignment", "hard")
    sources = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    found, aligned = hypotheses(printed), alignments(printed)
    assert sorted(aligned) == list(range(SENTENCES))
    for i, text in aligned.items():
        pairs = [tuple(map(int, pair.split("-"))) for pair in text.split()]
        length = len(found[i][0][1].split())
        assert [target for _, target in pairs] == list(range(length))
        assert all(0 <= source < len(sources[i].split()) for source, _ in pairs)


def test_soft_alignments_are_distributions(corpus, checkpoint):
    printed = generate(corpus, checkpoint, "--print-alignment", "soft")
    aligned = alignments(printed)
    assert sorted(aligned) == list(range(SENTENCES))
    for text in aligned.values():
        for row in text.split():
            assert sum(map(float, row.split(","))) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignments_of_references(kind, corpus, checkpoint):
    printed = generate(corpus, checkpoint, "--score-reference", "--print-alignment", kind, *TASK)
    references = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    aligned = alignments(printed)
    assert sorted(aligned) == list(range(SENTENCES))
    for i, text in aligned.items():
        links, words = text.split(), references[i].split()
        if kind == "hard":
            assert [int(link.split("-")[1]) for link in links] == list(range(len(words)))
        else:
            # The end of the sentence has a row, too.
            assert len(links) == len(words) + 1
            for row in links:
                assert sum(map(float, row.split(","))) == pytest.approx(1.0, abs=1e-3)


def test_an_ensemble_averages_probabilities(corpus, trained):
    first, second = sorted(trained.glob("checkpoint?*[0-9].pt"))[-2:]
    arguments = ("--beam", 2, "--score-reference")
    both = hypotheses(generate(corpus, f"{first}:{second}", *arguments))
    alone = [hypotheses(generate(corpus, path, *arguments)) for path in (first, second)]
    for i in both:
        scores = [found[i][0][0] for found in alone]
        # The logarithm of a mean of probabilities is not below the mean of logarithms.
        assert sum(scores) / 2 - 1e-4 <= both[i][0][0]
    searched = hypotheses(generate(corpus, f"{first}:{second}", "--beam", 3))
    assert sorted(searched) == list(range(SENTENCES))


def test_averaged_checkpoints(corpus, trained, tmp_path):
    paths = [str(path) for path in sorted(trained.glob("checkpoint?*[0-9].pt"))]
    assert len(paths) == 3
    target = str(tmp_path / "average.pt")
    assert convs2s(["average", "--inputs", *paths, "--output", target]) == 0
    averaged = checkpoint_utils.load_checkpoint_to_cpu(target)["model"]
    singles = [checkpoint_utils.load_checkpoint_to_cpu(path)["model"] for path in paths]
    for name, tensor in averaged.items():
        torch.testing.assert_close(tensor, sum(s[name].double() for s in singles).float() / 3)
    assert sorted(hypotheses(generate(corpus, target))) == list(range(SENTENCES))


@pytest.mark.parametrize("kind", ["ordered", "unordered"])
def test_constraints(kind, corpus, checkpoint):
    """Each hypothesis has the constraints, unless its maximum length ends it."""
    wanted = [["zwölf-th", "elf-th elf-th"], [], ["zehn-th " * 9], ["zwei-th eins-th", "zwei-th"]]
    lines = ["\t".join([f"{word} drei", *words]) for word, words in zip(WORDS, wanted)]
    arguments = (
        *(corpus / "bin", "--user-dir", PLUGIN, "--path", checkpoint, "--cpu"),
        *("--source-lang", "de", "--target-lang", "en", "--constraints", kind),
        *("--buffer-size", "4", "--beam", "4", "--max-len-b", "8"),
    )
    printed = fairseq("interactive", *arguments, text="\n".join(lines) + "\n")
    found = [best[0][1] for _, best in sorted(hypotheses(printed).items())]
    assert len(found) == len(lines)
    for number in (0, 1, 3):
        assert all(words in found[number] for words in wanted[number])
    assert "zehn-th zehn-th" in found[2] and len(found[2].split()) == 8
    ours = fairseq("interactive", *arguments, *TASK, text="\n".join(lines) + "\n")
    assert hypotheses(ours) == hypotheses(printed)


def test_constraints_of_data_without_them(corpus, checkpoint):
    arguments = (corpus / "bin", "--user-dir", PLUGIN, "--path", checkpoint, "--cpu")
    done = run("generate", *arguments, "--max-tokens", "200", "--constraints")
    assert "these data have none: use fairseq-interactive" in refused(done)


IMPOSSIBLE = {
    "no checkpoint": (("--path", None), "There is no checkpoint to translate with: give --path."),
    "samples": (("--sampling",), "--sampling requires --nbest to be equal to --beam."),
    "two searches": (
        ("--sampling", "--nbest", 5, "--diverse-beam-groups", 2),
        "Only one kind of search is possible: omit all but one of --sampling,",
    ),
    "groups": (
        ("--beam", 5, "--diverse-beam-groups", 3),
        "--beam must be a multiple of --diverse-beam-groups.",
    ),
    "no beam": (("--beam", 0), "--beam is 0, but must be at least 1."),
    "no hypothesis": (("--nbest", 0), "--nbest is 0, but must be at least 1."),
    "prefix": (("--prefix-size", -1), "--prefix-size is -1, but must be at least 0."),
    "iterations": (
        ("--retain-iter-history",),
        "--retain-iter-history is for models that refine their translations in iterations",
    ),
    "sub-words": (("--remove-bpe", "bpe"), "--post-process (--remove-bpe) is bpe, but must be"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_options(name, corpus, checkpoint):
    options, reason = IMPOSSIBLE[name]
    path = () if options[-1] is None else ("--path", checkpoint, *options)
    arguments = (corpus / "bin", "--user-dir", PLUGIN, "--cpu", *TASK, "--max-tokens", "200")
    assert reason in refused(run("generate", *arguments, *path))


def test_a_translation_model_is_no_language_model(corpus, checkpoint):
    arguments = (corpus / "bin", "--user-dir", PLUGIN, "--path", checkpoint, "--cpu", *TASK)
    done = run("generate", *arguments, "--max-tokens", "200", "--lm-path", checkpoint)
    assert "--lm-path names a translation model" in refused(done)


@pytest.mark.parametrize("option", [("--score-reference",), ("--prefix-size", "1")])
@pytest.mark.parametrize("task", [(), TASK], ids=["fairseq's", "ours"])
def test_interactive_has_no_translations(task, option, corpus, checkpoint):
    arguments = (corpus / "bin", "--user-dir", PLUGIN, "--path", checkpoint, "--cpu", *task)
    done = run("interactive", *arguments, *option, text="eins\n")
    assert f"{option[0]} needs translations, but fairseq-interactive" in refused(done)


def test_interactive_without_a_checkpoint(corpus):
    done = run("interactive", corpus / "bin", "--user-dir", PLUGIN, "--cpu", *TASK, text="eins\n")
    assert "a checkpoint with --path" in refused(done)


def test_a_constraint_that_was_an_unknown_word(corpus, checkpoint):
    """The first translation appends the word to the dictionary, but not to the model's."""
    printed = fairseq(
        *("interactive", corpus / "bin", "--user-dir", PLUGIN, "--path", checkpoint, "--cpu"),
        *(*TASK, "--constraints", "--replace-unk", "--unkpen", "-80", "--max-len-b", "4"),
        text="Anna\nzwei\tAnna\n",
    )
    assert "C-1\tAnna" in printed and "Anna" in hypotheses(printed)[0][0][1]
    assert len(hypotheses(printed)) == 2


def test_the_tokenizer_takes_the_languages_of_the_data(corpus, checkpoint):
    printed = fairseq(
        "interactive",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        checkpoint,
        "--cpu",
        *TASK,
        "--tokenizer",
        "moses",
        "--beam",
        2,
        text="eins zwei, drei\n",
    )
    assert "eins zwei <unk> drei" in printed and len(hypotheses(printed, "D")) == 1


def test_interactive_keeps_the_order_of_lines(corpus, checkpoint):
    lines = ["eins zwei drei", "", "unbekannt vier", "   ", "zehn"]
    printed = fairseq(
        "interactive",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        checkpoint,
        "--cpu",
        "--buffer-size",
        "5",
        "--max-tokens",
        "200",
        text="\n".join(lines) + "\n",
    )
    found = hypotheses(printed)
    assert sorted(found) == [0, 1, 2, 3, 4]
    one = fairseq(
        "interactive",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        checkpoint,
        "--cpu",
        text="zehn\n",
    )
    assert hypotheses(one)[0][0][1] == found[4][0][1]


def test_from_pretrained(corpus, trained):
    hub = ConvS2SModel.from_pretrained(str(trained), "checkpoint_last.pt", str(corpus / "bin"))
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()[:3]
    expected = hypotheses(generate(corpus, trained / "checkpoint_last.pt", "--beam", 5))
    assert hub.translate(lines, beam=5) == [expected[i][0][1] for i in range(3)]


def test_from_pretrained_with_sub_words(corpus, trained, tmp_path):
    """BPE is applied and removed; these codes split every word into letters."""
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n", encoding="utf-8")
    hub = ConvS2SModel.from_pretrained(
        str(trained),
        "checkpoint_last.pt",
        str(corpus / "bin"),
        bpe="subword_nmt",
        bpe_codes=str(codes),
    )
    assert hub.apply_bpe("zehn").split() == ["z@@", "e@@", "h@@", "n"]
    assert "@@" not in hub.translate("zehn", beam=2)
